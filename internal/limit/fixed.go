package limit

import (
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
	v := f.look(now)
	if v.until > 0 {
		return 0
	}
	return float64(max(subSat(f.wide.units(f.rule), v.used), 0))
}

// Full reports whether nothing was spent in the window.
func (f *Fixed) Full(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.look(now).used == 0
}

// Spent returns what was spent in the window, or in the last Per if that was more.
func (f *Fixed) Spent(now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(int(f.look(now).used), f.tally.spent(mono(now), int64(f.rule.Per)))
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
	used := f.look(now).used
	f.rule, f.used = r, 0
	v := f.look(now)
	f.anchor, f.window, f.used = v.anchor, v.window, used
}

// view is the window of an instant.
type view struct {
	anchor anchor
	window int64
	left   int64 // nanoseconds to its end
	used   int64
	until  int64 // nanoseconds to the begin of a later window that was charged already
}

// look returns the window of now. The clock on the wall is asked only where no
// window is in use.
func (f *Fixed) look(now time.Time) view {
	per := int64(f.rule.Per)
	if f.used > 0 {
		pos := f.anchor.at(now)
		if w := floorDiv(pos, per); w <= f.window {
			return view{f.anchor, w, per - (pos - w*per), f.used, max(0, subSat(f.window*per, pos))}
		}
	}
	pos := wall(now)
	w := floorDiv(pos, per)
	return view{newAnchor(now), w, per - (pos - w*per), 0, 0}
}

func (f *Fixed) wait(now time.Time, n int) time.Duration {
	if n <= 0 {
		return 0
	}
	most := f.wide.units(f.rule)
	if n > f.rule.N {
		return Forever
	}
	v := f.look(now)
	if v.until > 0 {
		return time.Duration(addSat(v.until, f.refused(v.used, int64(n), most, int64(f.rule.Per))))
	}
	return time.Duration(f.refused(v.used, int64(n), most, v.left))
}

// refused returns left if n units do not fit beside those used. A cost between
// the units of a narrowed window and N passes a window nothing was spent in.
func (f *Fixed) refused(used, n, most, left int64) int64 {
	if used == 0 || n <= most-used {
		return 0
	}
	return left
}

func (f *Fixed) charge(now time.Time, n int64) {
	v := f.look(now)
	if v.until > 0 && n < 0 {
		return
	}
	f.tally.add(mono(now), int64(f.rule.Per), int(n))
	if v.until > 0 {
		v.window = f.window
	}
	f.anchor, f.window, f.used = v.anchor, v.window, max(0, addSat(v.used, n))
}
