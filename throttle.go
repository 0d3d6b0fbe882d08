package comity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/comity/comity/internal/window"
)

// throttle is the adaptive throttle of one destination. It is safe for concurrent
// use, has no clock and starts nothing. Its zero value has seen no call.
//
// A call counts when it ends: counted when it starts, each call in flight would
// look like a refusal, and a slow but healthy backend would be throttled.
type throttle struct {
	seed window.Pair // accepts in buckets of throttleBase, until the first refusal
	past atomic.Pointer[history]
}

// history is what a throttle remembers beyond its seed.
type history struct {
	older window.Pair           // accepts that the seed forgot, in buckets of a window
	m     atomic.Pointer[meter] // allocated on the first refusal
}

// meter returns the meter, or nil if nothing was refused yet.
func (t *throttle) meter() *meter {
	if p := t.past.Load(); p != nil {
		return p.m.Load()
	}
	return nil
}

// kept returns the history, which it makes if need be.
func (t *throttle) kept() *history {
	p := t.past.Load()
	if p == nil {
		if p = new(history); !t.past.CompareAndSwap(nil, p) {
			p = t.past.Load()
		}
	}
	return p
}

// admit says whether a call may go. If it may not, wait is the time until the
// likely next probe, or 0 if that is left to chance.
func (t *throttle) admit(ad *Adaptive, now time.Time, crit Criticality, retry bool) (ok bool, wait time.Duration) {
	m := t.meter()
	if m == nil || ad.K < 0 {
		return true, 0
	}
	if m.window != ad.Window {
		m = t.regrow(m, ad.Window, ticks(now))
	}
	return m.admit(ad, ticks(now), rank(crit, retry))
}

// unsend takes back an admission: the call is not sent after all.
func (t *throttle) unsend(ad *Adaptive, now time.Time) {
	m := t.meter()
	if m == nil || ad.K < 0 || m.share() == 0 {
		return
	}
	// The floor admitted one call: that one, as far as anyone can tell.
	if m.askedAt.Swap(0) == 0 {
		m.pay()
	}
}

// sent notes that an admitted call goes out now: the floor counts from here.
func (t *throttle) sent(ad *Adaptive, now time.Time) {
	m := t.meter()
	if m == nil || ad.K < 0 || m.share() == 0 {
		return
	}
	if n := ticks(now); n-m.sentAt.Load() >= int64(throttleOften) || m.askedAt.Load() != 0 {
		m.sentAt.Store(n)
		m.askedAt.Store(0)
	}
}

// done notes the end of a call that was sent. One that counts nowhere gives its
// token back: a client whose calls are often cancelled would else stay throttled
// for good once it was.
func (t *throttle) done(ad *Adaptive, now time.Time, accepted, counts bool) {
	if ad.K < 0 {
		return
	}
	n := ticks(now)
	m := t.meter()
	if m == nil {
		switch {
		case !counts:
			return
		case accepted:
			if gone, at := t.seed.Add(n/int64(throttleBase), 1); gone > 0 {
				t.kept().older.Add(at*int64(throttleBase)/int64(ad.Window), gone)
			}
			return
		}
		m = t.grow(ad, n)
	}
	if m.share() > 0 && (accepted || !counts) {
		m.pay()
	}
	if counts {
		m.count(n, accepted)
	}
}

// snapshot returns what has been attempted and accepted within the window, and the
// share of the next calls that is refused.
func (t *throttle) snapshot(ad *Adaptive, now time.Time) (requests, accepts, rejectRate float64) {
	n := ticks(now)
	m := t.meter()
	if m == nil {
		this, last := t.seed.Get(n / int64(throttleBase))
		var later, before uint64
		if p := t.past.Load(); p != nil {
			later, before = p.older.Get(n / int64(ad.Window))
		}
		rest := 1 - float64(n%int64(ad.Window))/float64(ad.Window)
		accepts = float64(this+last+later) + rest*float64(before)
		return accepts, accepts, 0
	}
	v := m.view(ad, n, true)
	if ad.K > 0 {
		rejectRate = v.p
	}
	return v.all.requests(), v.all.accepted, rejectRate
}

// throttling reports whether calls are refused now.
func (t *throttle) throttling(ad *Adaptive, now time.Time) bool {
	m := t.meter()
	return m != nil && ad.K > 0 && m.refresh(ad, ticks(now)) > 0
}

// idle reports whether nothing was refused within the window, by the destination
// or here: to forget such a throttle changes no decision.
func (t *throttle) idle(ad *Adaptive, now time.Time) bool {
	m := t.meter()
	if m == nil {
		return true
	}
	all := m.view(ad, ticks(now), true).all
	return all.requests() == all.accepted
}

