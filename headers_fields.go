package comity

import (
	"strings"
	"time"

	"github.com/comity/comity/internal/sf"
)

// structured reads RateLimit and RateLimit-Policy, with and without Beta-.
func (p *parser) structured(fs []field) {
	for len(fs) > 0 {
		n := 1
		for n < len(fs) && fs[n].source == fs[0].source {
			n++
		}
		p.ietf(fs[:n])
		fs = fs[n:]
	}
}

// ietf reads the fields of one source. Policies come first, so that an item
// finds its own.
func (p *parser) ietf(fs []field) {
	start := len(p.quotas)
	for i := len(fs) - 1; i >= 0; i-- {
		f := &fs[i]
		s := trim(p.joined(f))
		switch {
		case s == "":
		case f.kind == kindPolicy && (isDigit(s[0]) || s[0] == '-'):
			for m := (members{p: p, f: f}); ; {
				member, ok := m.next()
				if !ok {
					break
				}
				if l, ok := p.readLimit(f, member); ok {
					p.keepPolicy(l)
				}
			}
		case f.kind == kindPolicy:
			p.listPolicies(f, s)
		case s[0] != '"' && isDict(s):
			p.dict(f)
		default:
			p.items(f, s, start)
		}
	}
}

// joined returns the lines of f as one. RFC 9110 section 5.3: a list may be sent
// on several lines.
func (p *parser) joined(f *field) string {
	if len(f.lines) == 1 {
		return f.lines[0]
	}
	if len(f.lines) > maxLines {
		p.flag(f)
	}
	return strings.Join(f.lines[:min(len(f.lines), maxLines)], ", ")
}

// isDict reports whether s is the Dictionary of draft 07.
func isDict(s string) bool {
	for more := true; more; {
		var member string
		member, s, more = cutMember(s, ',')
		switch key, _, _ := strings.Cut(trim(member), "="); key {
		case "limit", "remaining", "reset":
			return true
		}
	}
	return false
}

// dict reads the Dictionary of draft 07 member by member; of equal keys the last
// one counts.
func (p *parser) dict(f *field) {
	r := p.add(f, "")
	r.source = fromDict
	for m := (members{p: p, f: f}); ; {
		s, ok := m.next()
		if !ok {
			break
		}
		key, value, _ := strings.Cut(s, "=")
		value, _, _ = strings.Cut(value, ";")
		switch key {
		case "limit":
			n, frac, ok := count(value)
			if ok {
				r.Limit, r.frac = wholeLimit(n, frac)
			} else {
				p.flag(f)
			}
		case "remaining":
			n, _, ok := count(value)
			if ok {
				r.Remaining = n
			} else {
				p.flag(f)
			}
		case "reset":
			d, form := p.clock.read(value, maxReset, false)
			if form != noForm {
				r.Reset = d
			} else {
				p.flag(f)
			}
		}
	}
}

// listPolicies reads RateLimit-Policy of drafts 08 and later.
func (p *parser) listPolicies(f *field, s string) {
	start := len(p.quotas)
	flagged := len(p.a.Malformed)
	err := p.listPolicy(f, sf.NewReader(s), start)
	if err == nil {
		return
	}
	p.quotas, p.a.Malformed = p.quotas[:start], p.a.Malformed[:flagged]
	if fixed, ok := withoutKind(s); ok && p.listPolicy(f, sf.NewReader(fixed), start) == nil {
		return
	}
	p.quotas = p.quotas[:start]
	p.flag(f)
}

