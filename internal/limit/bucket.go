package limit

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bucket is a token bucket on [rate.Limiter]. Nothing ever waits in it: it is
// asked what it holds, and charged when that is enough.
type Bucket struct {
	rule *Rule

	mu    sync.Mutex
	rate  rate.Limiter
	last  int64 // time of the latest charge, which is what rate counts from
	wide  margin
	tally tally
}

// NewBucket returns a full bucket.
func NewBucket(r *Rule) *Bucket {
	b := &Bucket{rule: r, last: math.MinInt64}
	b.rate.SetLimitAt(time.Time{}, b.limit())
	b.rate.SetBurstAt(time.Time{}, r.cap())
	b.rate.ReserveN(time.Time{}, -r.cap())
	return b
}

// Take spends n units if the bucket holds them.
func (b *Bucket) Take(now time.Time, n int) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.wait(now, n)
	if w == 0 && n > 0 {
		b.charge(now, n)
	}
	return w, nil
}

// Adjust adds n units to what has been spent.
func (b *Bucket) Adjust(now time.Time, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n != 0 {
		b.charge(now, n)
	}
}

// Wait returns how long until n units are free.
func (b *Bucket) Wait(now time.Time, n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait(now, n)
}

// Free returns the units the bucket holds.
func (b *Bucket) Free(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.tokens(now), 0)
}

// Full reports whether the bucket is full.
func (b *Bucket) Full(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.holds(now, b.rule.cap())
}

// Spent estimates the units of the last Per.
func (b *Bucket) Spent(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally.spent(mono(now), int64(b.rule.Per))
}

// Reset returns the time until the bucket is full.
func (b *Bucket) Reset(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until(now, b.rule.cap())
}

// SetMargin widens the spacing.
func (b *Bucket) SetMargin(now time.Time, m float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wide = newMargin(m)
	b.rate.SetLimitAt(b.forward(now), b.limit())
}

// Margin returns the margin that is set.
func (b *Bucket) Margin() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wide.factor()
}

// Reconfigure goes over to r; units not yet paid off stay so.
func (b *Bucket) Reconfigure(now time.Time, r *Rule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, was := b.forward(now), b.rule.cap()
	b.rule = r
	b.rate.SetLimitAt(t, b.limit())
	b.rate.SetBurstAt(t, max(was, r.cap()))
	b.rate.ReserveN(t, was-r.cap())
	b.rate.SetBurstAt(t, r.cap())
}

func (b *Bucket) limit() rate.Limit {
	return rate.Limit(float64(b.rule.N) / time.Duration(b.wide.per(b.rule)).Seconds())
}

// forward returns now or the time of the latest charge, whichever is later, and
// remembers it: [rate.Limiter] would count the time between them twice.
func (b *Bucket) forward(now time.Time) time.Time {
	m := mono(now)
	if m < b.last {
		return now.Add(time.Duration(b.last - m))
	}
	b.last = m
	return now
}

func (b *Bucket) charge(now time.Time, n int) {
	b.tally.add(mono(now), int64(b.rule.Per), n)
	t := b.forward(now)
	if n <= b.rule.cap() {
		b.rate.ReserveN(t, n)
		return
	}
	// A charge above the burst is refused, and charges nothing.
	b.rate.SetBurstAt(t, n)
	b.rate.ReserveN(t, n)
	b.rate.SetBurstAt(t, b.rule.cap())
}

// tokens returns what the bucket holds; less than nothing is debt.
func (b *Bucket) tokens(now time.Time) float64 {
	m := mono(now)
	if m >= b.last {
		return b.rate.TokensAt(now)
	}
	ahead := time.Duration(subSat(b.last, m))
	return b.rate.TokensAt(now.Add(ahead)) - float64(b.rate.Limit())*ahead.Seconds()
}

// holds reports whether n units are there. It forgives what floating point
// loses: a few last bits and less than half of the N-th of a nanosecond that units
// are apart in truth.
func (b *Bucket) holds(now time.Time, n int) bool {
	slack := min(0.1*float64(b.rule.N), 0.5)/float64(b.wide.per(b.rule)) + 1e-15*float64(b.rule.cap())
	return b.tokens(now) >= float64(n)-slack
}

func (b *Bucket) wait(now time.Time, n int) time.Duration {
	if n <= 0 {
		return 0
	}
	need, ok := b.rule.fit(n)
	if !ok {
		return Forever
	}
	return b.until(now, need)
}

// until returns the time until need units are there.
func (b *Bucket) until(now time.Time, need int) time.Duration {
	if b.holds(now, need) {
		return 0
	}
	d := (float64(need) - b.tokens(now)) / float64(b.rate.Limit()) * 1e9
	if d >= math.MaxInt64/2 {
		return Forever
	}
	w := max(time.Duration(math.Ceil(d)), 1)
	// What comes of w by the bucket's own arithmetic decides about the last one.
	if w > 1 && b.holds(now.Add(w-1), need) {
		return w - 1
	}
	if !b.holds(now.Add(w), need) {
		return w + 1
	}
	return w
}
