package comity

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/comity/comity/internal/sf"
)

// A reader reads the answers of one destination, and remembers which fields its
// server sends so that the usual answer costs a few look-ups. It is safe for
// concurrent use, and ready as its zero value.
type reader struct {
	plans  atomic.Pointer[plans]
	n      atomic.Uint32 // answers read
	silent atomic.Uint32 // for each number of fields modulo 32: an answer of so many said nothing
}

// inFull is how often an accepted answer is read in full, in case the server
// has begun to send something.
const inFull = 100

// read replaces *a by what h says at now, in dialect d. It keeps the memory of
// a.Quotas and a.Malformed. A refusal is read in full.
func (r *reader) read(d *Dialect, h http.Header, now time.Time, refused bool, a *Advice) {
	rules := rulesOf(d)
	if rules == nil {
		*a = d.Parse(h, now)
		return
	}
	n := r.n.Add(1)
	if !refused && n%inFull != 0 && r.quick(h, now, rules, a) {
		return
	}
	a.RetryAfter, a.Retry = -1, 0
	a.Quotas, a.Malformed = a.Quotas[:0], a.Malformed[:0]
	p := collect(h, rules)
	if p == nil {
		if bit := uint32(1) << (len(h) % 32); r.silent.Load()&bit == 0 {
			r.silent.Or(bit)
		}
		return
	}
	p.a = a
	p.read(now)
	if !refused {
		r.learn(p, h, now, n)
	}
	p.release()
}

// quick reads an answer by what was learned. It reports false if that does not
// fit: an answer with another number of fields than any before may say something
// new.
func (r *reader) quick(h http.Header, now time.Time, rules *readRules, a *Advice) bool {
	ps := r.plans.Load()
	if ps != nil {
		for _, p := range ps.all {
			if p.rules == rules && p.counts.Load()&(1<<(len(h)%64)) != 0 && p.run(h, now, a) {
				return true
			}
		}
	}
	if r.silent.Load()&(1<<(len(h)%32)) == 0 || ps.speaks(h) {
		return false
	}
	a.RetryAfter, a.Retry = -1, 0
	a.Quotas, a.Malformed = a.Quotas[:0], a.Malformed[:0]
	return true
}

// maxPlans is how many kinds of answers are remembered: servers report other
// quotas on other routes.
const maxPlans = 4

// plans are what was learned. They are never changed, only replaced.
type plans struct {
	all []*plan
	at  uint32 // number of the answer that taught the last one
}

// usualNames are looked for in an answer that should say nothing.
var usualNames = [...]string{"Retry-After", "Ratelimit", "Ratelimit-Remaining", "X-Ratelimit-Remaining"}

// speaks reports whether h has one of the usual fields or one that a plan reads.
func (ps *plans) speaks(h http.Header) bool {
	for _, name := range usualNames {
		if _, ok := h[name]; ok {
			return true
		}
	}
	if ps == nil {
		return false
	}
	for _, p := range ps.all {
		for i := range p.steps {
			if _, ok := h[p.steps[i].key]; ok {
				return true
			}
		}
	}
	return false
}

// A plan is how to read an answer like the one that taught it: what that said,
// with the fields in which the next one will differ.
type plan struct {
	rules  *readRules
	steps  []step
	quotas []Quota
	counts atomic.Uint64        // numbers of fields of the answers it fitted, modulo 64
	date   atomic.Pointer[seen] // the last Date
}

type step struct {
	key   string
	does  action
	milli bool
	quota int    // index of the quota it completes, or a bit for each one that has an item
	text  string // what must not have changed
}

type action uint8

const (
	same         action = iota // the text is as it was
	setRemaining               // a number
	setReset                   // a time
	setItems                   // a RateLimit List
	setDict                    // RateLimit as a Dictionary
)

// seen is a Date and its instant: it changes once a second.
type seen struct {
	text string
	unix int64
}

