package limit

import (
	"math"
	"sync"
	"time"
)

// Fixed allows N units in each window of Per, aligned to the Unix epoch as
// servers' windows are. Once a window has begun, steps of the wall clock do not
// move its end.
type Fixed struct {
	rule *Rule

	mu     sync.Mutex
	anchor anchor
	window int64 // number of the window that was charged last
	used   int64 // units spent in it
	wide   margin
	tally  tally
}

// NewFixed returns a limiter that has spent nothing.
func NewFixed(r *Rule) *Fixed { return &Fixed{rule: r} }

// Take spends n units if the window has them.
func (f *Fixed) Take(now time.Time, n int) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.wait(now, n)
	if w == 0 && n > 0 {
		f.charge(now, int64(n))
	}
	return w, nil
}

// Adjust adds n units to what has been spent in the window of now. Giving back
// what an earlier window spent changes nothing.
func (f *Fixed) Adjust(now time.Time, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.charge(now, int64(n))
}

// Wait returns how long until the window has n units.
func (f *Fixed) Wait(now time.Time, n int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wait(now, n)
}

// Free returns what is left in the window.
func (f *Fixed) Free(now time.Time) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, used := f.look(now)
	if v.until > 0 {
		return 0
	}
	return float64(max(subSat(f.wide.units(f.rule), used), 0))
}

// Full reports whether nothing was spent in the window.
func (f *Fixed) Full(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, used := f.look(now)
	return used == 0
}

// Spent returns what was spent in the window, or in the last Per if that was more.
func (f *Fixed) Spent(now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, used := f.look(now)
	return max(int(used), f.tally.spent(mono(now), int64(f.rule.Per)))
}

// Reset returns the time until the window ends.
func (f *Fixed) Reset(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, _ := f.look(now)
	return time.Duration(addSat(v.until, v.left))
}

// SetMargin lessens the units of a window.
func (f *Fixed) SetMargin(now time.Time, m float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wide = newMargin(m)
}

// Margin returns the margin that is set.
func (f *Fixed) Margin() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wide.factor()
}

// Reconfigure goes over to r. What the window has spent is spent in the window
// of r at now.
func (f *Fixed) Reconfigure(now time.Time, r *Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, used := f.look(now)
	f.rule, f.used = r, 0
	v, _ := f.look(now)
	f.anchor, f.window, f.used = v.anchor, v.number, used
}

// view is a window: that of an instant, or a later one if that was charged
// already.
type view struct {
	anchor anchor
	number int64
	until  int64 // nanoseconds to its begin, 0 if it has begun
	left   int64 // and from then, or from now, to its end
}

// look returns the window for now and what was spent in it. The clock on the
// wall is asked only where no window is in use.
func (f *Fixed) look(now time.Time) (v view, used int64) {
	per := int64(f.rule.Per)
	if f.used > 0 {
		if v = f.anchor.look(now, per, f.window); v.number == f.window {
			return v, f.used
		}
	}
	return newAnchor(now).look(now, per, math.MinInt64), 0
}

// look returns the window of now, or the one of the number last if that is later.
func (a anchor) look(now time.Time, per, last int64) view {
	pos := addSat(mono(now), int64(a))
	n := floorDiv(pos, per)
	if n < last {
		return view{a, last, subSat(last*per, pos), per}
	}
	return view{a, n, 0, per - (pos - n*per)}
}

func (f *Fixed) wait(now time.Time, n int) time.Duration {
	if n <= 0 {
		return 0
	}
	if n > f.rule.N {
		return Forever
	}
	v, used := f.look(now)
	// A cost between the units of a narrowed window and N passes a window
	// nothing was spent in.
	if used == 0 || int64(n) <= f.wide.units(f.rule)-used {
		return time.Duration(v.until)
	}
	return time.Duration(addSat(v.until, v.left))
}

func (f *Fixed) charge(now time.Time, n int64) {
	v, used := f.look(now)
	if v.until > 0 && n < 0 {
		return
	}
	f.tally.add(mono(now), int64(f.rule.Per), int(n))
	f.anchor, f.window, f.used = v.anchor, v.number, max(0, addSat(used, n))
}
