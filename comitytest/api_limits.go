package comitytest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/internal/limit"
)

// rule is a Limit as a server holds it.
type rule struct {
	comity.Limit
	label string
	keys  map[string]budget
}

// budget is what a server keeps for one value of Limit.Key.
type budget interface {
	enter(now time.Time, n int) (delay, wait time.Duration, err error)
	adjust(now time.Time, n int)
	state(now time.Time) (remaining int64, reset time.Duration)
}

// prepare makes the rules from the Limits when the first call comes.
func (a *API) prepare() error {
	if a.rules != nil || a.bad != nil {
		return a.bad
	}
	a.rules = make([]*rule, len(a.Limits))
	for i, l := range a.Limits {
		if l.New == nil {
			if _, err := comity.NewLimiter(l); err != nil {
				a.bad = fmt.Errorf("comitytest: Limits[%d]: %w", i, err)
			}
		}
		label := l.Name
		if label == "" {
			label, _, _ = strings.Cut(l.String(), " ")
		}
		a.rules[i] = &rule{Limit: l, label: label, keys: map[string]budget{}}
	}
	return a.bad
}

// charge is what a call spends of one budget.
type charge struct {
	*rule
	budget
	n     int
	delay time.Duration
}

// charges returns what r spends of each limit it is subject to.
func (a *API) charges(r *http.Request) []charge {
	var cs []charge
	for _, l := range a.rules {
		if l.For != nil && !l.For(r) {
			continue
		}
		c := charge{rule: l, n: 1}
		if l.Cost != nil {
			c.n = max(l.Cost(r), 0)
		}
		key := ""
		if l.Key != nil {
			key = l.Key(r)
		}
		if c.budget = l.keys[key]; c.budget == nil {
			c.budget = l.open(key)
			l.keys[key] = c.budget
		}
		cs = append(cs, c)
	}
	return cs
}

// open makes the budget of a key.
func (l *rule) open(key string) budget {
	if l.New != nil {
		return custom{l.New("", key)}
	}
	if l.Algorithm == comity.LeakyBucket {
		return queue{limit.NewQueue(&limit.Rule{N: l.N, Per: l.Per, Burst: l.Burst})}
	}
	m, _ := comity.NewLimiter(l.Limit) // prepare has tried it
	return counter{m.(limit.Limiter)}
}

// judge spends what r costs, of all its limits or of none, and says how it is
// answered.
func (a *API) judge(r *http.Request, now time.Time) decision {
	cs := a.charges(r)
	var d decision
	wait := time.Duration(-1)
	for i := range cs {
		c := &cs[i]
		delay, w, err := c.enter(now, c.n)
		refused := w > 0 || err != nil
		switch {
		case !refused:
			c.delay = delay
		case c.Shadow:
			c.adjust(now, c.n)
		case d.over == "" || w > wait:
			d.over, wait = c.label, w
		}
		if refused && !c.Shadow {
			c.n = 0 // it has spent nothing
		}
	}
	for i := range cs {
		d.delay = max(d.delay, cs[i].delay)
	}
	if d.over != "" {
		d.code, d.delay = http.StatusTooManyRequests, 0
		for _, c := range cs {
			c.adjust(now, -c.n)
		}
		if a.CountsAll {
			a.count(r, now)
		}
	}
	d.header = a.report(cs, now, wait)
	return d
}

// count charges a refused call.
func (a *API) count(r *http.Request, now time.Time) {
	for _, c := range a.charges(r) {
		c.adjust(now, c.n)
	}
}

// report writes what the Dialect has to say; a wait below 0 is none.
func (a *API) report(cs []charge, now time.Time, wait time.Duration) http.Header {
	if a.Dialect == nil || a.Dialect.Write == nil {
		return nil
	}
	adv := comity.Advice{RetryAfter: -1}
	if wait > 0 && wait < comity.Forever {
		adv.RetryAfter = wait
	}
	for _, c := range cs {
		q := comity.Quota{Name: c.Name, Unit: c.Unit, Limit: int64(c.N), Window: c.Per}
		if q.Unit == "" {
			q.Unit = "requests"
		}
		if q.Name == "" && len(cs) > 1 {
			q.Name = c.label // something must tell them apart
		}
		if c.bucket() && c.Burst > c.N {
			// The most that can remain, and the time it takes to fill.
			q.Limit, q.Window = int64(c.Burst), c.Per*time.Duration(c.Burst)/time.Duration(c.N)
		}
		q.Remaining, q.Reset = c.state(now)
		adv.Quotas = append(adv.Quotas, q)
	}
	h := http.Header{}
	a.Dialect.Write(h, now, adv)
	return h
}

// bucket reports whether l is a bucket that holds Burst.
func (l *rule) bucket() bool {
	return l.New == nil && l.Algorithm <= comity.LeakyBucket
}

type counter struct{ limit.Limiter }

func (c counter) enter(now time.Time, n int) (delay, wait time.Duration, err error) {
	wait, err = c.Take(now, n)
	return 0, wait, err
}

func (c counter) adjust(now time.Time, n int) { c.Adjust(now, n) }

func (c counter) state(now time.Time) (int64, time.Duration) {
	return whole(c.Free(now)), c.Reset(now)
}

type queue struct{ *limit.Queue }

func (q queue) enter(now time.Time, n int) (delay, wait time.Duration, err error) {
	delay, wait = q.Enter(now, n)
	return delay, wait, nil
}

func (q queue) adjust(now time.Time, n int) { q.Adjust(now, n) }

func (q queue) state(now time.Time) (int64, time.Duration) {
	return whole(q.Free(now)), q.Reset(now)
}

// custom is a limiter that says no more than Take.
type custom struct{ comity.Limiter }

func (c custom) enter(now time.Time, n int) (delay, wait time.Duration, err error) {
	wait, err = c.Take(now, n)
	return 0, wait, err
}

func (c custom) adjust(now time.Time, n int) { c.Adjust(now, n) }

func (c custom) state(time.Time) (int64, time.Duration) { return -1, -1 }

// whole returns the units of free that are complete, but for what floating
// point loses.
func whole(free float64) int64 { return int64(free + 1e-9) }
