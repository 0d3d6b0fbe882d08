// Package limit counts units, one algorithm a file. A limiter is driven by the
// times it is given: it reads no clock, starts nothing and never blocks. All of
// them are safe for concurrent use.
//
// Each step is judged at its own time. A time before that of an earlier step, as
// when two callers read the clock in one order and got here in the other, is
// never credited twice: what was spent since counts against it too.
package limit

import (
	"math"
	"time"
)

// Forever is the wait for a cost that will never be allowed.
const Forever time.Duration = math.MaxInt64

// Rule is what a limiter enforces: N units per Per, through a bucket of Burst
// where the algorithm has one. N and Per are at least 1, Burst at least 0. It must
// not be changed; the limiters of many destinations share one.
type Rule struct {
	N     int
	Per   time.Duration
	Burst int
}

// Limiter is what every algorithm here offers: Take and Adjust as any limiter,
// and what a pacer wants to know besides.
type Limiter interface {
	// Take spends n units if they are free at now and returns 0. Otherwise it
	// spends nothing and returns the shortest wait after which they are free if
	// nobody else spends, or Forever. The error is always nil. No units, or less,
	// are always free.
	Take(now time.Time, n int) (wait time.Duration, err error)

	// Adjust adds n units to what was spent as of now. A positive n charges
	// without asking, a negative one gives back, up to full. Units given back at
	// the now of their Take leave the limiter as it was; at a later one it depends
	// on the algorithm which of the units spent since they stand for.
	Adjust(now time.Time, n int)

	// Wait returns what Take would, spending nothing.
	Wait(now time.Time, n int) time.Duration

	// Free returns the units free at now, 0 if it is in debt.
	Free(now time.Time) float64

	// Full reports whether nothing spent matters any more: a new limiter of the
	// same rule would decide alike from now on. The margin is not looked at.
	Full(now time.Time) bool

	// Spent returns the units spent in the Per before now: exactly by SlidingLog,
	// estimated from two counters by the others.
	Spent(now time.Time) int

	// Reset returns what a server of this algorithm reports as its reset: for a
	// bucket the time until it is full, for a window until it ends, for a log until
	// its oldest unit counts no more.
	Reset(now time.Time) time.Duration

	// SetMargin widens the spacing to m times what the rule says, from now on;
	// what is spent stays spent. m is brought into 1 to 2 and rounded up by less
	// than 1/65536. FixedWindow and SlidingWindow, whose windows are the
	// server's, allow N/m units instead, at least one.
	SetMargin(now time.Time, m float64)

	// Margin returns m as SetMargin left it, 1 if it was never called.
	Margin() float64

	// Reconfigure goes over to another rule. The units that were spent and not
	// yet paid off, or are still within Per, stay spent.
	Reconfigure(now time.Time, r *Rule)
}

// cap returns the units a bucket of r holds. Without a Burst it holds one.
func (r *Rule) cap() int { return max(r.Burst, 1) }

// fit returns what must be free for a call of n units to pass, and whether it
// can ever pass. Without a Burst a call of up to N units passes a bucket that is
// full, and leaves it in debt.
func (r *Rule) fit(n int) (need int, ok bool) {
	if r.Burst > 0 {
		return n, n <= r.Burst
	}
	return 1, n <= r.N
}

// margin is how much the spacing is widened, in 65536ths.
type margin uint32

func newMargin(m float64) margin {
	if !(m > 1) { // NaN as well
		return 0
	}
	return margin(math.Ceil((min(m, 2) - 1) * 65536))
}

func (m margin) factor() float64 { return 1 + float64(m)/65536 }

// per returns Per as widened.
func (m margin) per(r *Rule) int64 {
	if m == 0 {
		return int64(r.Per)
	}
	return addSat(int64(r.Per), mulDiv(int64(r.Per), int64(m), 65536, true))
}

// units returns N as narrowed.
func (m margin) units(r *Rule) int64 {
	if m == 0 {
		return int64(r.N)
	}
	return max(1, mulDiv(int64(r.N), 65536, 65536+int64(m), false))
}

// tally estimates the units charged within the last Per, for limiters whose own
// state does not say. Its windows begin with the first charge after a pause.
type tally struct {
	start     int64
	prev, cur uint32
}

// roll brings the windows to now.
func (t *tally) roll(now, per int64) {
	switch d := subSat(now, t.start); {
	case d < per:
	case d-per < per:
		t.prev, t.cur, t.start = t.cur, 0, t.start+per
	default:
		t.prev, t.cur = 0, 0
	}
}

// add counts n units, which may be negative.
func (t *tally) add(now, per int64, n int) {
	t.roll(now, per)
	if t.prev == 0 && t.cur == 0 {
		t.start = now
	}
	c := addSat(int64(t.cur), int64(n))
	if c < 0 {
		t.prev = uint32(max(0, addSat(int64(t.prev), c)))
	}
	t.cur = uint32(min(max(c, 0), math.MaxUint32))
}

// spent returns the estimate for the Per before now.
func (t tally) spent(now, per int64) int {
	t.roll(now, per)
	left := min(max(per-subSat(now, t.start), 0), per)
	return int(int64(t.cur) + mulDiv(int64(t.prev), left, per, true))
}
