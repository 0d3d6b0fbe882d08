package comity

import (
	"net/http"
	"strconv"
	"time"

	"github.com/comity/comity/internal/limit"
)

// limitRule is a Limit made ready: its identity within its destination and the
// names that errors show. It is immutable and shared by all who obey it.
type limitRule struct {
	Limit
	id    string // the written Name, or "#" and the position
	label string // Name, else N and Per of the text form
	text  string // N and Per of the text form
	unit  string // Unit, "requests" if empty
	rule  *limit.Rule
}

// ruleLimits numbers the limits of one policy, or those of a Config.
func ruleLimits(ls []Limit) []limitRule {
	if len(ls) == 0 {
		return nil
	}
	rules := make([]limitRule, len(ls))
	for i, l := range ls {
		text := rateText(l.N, l.Per)
		r := limitRule{Limit: l, id: l.Name, label: l.Name, text: text, unit: l.Unit, rule: l.rule()}
		if r.id == "" {
			r.id, r.label = "#"+strconv.Itoa(i), text
		}
		if r.unit == "" {
			r.unit = unitRequests
		}
		rules[i] = r
	}
	return rules
}

// unitRequests is the Unit of what is counted in calls.
const unitRequests = "requests"

// same reports whether a limiter made for r serves o as it is.
func (r *limitRule) same(o *limitRule) bool {
	return r.N == o.N && r.Per == o.Per && r.Burst == o.Burst && r.Algorithm == o.Algorithm &&
		(r.New == nil) == (o.New == nil)
}

// account is what one limiter of a pacer has left: a whole limit, or one key of it.
// The lock of its owner guards it.
type account struct {
	rule   *limitRule
	key    string
	lim    Limiter
	queued [classes]int32 // units that wait for it, by class
	common bool           // of Config.Limits
	slack  *slack         // its margin; nil until one is needed
}

// name is how errors and pages show b.
func (b *account) name() string {
	if b.rule.text == "" {
		return b.rule.label // a limiter of a Pacer
	}
	if b.rule.Name == "" && b.key == "" {
		return "limit " + b.rule.text
	}
	s := "limit "
	if b.rule.Name != "" {
		s += strconv.Quote(b.rule.Name) + " (" + b.rule.text
	} else {
		s += b.rule.text + " ("
	}
	if b.key != "" {
		if b.rule.Name != "" {
			s += ", "
		}
		s += "key " + printable(b.key)
	}
	return s + ")"
}

// printable returns s, quoted if it holds anything but plain text.
func printable(s string) string {
	if q := strconv.Quote(s); len(q) != len(s)+2 {
		return q
	}
	return s
}

// charge is what one call spends of one account.
type charge struct {
	rule *limitRule
	key  string
	n    int
	b    *account // nil until its pacer has bound it
	took bool     // n was taken from b
}

// priceLimits appends to cs what req spends of rules. It runs user code.
func priceLimits(cs []charge, rules []limitRule, req *http.Request, cost Cost) []charge {
	for i := range rules {
		r := &rules[i]
		if r.For != nil && !r.For(req) {
			continue
		}
		n := 1
		if c, ok := cost[r.unit]; ok {
			n = c
		} else if r.Cost != nil {
			n = r.Cost(req)
		}
		if n <= 0 {
			n = 0 // a call that costs nothing is still counted in settlements
		}
		c := charge{rule: r, n: n}
		if r.Key != nil {
			c.key = r.Key(req)
		}
		cs = append(cs, c)
	}
	return cs
}

// ledger is a set of accounts: those of a destination, or those of a Config.
// Its owner's lock guards it.
type ledger struct {
	limits []ledgerLimit
}

// ledgerLimit is one limit of a ledger and its accounts by key.
type ledgerLimit struct {
	rule  *limitRule
	one   *account
	keyed map[string]*account
}

// find returns the place of the limit with r's identity, or nil.
func (l *ledger) find(r *limitRule) *ledgerLimit {
	for i := range l.limits {
		if s := &l.limits[i]; s.rule == r || s.rule.id == r.id {
			return s
		}
	}
	return nil
}

// get returns the account of c, or nil.
func (l *ledger) get(c *charge) *account {
	s := l.find(c.rule)
	if s == nil {
		return nil
	}
	if c.key == "" {
		return s.one
	}
	return s.keyed[c.key]
}

// add makes the account of c with the limiter lim.
func (l *ledger) add(c *charge, lim Limiter, now time.Time) *account {
	s := l.find(c.rule)
	if s == nil {
		l.limits = append(l.limits, ledgerLimit{rule: c.rule})
		s = &l.limits[len(l.limits)-1]
	}
	b := &account{rule: c.rule, key: c.key, lim: lim}
	if c.key == "" {
		s.one = b
		return b
	}
	if s.keyed == nil {
		s.keyed = make(map[string]*account)
	}
	s.sweep(now)
	s.keyed[c.key] = b
	return b
}

// sweep forgets a few accounts whose loss changes no decision. A map is ranged
// over from a random place, so in the long run it sees them all.
func (s *ledgerLimit) sweep(now time.Time) {
	seen := 0
	for k, b := range s.keyed {
		if b.idle(now) {
			delete(s.keyed, k)
		}
		if seen++; seen == 4 {
			return
		}
	}
}

