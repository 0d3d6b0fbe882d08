package limit

import (
	"math"
	"math/bits"
	"time"
)

// start is what times are counted from. Its monotonic reading makes mono immune
// to steps of the wall clock.
var start = time.Now()

// dawn stands for the zero Time, which no int64 of nanoseconds reaches from the
// times of today: whoever counts from there, as tests do, counts on. It is a
// whole number of hours, for windows.
const dawn = -3.6e18

// mono returns t in nanoseconds since start.
func mono(t time.Time) int64 { return since(t, start) }

// wall returns t in nanoseconds since the Unix epoch, by the wall clock.
func wall(t time.Time) int64 { return since(t, time.Unix(0, 0)) }

func since(t, origin time.Time) int64 {
	if d := t.Sub(origin); d != math.MinInt64 {
		return int64(d)
	}
	return addSat(dawn, int64(t.Sub(time.Time{})))
}

// anchor keeps windows of the wall clock while no window is begun: it takes the
// clock's word once, and goes on by the monotonic clock.
type anchor int64

func newAnchor(now time.Time) anchor { return anchor(subSat(wall(now), mono(now))) }

// addSat returns a+b, held within int64.
func addSat(a, b int64) int64 {
	s := a + b
	if (a < 0) == (b < 0) && (s < 0) != (a < 0) {
		if a < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return s
}

// subSat returns a-b, held within int64.
func subSat(a, b int64) int64 {
	if b == math.MinInt64 {
		if a < 0 {
			return a - b
		}
		return math.MaxInt64
	}
	return addSat(a, -b)
}

// mulDiv returns a*b/c, rounded up or down and held within int64, for a and b of
// at least 0 and c of at least 1.
func mulDiv(a, b, c int64, up bool) int64 {
	q, r := quoRem(a, b, c)
	if up && r > 0 && q < math.MaxInt64 {
		q++
	}
	return q
}

// quoRem returns the quotient, held within int64, and the remainder of a*b/c.
func quoRem(a, b, c int64) (q, r int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64, 0
	}
	uq, ur := bits.Div64(hi, lo, uint64(c))
	if uq > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(uq), int64(ur)
}

// floorDiv returns a/b rounded down, for b of at least 1.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
