package comity

import (
	"slices"
	"strings"
	"time"
)

// readRules are what a dialect settles that headers alone do not say. The zero
// readRules are those of Auto.
type readRules struct {
	only      []source // sources of quotas that are read; all if empty
	milli     []source // sources whose resets count milliseconds
	milliWait bool     // Retry-After counts milliseconds
	noItems   bool     // RateLimit itself is not read, only RateLimit-Policy
}

func (r *readRules) reads(s source) bool {
	return len(r.only) == 0 || slices.Contains(r.only, s)
}

// read reads what was collected.
func (p *parser) read(now time.Time) {
	if p.cut != "" {
		p.flagKey(p.cut)
	}
	p.clock = newClock(now, p.date, p.age)
	rest := p.fields
	var delays, structured int
	for delays < len(rest) && rest[delays].kind < kindItems {
		delays++
	}
	p.answer(rest[:delays])
	rest = rest[delays:]
	if p.clock.age > 0 {
		return // from a cache: what it says of quotas is old
	}
	for structured < len(rest) && rest[structured].source <= fromBeta {
		structured++
	}
	p.structured(rest[:structured])
	rest = rest[structured:]
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && rest[n].source == rest[0].source && rest[n].source != fromSpecial &&
			compareFold(rest[n].name, rest[0].name) == 0 {
			n++
		}
		p.group(rest[:n])
		rest = rest[n:]
	}
	p.assemble()
}

// flag names f as dropped, in whole or in part.
func (p *parser) flag(f *field) { p.flagKey(f.key) }

func (p *parser) flagKey(key string) {
	if !slices.Contains(p.a.Malformed, key) {
		p.a.Malformed = append(p.a.Malformed, key)
	}
}

// answer reads the delay, the directives and the name of quotas.
func (p *parser) answer(fs []field) {
	for i := range fs {
		switch f := &fs[i]; f.kind {
		case kindShouldRetry:
			p.directive(f)
		case kindMaintenance:
			p.a.Retry = -1
		case kindName:
			p.naming(f)
		}
	}
	p.a.RetryAfter = -1
	for len(fs) > 0 && fs[0].kind <= kindRetryIn && p.a.RetryAfter < 0 {
		n := 1
		for n < len(fs) && fs[n].kind == fs[0].kind {
			n++
		}
		p.delay(fs[:n])
		fs = fs[n:]
	}
}

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
		milli := f.milli || f.kind == kindRetryAfter && p.rules.milliWait
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
