package comity

import (
	"math"
	"time"
)

// stamp is a time.Time in 8 bytes, of ticks: to keep one is no work for the
// garbage collector, which has to be told of the location that each Time points
// to. Zero is no time.
type stamp int64

// stampOf returns t as a stamp.
func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(ticks(t))
}

// from returns i as a Time that lies as far from now.
func (i stamp) from(now time.Time) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return now.Add(i.Sub(stampOf(now)))
}

func (i stamp) IsZero() bool              { return i == 0 }
func (i stamp) Before(j stamp) bool       { return i < j }
func (i stamp) After(j stamp) bool        { return i > j }
func (i stamp) Sub(j stamp) time.Duration { return time.Duration(i - j) }

// Add returns i+d, at most the last stamp there is.
func (i stamp) Add(d time.Duration) stamp {
	if d > 0 && i > math.MaxInt64-stamp(d) {
		return math.MaxInt64
	}
	return i + stamp(d)
}
