package egress

import (
	"errors"
	"fmt"
	"time"

	"github.com/comity/comity"
)

// Concurrency is a [comity.Guard]: a cap on calls in flight to each
// destination that adapts to latency and refusals (additive increase, multiplicative
// decrease).
//
// An answer slower than Target, or one that refuses, cuts the cap by a tenth, once
// per cap of answers; any other raises it by one per cap of answers, as long as at
// least half of it is in use. Cuts that make nothing faster are taken back: then
// the service itself is slow, and no latency cuts it for 10 s. A call counts from
// when it is sent to the end of its body, its latency is that of the headers. What
// its caller cancelled teaches nothing.
//
// One without Target, or with values that contradict each other, refuses every
// call and says why.
type Concurrency struct {
	Initial, Min, Max int           // 10, 1 and 200 if zero
	Target            time.Duration // latency to stay under; required
	Wait              time.Duration // longest a call waits for a place, the most critical first; zero refuses at once
	Shares            Shares
	Shadow            bool // count refusals, refuse nothing
}

// NewGate makes Concurrency a Guard.
func (c Concurrency) NewGate(dest string) comity.Gate {
	if c.Max == 0 {
		c.Max = max(200, c.Initial, c.Min)
	}
	if c.Min == 0 {
		c.Min = min(1, c.Max)
	}
	if c.Initial == 0 {
		c.Initial = min(max(10, c.Min), c.Max)
	}
	if err := c.check(); err != nil {
		return broken{"concurrency", fmt.Errorf("egress: Concurrency: %w", err)}
	}
	g := &concurrencyGate{c: c, cap: aimd{
		limit: float64(c.Initial), min: float64(c.Min), max: float64(c.Max), target: c.Target,
	}}
	g.pool.caps = c.Shares.caps(c.Initial)
	return g
}

func (c *Concurrency) check() error {
	var errs []error
	if c.Target <= 0 {
		errs = append(errs, fieldError("Target", "%v is not above 0", c.Target))
	}
	if c.Min < 1 || c.Initial < c.Min || c.Max < c.Initial {
		errs = append(errs, fieldError("Initial, Min, Max", "%d, %d, %d are not 1 <= Min <= Initial <= Max", c.Initial, c.Min, c.Max))
	}
	return errors.Join(append(errs, c.Shares.check())...)
}

// fieldError is what is wrong with fields of a configuration.
func fieldError(fields, format string, args ...any) error {
	return fmt.Errorf("%s: %w", fields, fmt.Errorf(format, args...))
}

// concurrencyGate is the cap of one destination.
type concurrencyGate struct {
	c    Concurrency
	pool pool
	cap  aimd // under the pool's lock
	used time.Time
}

// Enter implements [comity.Gate].
func (g *concurrencyGate) Enter(a *comity.Attempt) error {
	return g.pool.enter(a.Request.Context(), rank(a.Call.Criticality), g.c.Wait, g.c.Shadow)
}

// Leave implements [comity.Gate].
func (g *concurrencyGate) Leave(a *comity.Attempt) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.used = endOf(a)
	was := int(g.cap.limit)
	switch a.Verdict {
	case comity.Accepted, comity.Broken:
		g.cap.learn(g.used, &g.pool, a.Latency, false)
	case comity.Limited, comity.Overloaded:
		g.cap.learn(g.used, &g.pool, a.Latency, true)
	}
	g.pool.inflight--
	if now := int(g.cap.limit); now != was {
		g.pool.caps = g.c.Shares.caps(now)
	}
	g.pool.grant()
}

// endOf is when a's answer came. A gate that is used without a Transport may not
// know when a was sent.
func endOf(a *comity.Attempt) time.Time {
	if a.Sent.IsZero() {
		return time.Now()
	}
	return a.Sent.Add(a.Latency)
}