// refusal returns the error of a call that admit refused.
func (t *throttle) refusal(ad *Adaptive, dest string, now time.Time, wait time.Duration) *ThrottledError {
	err := &ThrottledError{Reason: ReasonAdaptive, Destination: dest, RetryAfter: wait}
	if m := t.meter(); m != nil {
		v := m.view(ad, ticks(now), false)
		err.detail = fmt.Sprintf("%.0f of its last %.0f calls accepted, %s refused now (Adaptive)",
			v.back.accepted, v.back.ended, oneIn(v.p))
	}
	return err
}

// oneIn writes a share in words: in twentieths where they are near enough, or in
// hundredths.
func oneIn(p float64) string {
	n, of := int(math.Round(20*p)), 20
	if n < 1 || n > 19 {
		n, of = min(max(int(math.Round(100*p)), 1), 99), 100
	}
	for d := of; d > 1; d-- {
		if n%d == 0 && of%d == 0 {
			n, of = n/d, of/d
		}
	}
	return strconv.Itoa(n) + " in " + strconv.Itoa(of)
}

// grow allocates the meter and puts the accepts counted so far in it, spread
// evenly over the time in which they came, the oldest first.
func (t *throttle) grow(ad *Adaptive, n int64) *meter {
	m, p := newMeter(ad.Window), t.kept()
	const slot = int64(throttleBase)
	this, last := t.seed.Get(n / slot)
	later, before := p.older.Get(n / int64(ad.Window))
	start, middle := n/slot*slot, n-n%int64(ad.Window)
	m.accepts(middle-int64(ad.Window), min(middle, start-slot), before)
	m.accepts(min(middle, start-2*slot), start-slot, later)
	m.accepts(start-slot, start, last)
	m.accepts(start, n+1, this)
	if !p.m.CompareAndSwap(nil, m) {
		return p.m.Load()
	}
	return m
}

// regrow replaces a meter whose window is no longer that of the policy by one that
// has its counts.
func (t *throttle) regrow(old *meter, window time.Duration, n int64) *meter {
	m := newMeter(window)
	newest := n / old.width
	for b := newest; b >= 0 && b > newest-int64(old.buckets); b-- {
		first, last := b*old.width/m.width, min((b+1)*old.width-1, n)/m.width
		ended, accepted := old.done.Get(b)
		m.done.Spread(first, last, ended, accepted)
		local, _ := old.refused.Get(b)
		m.refused.Spread(first, last, local, 0)
	}
	if p := t.past.Load(); !p.m.CompareAndSwap(old, m) {
		return p.m.Load()
	}
	return m
}

// ticks is a time as nanoseconds that are never negative: monotonic where now is.
func ticks(now time.Time) int64 {
	const half = 1 << 61 // 73 years
	return min(max(int64(now.Sub(epoch)), -half), half) + half
}

var epoch = time.Now()

// rank numbers the classes from the most critical. A retry is shed before first
// tries of the classes that users notice.
func rank(c Criticality, retry bool) int {
	r := 1
	switch {
	case c >= CriticalPlus:
		r = 0
	case c == SheddablePlus:
		r = 2
	case c <= Sheddable:
		r = 3
	}
	if retry {
		return max(r, 2)
	}
	return r
}

const ranks = 4

// The constants of the throttle. They were measured together; no other value of
// one of them is known to keep the promises that the tests hold them to.
const (
	throttleBase    = 10 * time.Second       // how far back the counts go if they hold minSamples
	throttleFloor   = 10 * time.Second       // a call goes after this time without one, whatever the counts say
	throttleEvery   = 100 * time.Millisecond // how old the share may be
	throttleOften   = time.Millisecond       // how often the words that all calls read are written
	throttleSamples = 100                    // calls below which the counts go further back than throttleBase
	throttleMin     = 10                     // calls below which nothing is refused
	throttleLeak    = 0.02                   // share of the refused that pass: without it any split between equal clients is stable
	throttleBurst   = 10                     // tokens that can be saved up at least

	baseBuckets = 5 // buckets in throttleBase
)

// credit is what is left over at the start of throttling: a bucket of 2 s of
// accepts, less what was refused in that time.
func credit(capacity float64, last counts) float64 {
	return max(0, capacity-last.rejected())
}

// share is the formula of the Site Reliability Engineering book, chapter Handling
// Overload: the part of the requests to refuse.
func share(requests, accepts, k float64) float64 {
	return max(0, (requests-k*accepts)/(requests+1))
}

// draw is how a random number in [0, 1) is made.
func (a *Adaptive) draw() float64 {
	if a.rand != nil {
		return a.rand()
	}
	return rand.Float64()
}

// tokens are counted in units of 2^-32: a credit of a hundredth of a token a
// second, taken in every millisecond, must not be rounded away.
const tokenUnit = 1 << 32

func toTokens(f float64) int64 { return int64(min(f, math.MaxInt32) * tokenUnit) }
