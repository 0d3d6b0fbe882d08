package comity

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// readRules are what a dialect settles that headers alone do not say. The zero rules
// are those of Auto.
type readRules struct {
	only      []source // sources of quotas that are read; all if empty
	milli     []source // sources whose resets count milliseconds
	milliWait bool     // Retry-After counts milliseconds
	noItems   bool     // RateLimit itself is not read, only RateLimit-Policy
}

func (r *readRules) reads(s source) bool {
	return len(r.only) == 0 || slices.Contains(r.only, s)
}

// A parser reads one response.
type parser struct {
	h         http.Header
	now       time.Time
	readRules *readRules
	a         *Advice
	fields    []field
	clock     clock
	ready     bool // clock is set

	quotas   []report
	policies []statedPolicy
	name     string // of the quotas without one
	nameRank uint8
	tie      bool // a policy was chosen by the time to the reset
}

// maxFields is how many fields of one response are looked at: five for each
// quota, and the others.
const maxFields = 6 * maxQuotas

// parse reads what h says at now.
func parse(h http.Header, now time.Time, r *readRules) Advice {
	if !anyField(h) {
		return Advice{RetryAfter: -1}
	}
	var a Advice
	parseInto(h, now, r, &a)
	return a
}

// parseInto replaces *a by what h says at now. It keeps the memory of a.Quotas
// and a.Malformed.
func parseInto(h http.Header, now time.Time, r *readRules, a *Advice) {
	a.RetryAfter, a.Retry = -1, 0
	a.Quotas, a.Malformed = a.Quotas[:0], a.Malformed[:0]
	p := parser{h: h, now: now, readRules: r, a: a}
	p.read()
}

// anyField reports whether h says anything of limits at all: most do not.
func anyField(h http.Header) bool {
	for key := range h {
		if maybe(key) && fieldOf(key).kind > kindAge {
			return true
		}
	}
	return false
}

// maybe rules out at a glance most of the fields that say nothing of limits.
func maybe(key string) bool {
	if len(key) < 4 {
		return false
	}
	switch key[0] | 0x20 {
	case 'x':
		switch key[2] | 0x20 {
		case 'r':
			c := key[3] | 0x20
			return c == 'a' || c == 'l' || c == 'e' && len(key) == len("x-retry-in")
		case 's', 'm', 'h', 'g', 'o', 'd', 'c', 'a':
			return len(key) > len("x-sib-ratelimit")-2
		}
	case 'r':
		return key[1]|0x20 == 'a' || hasPrefixFold(key, "retry-")
	case 's':
		return key[1]|0x20 == 'f' || hasPrefixFold(key, "stripe-")
	case 'a':
		return key[1]|0x20 == 'n'
	case 'b':
		return hasPrefixFold(key, "beta-")
	case 'f', 'g':
		return key[1]|0x20 == 'a' || key[1]|0x20 == 'w'
	}
	return false
}

func (p *parser) read() {
	var buf [12]field
	p.fields = buf[:0]
	p.collect()
	rest := p.fields
	var delays, structured int
	for delays < len(rest) && rest[delays].kind < kindItems {
		delays++
	}
	p.answer(rest[:delays])
	rest = rest[delays:]
	if p.stored() {
		return
	}
	for structured < len(rest) && rest[structured].source <= fromBeta {
		structured++
	}
	p.structured(rest[:structured])
	rest = rest[structured:]
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && rest[n].source == rest[0].source && rest[n].source != fromSpecial &&
			strings.EqualFold(rest[n].name, rest[0].name) {
			n++
		}
		p.group(rest[:n])
		rest = rest[n:]
	}
	p.assemble()
}

// collect finds the fields and sorts them, so that a response is read the same
// way each time although a map has no order.
func (p *parser) collect() {
	var cut *field
	for key, lines := range p.h {
		if len(lines) == 0 {
			continue
		}
		f := fieldOf(key)
		f.lines = lines
		if f.kind == kindItems && isCount(lines[0]) {
			// Rule 6 of the grammar: a family alone holds the limit.
			f.kind, f.source, f.order, f.bare = kindLimit, fromFields, 4, true
		}
		if f.kind == noKind || f.kind >= kindItems && !p.readRules.reads(f.source) || f.kind == kindItems && p.readRules.noItems {
			continue
		}
		i := len(p.fields)
		if i == maxFields {
			if last := p.fields[i-1]; f.less(&last) {
				p.fields = p.fields[:i-1]
				f, last = last, f
				p.insert(last)
			}
			if cut == nil || f.less(cut) {
				c := f
				cut = &c
			}
			continue
		}
		p.insert(f)
	}
	if cut != nil {
		p.flag(cut)
	}
}

func (p *parser) insert(f field) {
	p.fields = append(p.fields, f)
	for i := len(p.fields) - 1; i > 0 && f.less(&p.fields[i-1]); i-- {
		p.fields[i], p.fields[i-1] = p.fields[i-1], p.fields[i]
	}
}

// less orders what is not of one quota by kind, then quotas by source and name.
func (f *field) less(g *field) bool {
	if f.kind < kindItems || g.kind < kindItems {
		if f.kind != g.kind {
			return f.kind < g.kind
		}
	} else {
		if f.source != g.source {
			return f.source < g.source
		}
		if c := compareFold(f.name, g.name); c != 0 {
			return c < 0
		}
		if f.kind != g.kind {
			return f.kind < g.kind
		}
	}
	if f.order != g.order {
		return f.order < g.order
	}
	return f.key < g.key
}

