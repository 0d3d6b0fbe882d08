package comity

import (
	"strings"
	"time"
)

// A statedPolicy is a limit with its window, from RateLimit-Policy or from behind the
// limit in a list, as drafts 01 to 07 have it.
type statedPolicy struct {
	limit  int64
	frac   uint32 // billionths of a limit below 1, which is reported as 1
	window time.Duration
	blame  string
	used   bool
}

func isCount(s string) bool {
	_, _, ok := count(trim(s))
	return ok
}

// count reads a number of units. Decimals are cut off; frac tells a limit below
// 1 from 0.
func count(s string) (n int64, frac uint32, ok bool) {
	if len(s) > maxDelay {
		return 0, 0, false
	}
	x, ok := parseNumber(s)
	if !ok || x.big || x.n > maxNumber {
		return 0, 0, false
	}
	return int64(x.n), x.frac, true
}

// members walks the members of all lines of f, up to the caps. It flags f if
// there are more.
type members struct {
	p     *parser
	f     *field
	line  int
	rest  string
	n     int
	bytes int
	open  bool // rest holds what is left of a line
}

func (m *members) next() (string, bool) {
	for {
		if !m.open {
			if m.line == len(m.f.lines) {
				return "", false
			}
			if m.line == maxLines {
				m.p.flag(m.f)
				return "", false
			}
			m.rest, m.open = m.f.lines[m.line], true
			m.line++
			if trim(m.rest) == "" {
				m.p.flag(m.f)
			}
		}
		var s string
		before := len(m.rest)
		s, m.rest, m.open = cutMember(m.rest, ',')
		m.bytes += before - len(m.rest)
		if m.bytes > maxList {
			m.p.flag(m.f)
			return "", false
		}
		if s = trim(s); s == "" {
			continue // RFC 9110 section 5.6.1.2: empty members are ignored
		}
		if m.n == maxQuotas {
			m.p.flag(m.f)
			return "", false
		}
		m.n++
		return s, true
	}
}

// cutMember cuts s at the first sep outside quotes, within what a list may hold.
func cutMember(s string, sep byte) (member, rest string, found bool) {
	quoted := false
	for i := 0; i < len(s) && i <= maxList; i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == sep && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// member returns the member of f at index i, which zipped has counted.
func member(f *field, i int) string {
	for _, line := range f.lines {
		for s := range strings.SplitSeq(line, ",") {
			if i == 0 {
				return trim(s)
			}
			i--
		}
	}
	return ""
}

// limit reads a limit: the first member counts, what stands behind it are
// policies.
func (p *parser) limit(f *field, pick int, r *report, t *tally) {
	if pick >= 0 {
		if n, frac, ok := count(member(f, pick)); ok && r.Limit < 0 {
			t.limit = true
			r.Limit, r.frac = wholeLimit(n, frac)
		}
		return
	}
	if f.bare {
		if n, frac, ok := count(trim(f.lines[0])); ok && !t.limit {
			t.limit = true
			r.Limit, r.frac = wholeLimit(n, frac)
		}
		return
	}
	again := t.limit
	t.limit = true
	for m := (members{p: p, f: f}); ; {
		s, ok := m.next()
		if !ok {
			return
		}
		l, ok := p.readLimit(f, s)
		switch {
		case !ok || again && l.window < 0:
		case again || m.n > 1:
			p.keepPolicy(l)
		default:
			if l.limit >= 0 {
				r.Limit, r.frac = l.limit, l.frac
			}
			if l.window > 0 && !r.stated {
				r.Window, r.stated = l.window, true
			}
		}
	}
}

// readLimit reads N, N;w=S, N/duration or a duration alone, which is a window
// without a limit (AspNetCoreRateLimit).
func (p *parser) readLimit(f *field, s string) (l statedPolicy, ok bool) {
	l = statedPolicy{limit: -1, window: -1, blame: f.key}
	head, params, more := strings.Cut(s, ";")
	head = trim(head)
	n, frac, ok := count(head)
	if ok {
		l.limit, l.frac = n, frac
	} else if limit, window, cut := strings.Cut(head, "/"); cut {
		d, valid := parseDuration(capped(window))
		if n, frac, ok = count(limit); !ok || !valid || d <= 0 {
			p.flag(f)
			return l, false
		}
		l.limit, l.frac, l.window = n, frac, ceilMilli(d)
	} else if d, valid := parseDuration(capped(head)); valid && d > 0 {
		l.window = ceilMilli(d)
	} else {
		p.flag(f)
		return l, false
	}
	if more {
		if d := p.windowParam(f, params); d > 0 {
			l.window = d
		}
	}
	l.limit, l.frac = wholeLimit(l.limit, l.frac)
	return l, true
}

// wholeLimit cuts off the decimals of a limit. One below 1 is reported as 1 in a
// longer window, which frac keeps until that is known.
func wholeLimit(n int64, frac uint32) (int64, uint32) {
	if n == 0 && frac > 0 {
		return 1, frac
	}
	return n, 0
}

// capped returns s, or nothing if it is too long to be a number.
func capped(s string) string {
	if len(s) > maxDelay {
		return ""
	}
	return s
}

// windowParam reads the last w or window among parameters; the others are
// comments. -1 if there is none.
func (p *parser) windowParam(f *field, params string) time.Duration {
	window := time.Duration(-1)
	for more := true; more; {
		var param string
		param, params, more = cutMember(params, ';')
		key, value, _ := strings.Cut(param, "=")
		if key = trim(key); !equalFold(key, "w") && !equalFold(key, "window") {
			continue
		}
		d, _, ok := readWindow(value, false)
		if !ok {
			p.flag(f)
			continue
		}
		window = d
	}
	return window
}

// keepPolicy keeps a policy, once.
func (p *parser) keepPolicy(l statedPolicy) {
	for i := range p.policies {
		if q := &p.policies[i]; q.limit == l.limit && q.window == l.window && q.frac == l.frac {
			return
		}
	}
	if len(p.policies) == maxQuotas {
		p.flagKey(l.blame)
		return
	}
	p.policies = append(p.policies, l)
}

// counter reads a number of units that remain, of which the smallest counts, or
// that were used, of which the largest does. -1 if there is none.
func (p *parser) counter(f *field, pick int, r *report, largest bool) int64 {
	if pick >= 0 {
		n, _, _ := count(member(f, pick))
		return n
	}
	best := int64(-1)
	for m := (members{p: p, f: f}); ; {
		s, ok := m.next()
		if !ok {
			return best
		}
		head, params, more := strings.Cut(s, ";")
		n, _, ok := count(trim(head))
		if !ok {
			p.flag(f)
			continue
		}
		if best < 0 || largest == (n > best) {
			best = n
		}
		if more {
			if d := p.windowParam(f, params); d > 0 && !r.stated {
				r.Window, r.stated = d, true
			}
		}
	}
}