// Idle reports whether the destination may be forgotten: what its cap learned is
// worth something for ten minutes.
func (g *concurrencyGate) Idle(now time.Time) bool {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return g.pool.inflight == 0 && (g.cap.limit == float64(g.c.Initial) || now.Sub(g.used) > 10*time.Minute)
}

// String is the gate's name in errors and on pages.
func (g *concurrencyGate) String() string {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	if g.c.Shadow {
		return fmt.Sprintf("concurrency %d (shadow, %d refused)", int(g.cap.limit), g.pool.refused)
	}
	return fmt.Sprintf("concurrency %d", int(g.cap.limit))
}

// aimd is a limit that grows by one and shrinks by a tenth.
type aimd struct {
	limit    float64
	min, max float64
	target   time.Duration

	since    int // answers since the last cut
	epoch    epoch
	lastPeak int // calls in flight in the epoch before

	// A run of cuts for latency, which is taken back once it drains no queue.
	before float64       // limit where it began, or was last found to be of use; 0 if there is no run
	first  time.Duration // mean latency there; 0 if it is not known yet
	calm   time.Time     // no cut for latency until then
	own    time.Duration // latency of the service itself, as the run that was taken back showed
}

// epoch is a limit's worth of answers.
type epoch struct {
	limit   float64 // at its start
	answers int
	refused int
	latency time.Duration // of all answers that were none
	mixed   bool          // it began before the run of cuts
}

const (
	cut      = 0.9
	noUse    = 0.87             // cuts by a third that leave more than this of the latency drained no queue
	calmFor  = 10 * time.Second // no cut for latency after a run of no use
	lossy    = 0.05             // of refusals in an epoch says more than its latency
	judgedAt = 2. / 3           // of the limit before a run is where it is judged
)

// learn takes in an answer that came at now, from a call that still holds its
// place in p.
func (l *aimd) learn(now time.Time, p *pool, latency time.Duration, refused bool) {
	l.since++
	if l.epoch.limit == 0 {
		l.epoch.limit = l.limit
	}
	l.epoch.answers++
	if refused {
		l.epoch.refused++
	} else {
		l.epoch.latency += latency
	}
	calm := now.Before(l.calm)
	target := l.target
	if calm {
		target = max(target, time.Duration(float64(l.own)/noUse))
	}
	switch slow := latency > target; {
	case refused || slow && !calm:
		if float64(l.since) >= l.limit {
			l.cut(refused)
		}
	// Highest in the epoch, not at its end: half of a batch has gone by then.
	case !slow && 2*float64(max(p.peak, l.lastPeak)) >= l.limit:
		l.limit = min(l.max, l.limit+1/l.limit)
	}
	if float64(l.epoch.answers) >= l.limit {
		l.judge(now)
		l.epoch = epoch{}
		l.lastPeak, p.peak = p.peak, p.inflight
	}
}

// cut shrinks the limit, and begins a run if it was for latency.
func (l *aimd) cut(refused bool) {
	if !refused && l.before == 0 {
		l.before, l.first = l.limit, 0
		l.epoch.mixed = true
	}
	l.limit = max(l.min, l.limit*cut)
	l.since = 0
}

// judge ends an epoch: it takes a run of cuts back once a third of the limit made
// nothing faster.
func (l *aimd) judge(now time.Time) {
	e := l.epoch
	answered := e.answers - e.refused
	if answered == 0 || float64(e.refused) > lossy*float64(e.answers) {
		l.before = 0
		return
	}
	mean := e.latency / time.Duration(answered)
	switch {
	case mean <= l.target:
		l.before, l.calm = 0, time.Time{}
	case l.before == 0 || e.mixed:
	case l.first == 0:
		l.first = mean
	case e.limit > judgedAt*l.before:
	case float64(mean) > noUse*float64(l.first):
		l.limit = max(l.limit, l.before)
		l.calm, l.own = now.Add(calmFor), mean
		l.before = 0
	default:
		l.before, l.first = e.limit, mean
	}
}