func compareFold(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		x, y := a[i], b[i]
		if x >= 'A' && x <= 'Z' {
			x |= 0x20
		}
		if y >= 'A' && y <= 'Z' {
			y |= 0x20
		}
		if x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// flag names f as dropped, in whole or in part.
func (p *parser) flag(f *field) { p.flagKey(f.key) }

func (p *parser) flagKey(key string) {
	if !slices.Contains(p.a.Malformed, key) {
		p.a.Malformed = append(p.a.Malformed, key)
	}
}

// answer reads the clock, the delay, the directives and the name of quotas.
func (p *parser) answer(fs []field) {
	p.clock = clock{ref: p.now}
	var date, age *field
	for i := range fs {
		f := &fs[i]
		switch f.kind {
		case kindDate:
			date = f
		case kindAge:
			age = f
		case kindShouldRetry:
			p.directive(f)
		case kindMaintenance:
			p.a.Retry = -1
		case kindName:
			p.naming(f)
		}
	}
	p.setClock(date, age)
	for len(fs) > 0 && fs[0].kind <= kindRetryIn && p.a.RetryAfter < 0 {
		n := 1
		for n < len(fs) && fs[n].kind == fs[0].kind {
			n++
		}
		if fs[0].kind >= kindRetryAfterMS {
			p.delay(fs[:n])
		}
		fs = fs[n:]
	}
}

// collectClock sets the clock for a reader that needs no other field.
func (p *parser) collectClock() {
	p.clock = clock{ref: p.now}
	var date, age *field
	for key, lines := range p.h {
		f := fieldOf(key)
		f.lines = lines
		switch {
		case len(lines) == 0:
		case f.kind == kindDate:
			date = &f
		case f.kind == kindAge:
			age = &f
		}
	}
	p.setClock(date, age)
}

// setClock takes the server's own clock for reference where that can be right:
// what it said is measured against the instant at which it said it.
func (p *parser) setClock(date, age *field) {
	if age != nil {
		if x, ok := parseNumber(trim(age.lines[0])); ok && x.n >= 1 && x.n <= 86400 && !x.big && x.frac == 0 {
			p.clock.age = time.Duration(x.n) * time.Second
		}
	}
	if date == nil || len(date.lines[0]) > maxDelay {
		return
	}
	if t, ok := parseHTTPDate(trim(date.lines[0]), p.now); ok && t.Sub(p.now).Abs() <= 24*time.Hour {
		p.clock.ref = t.Add(p.clock.age)
	}
}

// stored reports whether the response comes from a cache: then what it says of
// quotas is old.
func (p *parser) stored() bool { return p.clock.age > 0 }

// directive reads x-should-retry and its like. A no beats a yes.
func (p *parser) directive(f *field) {
	switch v := trim(f.lines[0]); {
	case strings.EqualFold(v, "true") && p.a.Retry == 0:
		p.a.Retry = 1
	case strings.EqualFold(v, "false"):
		p.a.Retry = -1
	}
}

// naming takes the first name that a field's value gives to unnamed quotas.
func (p *parser) naming(f *field) {
	if v := trim(f.lines[0]); isName(v) && (p.name == "" || f.order < p.nameRank) {
		p.name, p.nameRank = v, f.order
	}
}

// isName reports whether a field's value can name a quota.
func isName(s string) bool {
	if s == "" || len(s) > maxReset || s != trim(s) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// delay reads all spellings of one field of the Retry-After family.
func (p *parser) delay(fs []field) {
	for i := range fs {
		f := &fs[i]
		milli := f.milli || f.kind == kindRetryAfter && p.readRules.milliWait
		if d, _ := p.moment(f, maxDelay, milli); d > p.a.RetryAfter {
			p.a.RetryAfter = d
		}
	}
}

// moment reads the lines of a delay or a reset: each is read alone and the
// longest usable one counts. -1 if there is none.
func (p *parser) moment(f *field, limit int, milli bool) (time.Duration, form) {
	best, how := time.Duration(-1), noForm
	for i, line := range f.lines {
		if i == maxLines {
			p.flag(f)
			break
		}
		d, form := p.clock.read(line, limit, milli)
		switch {
		case form != noForm:
		case isList(line, limit):
			d, form = p.longest(f, line, limit, milli)
		default:
			p.flag(f)
			continue
		}
		if d > best && form != noForm {
			best, how = d, form
		}
	}
	return best, how
}

// isList reports whether s is a list of numbers. Dates have commas too.
func isList(s string, limit int) bool {
	if s = trim(s); len(s) > limit || !strings.Contains(s, ",") {
		return false
	}
	for member := range strings.SplitSeq(s, ",") {
		if _, ok := parseNumber(trim(member)); !ok {
			return false
		}
	}
	return true
}

// longest reads each member of a list of numbers as a line of its own.
func (p *parser) longest(f *field, s string, limit int, milli bool) (time.Duration, form) {
	best, how := time.Duration(-1), noForm
	for member := range strings.SplitSeq(s, ",") {
		d, form := p.clock.read(member, limit, milli)
		if form == noForm {
			p.flag(f)
		} else if d > best {
			best, how = d, form
		}
	}
	return best, how
}
