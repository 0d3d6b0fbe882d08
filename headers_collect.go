package comity

import (
	"net/http"
	"sync"
	"time"
)

// A parser reads one response.
type parser struct {
	rules     *readRules
	a         *Advice
	date, age []string // lines of these fields
	fields    []field
	cut       string // first of the fields that are too many
	clock     clock

	quotas   []report
	spare    report // for those that are too many
	policies []statedPolicy
	name     string // of the quotas without one
	nameRank uint8
	tie      bool // a policy was chosen by the time to the reset

	own Advice // for a result, or to compare with one
}

// parsers keeps the memory of parsers for the next response.
var parsers = sync.Pool{New: func() any {
	return &parser{fields: make([]field, 0, 16), quotas: make([]report, 0, 8)}
}}

// release forgets what was read, so that no response is kept alive.
func (p *parser) release() {
	clear(p.fields)
	clear(p.quotas)
	clear(p.policies)
	clear(p.own.Quotas)
	*p = parser{
		fields: p.fields[:0], quotas: p.quotas[:0], policies: p.policies[:0], own: Advice{Quotas: p.own.Quotas[:0]},
	}
	parsers.Put(p)
}

// maxFields is how many fields of one response are looked at: five for each
// quota, and the others.
const maxFields = 6 * maxQuotas

// parse reads what h says at now.
func parse(h http.Header, now time.Time, r *readRules) Advice {
	p := collect(h, r)
	if p == nil {
		return Advice{RetryAfter: -1}
	}
	p.own = Advice{}
	p.a = &p.own
	p.read(now)
	a := p.own
	if len(a.Quotas) == 0 {
		a.Quotas = nil
	}
	p.own = Advice{}
	p.release()
	return a
}

// collect finds the fields of h and sorts them, so that a response is read the
// same way each time although a map has no order. It returns nil if h says
// nothing of limits, as most do.
func collect(h http.Header, r *readRules) *parser {
	var p *parser
	var date, age []string
	var dateKey, ageKey string
	for key, lines := range h {
		switch glance(key) {
		case noField:
			continue
		case dateField:
			if date == nil || key < dateKey {
				date, dateKey = lines, key
			}
			continue
		case ageField:
			if age == nil || key < ageKey {
				age, ageKey = lines, key
			}
			continue
		}
		f := fieldOf(key)
		if f.kind == noKind || len(lines) == 0 {
			continue
		}
		f.lines = lines
		if f.kind == kindItems && isCount(lines[0]) {
			// Rule 6 of the grammar: a family alone holds the limit.
			f.kind, f.source, f.order, f.bare = kindLimit, fromFields, 4, true
		}
		if f.kind >= kindItems && !r.reads(f.source) || f.kind == kindItems && r.noItems {
			continue
		}
		if p == nil {
			p = parsers.Get().(*parser)
			p.rules = r
		}
		p.collect(&f)
	}
	if p != nil {
		p.date, p.age = date, age
	}
	return p
}

// What a glance at a name tells.
const (
	noField = iota
	someField
	dateField
	ageField
)

// glance rules out most of the fields that say nothing of limits: it looks at a
// few bytes of each.
func glance(key string) int {
	if len(key) < len("x-rl-max") {
		switch {
		case len(key) == 4 && key[0]|0x20 == 'd' && equalFold(key, "date"):
			return dateField
		case len(key) == 3 && key[0]|0x20 == 'a' && equalFold(key, "age"):
			return ageField
		}
		return noField
	}
	second, third, fourth := key[1]|0x20, key[2]|0x20, key[3]|0x20
	some := false
	switch key[0] | 0x20 {
	case 'x':
		switch third {
		case 'r': // X-RateLimit, X-Rate-Limit, X-RL, X-Retry-In
			some = fourth == 'a' || fourth == 'l' || fourth == 'e' && len(key) == len("x-retry-in")
		case 's': // Sentry, SIB, Shopify, Should-Retry
			some = fourth == 'e' || fourth == 'i' || fourth == 'h'
		case 'm': // MS, Maintenance-Mode
			some = fourth == 's' || fourth == 'a'
		case 'a': // AMZN, of which there are many
			some = len(key) == len("x-amzn-ratelimit-limit")
		case 'c': // Contentful, but not Content-Type-Options
			some = len(key) > 9 && key[9]|0x20 == 'f'
		case 'h', 'g', 'o', 'd': // HubSpot, Gate, OGW, Discogs
			some = fourth == 'u' || fourth == 'a' || fourth == 'g' || fourth == 'i'
		}
	case 'r': // RateLimit, Rate-Limit, Retry-After
		some = second == 'a' || second == 'e' && third == 't'
	case 's': // Sforce, Stripe, but not Strict
		some = second == 'f' || second == 't' && key[4]|0x20 == 'p'
	case 'a': // Anthropic
		some = second == 'n'
	case 'b': // Beta
		some = second == 'e'
	case 'f': // Fastly
		some = second == 'a'
	case 'g': // gw
		some = second == 'w'
	}
	if some {
		return someField
	}
	return noField
}

// collect keeps f in its place, and the first of all if they are too many.
func (p *parser) collect(f *field) {
	if i := len(p.fields); i == maxFields {
		last := p.fields[i-1]
		if f.less(&last) {
			p.fields = p.fields[:i-1]
			p.insert(*f)
			f = &last
		}
		if p.cut == "" || f.key < p.cut {
			p.cut = f.key
		}
		return
	}
	p.insert(*f)
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
