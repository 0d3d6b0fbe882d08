package limit

import (
	"math"
	"sync"
	"time"
)

// Window is a sliding window counter: N units in any Per, where the units of
// the window before count by the part of it that is still within Per. Windows are
// aligned to the Unix epoch as servers' are; steps of the wall clock do not move
// them while they are in use.
type Window struct {
	rule *Rule

	mu     sync.Mutex
	anchor anchor
	window int64 // number of the window that was charged last
	cur    int64 // units spent in it
	prev   int64 // and in the one before
	wide   margin
}

// NewWindow returns a limiter that has spent nothing.
func NewWindow(r *Rule) *Window { return &Window{rule: r} }

// Take spends n units if the estimate allows. What is refused is not counted.
func (w *Window) Take(now time.Time, n int) (time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.wait(now, n)
	if d == 0 && n > 0 {
		w.charge(now, int64(n))
	}
	return d, nil
}

// Adjust adds n units to what has been spent in the window of now. Units given
// back are taken from it and then from the one before.
func (w *Window) Adjust(now time.Time, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.charge(now, int64(n))
}

// Wait returns the first instant at which the estimate allows n units.
func (w *Window) Wait(now time.Time, n int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wait(now, n)
}

// Free returns what the estimate leaves.
func (w *Window) Free(now time.Time) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.look(now)
	if p.until > 0 {
		return 0
	}
	past := float64(p.prev) * float64(p.left) / float64(w.rule.Per)
	return max(float64(w.wide.units(w.rule))-float64(p.cur)-past, 0)
}

// Full reports whether both windows are empty.
func (w *Window) Full(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.look(now)
	return p.cur == 0 && p.prev == 0
}

// Spent returns the estimate.
func (w *Window) Spent(now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.look(now)
	return int(addSat(p.cur, mulDiv(p.prev, p.left, int64(w.rule.Per), true)))
}

// Reset returns the time until the window ends.
func (w *Window) Reset(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.look(now)
	return time.Duration(addSat(p.until, p.left))
}

// SetMargin lessens the units of a window.
func (w *Window) SetMargin(now time.Time, m float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wide = newMargin(m)
}

// Margin returns the margin that is set.
func (w *Window) Margin() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wide.factor()
}

// Reconfigure goes over to r. What the estimate counted is spent in the window
// of r at now.
func (w *Window) Reconfigure(now time.Time, r *Rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.look(now)
	used := addSat(p.cur, mulDiv(p.prev, p.left, int64(w.rule.Per), true))
	w.rule, w.cur, w.prev = r, 0, 0
	p = w.look(now)
	w.anchor, w.window, w.cur = p.anchor, p.number, used
}

// pair is a window, what was spent in it, and in the one before.
type pair struct {
	view
	cur, prev int64
}

// look returns the windows for now. The clock on the wall is asked only where
// neither is in use.
func (w *Window) look(now time.Time) pair {
	per := int64(w.rule.Per)
	if w.cur > 0 || w.prev > 0 {
		switch v := w.anchor.look(now, per, w.window); {
		case v.number == w.window:
			return pair{v, w.cur, w.prev}
		case v.number == w.window+1 && w.cur > 0:
			return pair{v, 0, w.cur}
		}
	}
	return pair{view: newAnchor(now).look(now, per, math.MinInt64)}
}

func (w *Window) wait(now time.Time, n int) time.Duration {
	if n <= 0 {
		return 0
	}
	if n > w.rule.N {
		return Forever
	}
	p := w.look(now)
	most, per := w.wide.units(w.rule), int64(w.rule.Per)
	// A cost above the units of a narrowed window needs as much as there can be.
	room := most - min(int64(n), most) // how many may be counted beside the call
	if p.cur <= room {
		return time.Duration(addSat(p.until, fades(p.prev, room-p.cur, p.left, per)))
	}
	d := addSat(p.until, p.left)
	return time.Duration(addSat(d, fades(p.cur, room, per, per)))
}

// fades returns the time until n units of a window that is past, of whose
// successor left is left, count for no more than room.
func fades(n, room, left, per int64) int64 {
	if n <= room {
		return 0
	}
	return max(0, left-mulDiv(room, per, n, false))
}

func (w *Window) charge(now time.Time, n int64) {
	p := w.look(now)
	if n < 0 {
		if p.until > 0 {
			w.giveBackPast(now, n)
			return
		}
		p.prev = max(0, addSat(p.prev, min(0, addSat(p.cur, n))))
	}
	w.anchor, w.window = p.anchor, p.number
	w.cur, w.prev = max(0, addSat(p.cur, n)), p.prev
}

// giveBackPast gives back units of a window before the last one charged.
func (w *Window) giveBackPast(now time.Time, n int64) {
	if w.anchor.look(now, int64(w.rule.Per), math.MinInt64).number == w.window-1 {
		w.prev = max(0, addSat(w.prev, n))
	}
}