// run reads h. It reports false, and leaves *a undefined, if h differs from what
// was learned in anything but the numbers.
func (p *plan) run(h http.Header, now time.Time, a *Advice) bool {
	a.RetryAfter, a.Retry, a.Malformed = -1, 0, a.Malformed[:0]
	a.Quotas = append(a.Quotas[:0], p.quotas...)
	for i := range p.steps {
		s := &p.steps[i]
		lines := h[s.key]
		if len(lines) != 1 {
			return false
		}
		v := lines[0]
		switch s.does {
		case same:
			if v != s.text {
				return false
			}
		case setRemaining:
			n, ok := digits(v)
			if !ok {
				if n, _, ok = count(trim(v)); !ok {
					return false
				}
			}
			a.Quotas[s.quota].setRemaining(n)
		case setReset:
			n, ok := digits(v)
			if !ok || n > 31_622_400 || s.milli {
				d, ok := p.reset(h, now, v, n, ok, s.milli)
				if !ok {
					return false
				}
				a.Quotas[s.quota].Reset = d
				continue
			}
			a.Quotas[s.quota].Reset = time.Duration(n) * time.Second
		case setItems:
			if !p.items(v, s.quota, a.Quotas) {
				return false
			}
		case setDict:
			if !a.Quotas[s.quota].readDict(v) {
				return false
			}
		}
	}
	return true
}

func (q *Quota) setRemaining(n int64) {
	if q.Limit >= 0 {
		n = min(n, q.Limit)
	}
	q.Remaining = n
}

// digits reads a whole number below maxNumber.
func digits(s string) (n int64, ok bool) {
	if len(s) == 0 || len(s) > 15 {
		return 0, false
	}
	for i := 0; i < len(s); i++ {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	return n, true
}

// reset reads a reset that is no delta in whole seconds; n is its value if it is
// a whole number.
func (p *plan) reset(h http.Header, now time.Time, v string, n int64, whole, milli bool) (time.Duration, bool) {
	date := p.lastDate(now, h["Date"])
	if date != nil && whole && n >= 9e8 && n < 1e11 {
		sec := n - date.unix
		if sec < -int64(past/time.Second) || sec > int64(horizon/time.Second) {
			return 0, false
		}
		return time.Duration(max(sec, 0)) * time.Second, true
	}
	c := clock{now: now, begun: true, ref: now}
	if date != nil {
		c.ref = time.Unix(date.unix, 0)
	}
	d, how := c.read(v, maxReset, milli)
	return d, how != noForm
}

// lastDate is the reference of newClock, from memory while the Date stays the
// same; nil if that is now.
func (p *plan) lastDate(now time.Time, date []string) *seen {
	if len(date) == 0 {
		return nil
	}
	last := p.date.Load()
	if last == nil || last.text != date[0] {
		t, ok := parseHTTPDate(trim(date[0]), now)
		if !ok || len(date[0]) > maxDelay {
			return nil
		}
		last = &seen{text: date[0], unix: t.Unix()}
		p.date.Store(last)
	}
	if d := last.unix - now.Unix(); d < -24*60*60 || d > 24*60*60 {
		return nil
	}
	return last
}

// items reads a RateLimit List with an item for each quota whose bit is set.
func (p *plan) items(s string, bits int, qs []Quota) bool {
	if len(s) > maxList {
		return false
	}
	list := sf.NewReader(trim(s))
	for list.Next() {
		v := list.Value()
		if v.Kind != sf.String {
			return false
		}
		i := 0
		for i < len(qs) && qs[i].Name != v.Text {
			i++
		}
		if bits&(1<<i) == 0 {
			return false
		}
		bits &^= 1 << i
		q := &qs[i]
		q.Remaining, q.Reset = -1, -1
		for {
			key, v, ok := list.Param()
			if !ok {
				break
			}
			switch {
			case key == "r" && v.Kind == sf.Integer && v.Int >= 0:
				q.setRemaining(v.Int)
			case key == "t" && v.Kind == sf.Integer && v.Int >= 0 && v.Int < 31_622_400:
				q.Reset = time.Duration(v.Int) * time.Second
			case key == "r" || key == "t":
				return false
			}
		}
		if q.Remaining < 0 {
			return false
		}
	}
	return bits == 0 && list.Err() == nil
}

// readDict reads the Dictionary of draft 07, if it says as much as when it was
// learned.
func (q *Quota) readDict(s string) bool {
	if len(s) > maxList {
		return false
	}
	var limit, remaining, reset bool
	for more := true; more; {
		var member string
		member, s, more = strings.Cut(s, ",")
		key, value, _ := strings.Cut(trim(member), "=")
		n, ok := digits(value)
		switch {
		case !ok:
			return false
		case key == "limit" && n == q.Limit:
			limit = true
		case key == "remaining":
			remaining = true
			q.setRemaining(n)
		case key == "reset" && n <= 31_622_400:
			reset = true
			q.Reset = time.Duration(n) * time.Second
		default:
			return false
		}
	}
	return limit == (q.Limit >= 0) && remaining && reset == (q.Reset >= 0)
}