// idle reports whether forgetting b changes no decision.
func (b *account) idle(now time.Time) bool {
	for _, n := range b.queued {
		if n != 0 {
			return false
		}
	}
	if m := b.slack; m != nil && stampOf(now).Sub(m.last) < quietForget {
		return false // a margin that was learned lately
	}
	return limiterFull(b.lim, now)
}

// idle reports whether forgetting all of l changes no decision.
func (l *ledger) idle(now time.Time) bool {
	for i := range l.limits {
		s := &l.limits[i]
		if s.one != nil && !s.one.idle(now) {
			return false
		}
		for _, b := range s.keyed {
			if !b.idle(now) {
				return false
			}
		}
	}
	return true
}

// take spends all of cs at now, or nothing. by is the account that makes the
// call wait longest.
func take(cs []charge, now time.Time) (wait time.Duration, by *account, err error) {
	asked := len(cs)
	for i := range cs {
		c := &cs[i]
		c.took = false
		if c.off() {
			continue
		}
		w, e := c.b.lim.Take(now, c.n)
		if e != nil {
			wait, by, err, asked = 0, c.b, e, i
			break
		}
		c.took = w <= 0
		if d := c.b.late(now, c.n); d > 0 {
			if c.took {
				c.b.lim.Adjust(now, -c.n)
				c.took = false
			}
			w = max(w, d)
		}
		if c.took {
			c.b.lateTake(now, c.n)
		}
		if !c.took && (by == nil || w > wait) {
			wait, by = w, c.b
		}
	}
	if by != nil {
		give(cs[:asked], now)
	}
	return wait, by, err
}

// take is take for k, or look for one that takes nothing.
func (k *turn) take(cs []charge, now time.Time) (wait time.Duration, by *account, err error) {
	if k.peeks {
		return look(cs, now)
	}
	return take(cs, now)
}

// look says what take would, and leaves the limiters of this package alone: now may
// be any time.
func look(cs []charge, now time.Time) (wait time.Duration, by *account, err error) {
	for i := range cs {
		c := &cs[i]
		if c.off() {
			continue
		}
		w := time.Duration(0)
		if l, ok := c.b.lim.(limit.Limiter); ok {
			w = l.Wait(now, c.n)
		} else if w, err = c.b.lim.Take(now, c.n); err != nil {
			return 0, c.b, err
		} else if w <= 0 {
			c.b.lim.Adjust(now, -c.n)
		}
		if w = max(w, c.b.late(now, c.n)); w > 0 && (by == nil || w > wait) {
			wait, by = w, c.b
		}
	}
	return wait, by, nil
}

// give returns the units of cs, which were taken and not used.
func give(cs []charge, now time.Time) {
	for i := range cs {
		if c := &cs[i]; c.took {
			c.b.lim.Adjust(now, -c.n)
			c.b.lateGive(now, c.n)
			c.took = false
		}
	}
}

// queueUnits notes that the units of cs wait (sign 1) or no longer wait (sign -1).
func queueUnits(cs []charge, class uint8, sign int32) {
	for i := range cs {
		if c := &cs[i]; c.b != nil && !c.off() {
			c.b.queued[class] += sign * int32(min(c.n, 1<<20))
		}
	}
}

// freeAt is the earliest time at which units could be gone if nothing goes before
// start. It never errs on the late side: of a window it counts whole windows only.
func (b *account) freeAt(units int64, start, now time.Time) time.Time {
	r := b.rule
	if r.New != nil || r.N <= 0 || r.Per <= 0 {
		return start // a limiter of the caller's: its rate is not known
	}
	free := limiterFree(b.lim, now)
	ahead := float64(start.Sub(now)) / float64(r.Per)
	switch r.Algorithm {
	case TokenBucket, GCRA, LeakyBucket:
		free = min(free+ahead*float64(r.N), float64(max(r.Burst, 1)))
		if need := float64(units) - free; need > 0 {
			return start.Add(saturate(need * float64(r.Per) / float64(r.N)))
		}
	default:
		if ahead >= 1 {
			free = float64(r.N)
		}
		if need := units - int64(free); need > 0 {
			return start.Add(mulDuration(r.Per, (need-1)/int64(r.N)))
		}
	}
	return start
}

// saturate turns ns into a Duration of at most 100 years.
func saturate(ns float64) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	if ns >= float64(century) {
		return century
	}
	return time.Duration(ns)
}

// spend charges cs without asking.
func spend(cs []charge, now time.Time) {
	for i := range cs {
		c := &cs[i]
		if c.off() {
			continue
		}
		c.b.lim.Adjust(now, c.n)
		c.took = true
	}
}

// settle corrects what cs were charged by what was spent in the end, by unit. It
// reports whether units came free.
func settle(cs []charge, actual Cost, now time.Time) (freed bool) {
	for i := range cs {
		c := &cs[i]
		n, ok := actual[c.rule.unit]
		if n = max(n, 0); !ok || c.b == nil || n == c.n || c.rule.Shadow && !c.took {
			continue
		}
		freed = freed || n < c.n
		c.b.lim.Adjust(now, n-c.n)
		c.n = n
	}
	return freed
}
