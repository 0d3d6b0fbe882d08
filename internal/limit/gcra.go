package limit

import (
	"math"
	"math/big"
	"sync"
	"time"
)

// GCRA is the generic cell rate algorithm: a token bucket kept as the one
// timestamp at which it will be full again.
type GCRA struct {
	rule *Rule

	mu    sync.Mutex
	full  stamp
	wide  margin
	tally tally
}

// stamp is an instant in nanoseconds and N-ths of one, for the N of the rule.
// Units have no rounded length this way, and the limiter loses nothing.
type stamp struct{ ns, nths int64 }

// NewGCRA returns a limiter that is full.
func NewGCRA(r *Rule) *GCRA { return &GCRA{rule: r, full: stamp{ns: math.MinInt64}} }

// Take spends n units if the bucket holds them.
func (g *GCRA) Take(now time.Time, n int) (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.wait(mono(now), n)
	if w == 0 && n > 0 {
		g.charge(mono(now), n)
	}
	return w, nil
}

// Adjust adds n units to what has been spent.
func (g *GCRA) Adjust(now time.Time, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.charge(mono(now), n)
}

// Wait returns how long until n units are free.
func (g *GCRA) Wait(now time.Time, n int) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait(mono(now), n)
}

// Free returns the units the bucket holds.
func (g *GCRA) Free(now time.Time) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := mono(now)
	debt := max(float64(subSat(g.full.ns, m))+float64(g.full.nths)/float64(g.rule.N), 0)
	return max(float64(g.rule.cap())-debt*float64(g.rule.N)/float64(g.wide.per(g.rule)), 0)
}

// Full reports whether the bucket is full.
func (g *GCRA) Full(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.full.after(mono(now))
}

// Spent estimates the units of the last Per.
func (g *GCRA) Spent(now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tally.spent(mono(now), int64(g.rule.Per))
}

// Reset returns the time until the bucket is full.
func (g *GCRA) Reset(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Duration(g.full.since(mono(now)))
}

// SetMargin widens the spacing.
func (g *GCRA) SetMargin(now time.Time, m float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change(mono(now), g.rule, newMargin(m))
}

// Margin returns the margin that is set.
func (g *GCRA) Margin() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wide.factor()
}

// Reconfigure goes over to r; units not yet paid off stay so.
func (g *GCRA) Reconfigure(now time.Time, r *Rule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change(mono(now), r, g.wide)
}

// change keeps the number of units that are owed, whatever they are worth now.
func (g *GCRA) change(now int64, r *Rule, wide margin) {
	owed := stamp{}
	if g.full.after(now) {
		owed = g.full.sub(stamp{ns: now}, g.rule).worth(g.rule.N, g.wide.per(g.rule), wide.per(r), r.N)
	}
	g.full = owed.add(stamp{ns: now}, r)
	g.rule, g.wide = r, wide
}

// worth returns the length of the units that last for s at n per was, at m per is.
func (s stamp) worth(n int, was, is int64, m int) stamp {
	x := new(big.Int).Mul(big.NewInt(s.ns), big.NewInt(int64(n)))
	x.Add(x, big.NewInt(s.nths)) // units times was
	x.Mul(x, big.NewInt(is))
	x.Add(x, big.NewInt(was-1)).Quo(x, big.NewInt(was)) // units times is, rounded up
	ns, nths := x.QuoRem(x, big.NewInt(int64(m)), new(big.Int))
	if !ns.IsInt64() {
		return stamp{ns: math.MaxInt64}
	}
	return stamp{ns.Int64(), nths.Int64()}
}

func (g *GCRA) wait(now int64, n int) time.Duration {
	if n <= 0 {
		return 0
	}
	need, ok := g.rule.fit(n)
	if !ok {
		return Forever
	}
	// The bucket holds need units as soon as it lacks no more than the others.
	spare := g.length(g.rule.cap() - need)
	return time.Duration(g.full.sub(spare, g.rule).since(now))
}

func (g *GCRA) charge(now int64, n int) {
	g.tally.add(now, int64(g.rule.Per), n)
	switch {
	case n > 0:
		if !g.full.after(now) {
			g.full = stamp{ns: now}
		}
		g.full = g.full.add(g.length(n), g.rule)
	case g.full.after(now):
		g.full = g.full.sub(g.length(-max(n, -math.MaxInt)), g.rule)
		if !g.full.after(now) {
			g.full = stamp{ns: now}
		}
	}
}

// length returns the time that n units last.
func (g *GCRA) length(n int) stamp {
	ns, nths := quoRem(int64(n), g.wide.per(g.rule), int64(g.rule.N))
	return stamp{ns, nths}
}

func (s stamp) after(now int64) bool { return s.ns > now || s.ns == now && s.nths > 0 }

// since returns the nanoseconds from now to s, rounded up, 0 if s is past.
func (s stamp) since(now int64) int64 {
	if !s.after(now) {
		return 0
	}
	d := subSat(s.ns, now)
	if s.nths > 0 {
		d = addSat(d, 1)
	}
	return d
}

func (s stamp) add(d stamp, r *Rule) stamp {
	s.ns = addSat(s.ns, d.ns)
	if s.nths >= int64(r.N)-d.nths {
		s.nths -= int64(r.N)
		s.ns = addSat(s.ns, 1)
	}
	s.nths += d.nths
	return s
}

func (s stamp) sub(d stamp, r *Rule) stamp {
	s.ns = subSat(s.ns, d.ns)
	if s.nths < d.nths {
		s.nths += int64(r.N) - d.nths
		s.ns = subSat(s.ns, 1)
		return s
	}
	s.nths -= d.nths
	return s
}
