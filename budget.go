package comity

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comity/comity/internal/window"
)

// budget is the retry budget of one destination, shared by all its calls: retries
// are a share of the first attempts of the last 10 s, and a few more while nothing
// is throttled. What was not used is forgotten with the window, so that nothing
// piles up for the start of an outage. Its zero value has seen no call; it is safe
// for concurrent use.
type budget struct {
	seed window.Pair // first attempts in buckets of budgetSpan, until the first retry
	b    atomic.Pointer[budgetRing]
}

// budgetRing is what a budget counts once something was retried, in seconds.
type budgetRing struct {
	mu     sync.Mutex  // guards the step from sum to add in take
	counts window.Ring // first attempts | retries
}

const (
	budgetSpan   = 10 * time.Second
	budgetMin    = 10 // retries in budgetSpan that need no first attempts
	budgetFirsts = 10 // seconds in which first attempts count

	// Retries count a second longer: so any 10 s hold at most their share of the
	// first attempts in them, however they lie to the seconds.
	budgetRetries = budgetFirsts + 1
)

// first counts a first attempt.
func (b *budget) first(now time.Time) {
	n := ticks(now)
	if r := b.b.Load(); r != nil {
		r.counts.Add(n/int64(time.Second), 1, 0)
		return
	}
	b.seed.Add(n/int64(budgetSpan), 1)
}

// take reports whether the budget has a retry left, and takes it. A negative ratio
// is no budget.
func (b *budget) take(now time.Time, ratio float64, throttling bool) bool {
	n := ticks(now)
	r := b.ring(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left(n, ratio, throttling) < 1 {
		return false
	}
	r.counts.Add(n/int64(time.Second), 0, 1)
	return true
}

// giveBack returns what take took for a retry that was not sent.
func (b *budget) giveBack(now time.Time) {
	r := b.b.Load()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := ticks(now) / int64(time.Second)
	for i := range int64(budgetRetries) {
		if r.counts.Sub(newest-i, 0, 1) {
			return
		}
	}
}

// tokens returns how many retries the budget allows now.
func (b *budget) tokens(now time.Time, ratio float64, throttling bool) float64 {
	n := ticks(now)
	if r := b.b.Load(); r != nil {
		return max(0, r.left(n, ratio, throttling))
	}
	this, last := b.seed.Get(n / int64(budgetSpan))
	rest := 1 - float64(n%int64(budgetSpan))/float64(budgetSpan)
	return allowance(float64(this)+rest*float64(last), ratio, throttling)
}

// idle reports whether nothing was retried within the span.
func (b *budget) idle(now time.Time) bool {
	r := b.b.Load()
	if r == nil {
		return true
	}
	_, retries := r.counts.Sum(ticks(now)/int64(time.Second), budgetRetries)
	return retries == 0
}

// ring returns the ring, which the first retry allocates.
func (b *budget) ring(n int64) *budgetRing {
	if r := b.b.Load(); r != nil {
		return r
	}
	r := &budgetRing{counts: window.NewRing(budgetRetries)}
	const slot = int64(budgetSpan)
	this, last := b.seed.Get(n / slot)
	start := n / slot * slot
	r.counts.Spread((start-slot)/int64(time.Second), start/int64(time.Second)-1, last, 0)
	r.counts.Spread(start/int64(time.Second), n/int64(time.Second), this, 0)
	if !b.b.CompareAndSwap(nil, r) {
		return b.b.Load()
	}
	return r
}

func (r *budgetRing) left(n int64, ratio float64, throttling bool) float64 {
	second := n / int64(time.Second)
	firsts, _ := r.counts.Sum(second, budgetFirsts)
	_, retries := r.counts.Sum(second, budgetRetries)
	return allowance(float64(firsts), ratio, throttling) - float64(retries)
}

// allowance is how many retries so many first attempts allow.
func allowance(firsts, ratio float64, throttling bool) float64 {
	if ratio < 0 {
		return math.MaxInt32
	}
	n := ratio*firsts + 1e-9 // a tenth of 10 first attempts is one retry, whatever 0.1 is in binary
	if throttling {
		return n
	}
	return n + budgetMin
}
