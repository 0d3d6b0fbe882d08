package limit

import (
	"math"
	"time"
)

// Leaky is a leaky bucket as the meter of a client: calls leave it Per/N apart,
// whatever the Burst.
type Leaky struct{ gcra GCRA }

// NewLeaky returns a limiter that is idle.
func NewLeaky(r *Rule) *Leaky {
	return &Leaky{GCRA{rule: r.spaced(), full: stamp{ns: math.MinInt64}}}
}

// spaced returns r without its Burst.
func (r *Rule) spaced() *Rule {
	if r.Burst == 0 {
		return r
	}
	return &Rule{N: r.N, Per: r.Per}
}

// Take spends n units if those before them have left.
func (l *Leaky) Take(now time.Time, n int) (time.Duration, error) { return l.gcra.Take(now, n) }

// Adjust adds n units to what has been spent.
func (l *Leaky) Adjust(now time.Time, n int) { l.gcra.Adjust(now, n) }

// Wait returns how long until those before have left.
func (l *Leaky) Wait(now time.Time, n int) time.Duration { return l.gcra.Wait(now, n) }

// Free returns 1 if the limiter is idle, less if not.
func (l *Leaky) Free(now time.Time) float64 { return l.gcra.Free(now) }

// Full reports whether the limiter is idle.
func (l *Leaky) Full(now time.Time) bool { return l.gcra.Full(now) }

// Spent estimates the units of the last Per.
func (l *Leaky) Spent(now time.Time) int { return l.gcra.Spent(now) }

// Reset returns the time until the limiter is idle.
func (l *Leaky) Reset(now time.Time) time.Duration { return l.gcra.Reset(now) }

// SetMargin widens the spacing.
func (l *Leaky) SetMargin(now time.Time, m float64) { l.gcra.SetMargin(now, m) }

// Margin returns the margin that is set.
func (l *Leaky) Margin() float64 { return l.gcra.Margin() }

// Reconfigure goes over to r; units that have not left stay.
func (l *Leaky) Reconfigure(now time.Time, r *Rule) { l.gcra.Reconfigure(now, r.spaced()) }

// Queue is a leaky bucket as a server has it: one unit leaves each Per/N, Burst
// of them may stand behind it, and what comes on top is refused.
type Queue struct{ gcra GCRA }

// NewQueue returns an empty queue.
func NewQueue(r *Rule) *Queue {
	q := &Rule{N: r.N, Per: r.Per, Burst: r.Burst}
	if q.Burst < math.MaxInt {
		q.Burst++
	}
	return &Queue{GCRA{rule: q, full: stamp{ns: math.MinInt64}}}
}

// Enter puts n units into the queue and returns when the last of them leaves. If
// there is no room it puts in nothing, and returns when there will be.
func (q *Queue) Enter(now time.Time, n int) (leaves, room time.Duration) {
	g := &q.gcra
	g.mu.Lock()
	defer g.mu.Unlock()
	m := mono(now)
	if room = g.wait(m, n); room > 0 || n <= 0 {
		return 0, room
	}
	g.charge(m, n)
	return time.Duration(g.full.sub(g.length(1), g.rule).since(m)), 0
}

// Wait returns when there will be room for n units.
func (q *Queue) Wait(now time.Time, n int) time.Duration { return q.gcra.Wait(now, n) }

// Adjust adds n units to the queue, or takes out as many.
func (q *Queue) Adjust(now time.Time, n int) { q.gcra.Adjust(now, n) }

// Free returns the units there is room for, with the one that leaves next.
func (q *Queue) Free(now time.Time) float64 { return q.gcra.Free(now) }

// Reset returns the time until the queue is empty.
func (q *Queue) Reset(now time.Time) time.Duration { return q.gcra.Reset(now) }