func (p *parser) listPolicy(f *field, list sf.Reader, start int) error {
	for n := 0; list.Next(); n++ {
		if n == maxQuotas || list.Pos() > maxList {
			p.flag(f)
			return nil
		}
		v := list.Value()
		r := p.add(f, v.Text)
		for {
			key, value, ok := list.Param()
			if !ok {
				break
			}
			switch key {
			case "q":
				r.Limit = p.integer(f, value, 0)
			case "w":
				r.Window, r.stated = -1, false
				if sec := p.integer(f, value, 1); sec > 0 {
					r.Window, r.stated = mulDiv(time.Second, sec, 1), true
				}
			case "qu":
				if r.Unit = value.Text; value.Kind != sf.String {
					r.Unit = ""
					p.flag(f)
				}
			}
		}
		switch {
		case r == &p.spare:
		case v.Kind != sf.String:
			p.flag(f)
			fallthrough
		case p.named(p.quotas[start:len(p.quotas)-1], v.Text) != nil:
			p.quotas = p.quotas[:len(p.quotas)-1]
		}
	}
	return list.Err()
}

// named returns the report of that name.
func (p *parser) named(rs []report, name string) *report {
	for i := range rs {
		if rs[i].Name == name {
			return &rs[i]
		}
	}
	return nil
}

// integer reads a parameter that must be an Integer of at least least; -1 if it
// is not.
func (p *parser) integer(f *field, v sf.Value, least int64) int64 {
	if v.Kind != sf.Integer || v.Int < least {
		p.flag(f)
		return -1
	}
	return v.Int
}

// items reads RateLimit of drafts 08 and later: each item completes the policy
// of its name. The list counts only if it is valid as a whole.
func (p *parser) items(f *field, s string, start int) {
	mark, flagged := len(p.quotas), len(p.a.Malformed)
	list := sf.NewReader(s)
	for n := 0; list.Next(); n++ {
		if n == maxQuotas || list.Pos() > maxList {
			p.flag(f)
			break
		}
		v := list.Value()
		r := p.add(f, v.Text)
		r.item = true
		for {
			key, value, ok := list.Param()
			if !ok {
				break
			}
			switch key {
			case "r":
				r.Remaining = p.integer(f, value, 0)
			case "t":
				r.Reset = p.seconds(f, value)
			}
		}
		if v.Kind != sf.String && r != &p.spare {
			p.flag(f)
			p.quotas = p.quotas[:len(p.quotas)-1]
		}
	}
	if list.Err() != nil {
		p.quotas, p.a.Malformed = p.quotas[:mark], p.a.Malformed[:flagged]
		p.flag(f)
		return
	}
	kept := mark
	for i := mark; i < len(p.quotas); i++ {
		r := &p.quotas[i]
		if q := p.named(p.quotas[start:kept], r.Name); q != nil {
			q.item = true
			q.tighten(r)
			continue
		}
		if i != kept {
			p.quotas[kept] = *r
		}
		kept++
	}
	clear(p.quotas[kept:])
	p.quotas = p.quotas[:kept]
}

// seconds reads the time to a reset, which some servers send as an epoch.
func (p *parser) seconds(f *field, v sf.Value) time.Duration {
	if v.Int >= 0 {
		x := number{n: uint64(v.Int)}
		if v.Kind == sf.Decimal {
			x = number{n: uint64(v.Int / 1000), frac: uint32(v.Int%1000) * 1_000_000}
		}
		if v.Kind == sf.Integer || v.Kind == sf.Decimal {
			if d, form := p.clock.number(x, false); form != noForm {
				return d
			}
		}
	}
	p.flag(f)
	return -1
}

// withoutKind mends what Hugging Face sends: "fixed window";"api";q=500;w=300,
// the kind of the policy where its name should be and the name behind it.
func withoutKind(s string) (string, bool) {
	var b strings.Builder
	mended := false
	for more := true; more && len(s) <= maxList; {
		var member string
		member, s, more = cutMember(s, ',')
		member = trim(member)
		if head, rest, ok := cutMember(member, ';'); ok && strings.HasPrefix(head, `"`) && strings.HasPrefix(trim(rest), `"`) {
			member, mended = trim(rest), true
		}
		b.WriteString(member)
		if more {
			b.WriteByte(',')
		}
	}
	return b.String(), mended
}
