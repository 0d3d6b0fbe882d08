package comity

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/comity/comity/internal/window"
)

// meter is what a throttle knows once something was refused: the counts of its
// window and, while p is above zero, the tokens that decide who goes.
type meter struct {
	window  time.Duration
	width   int64 // of a bucket
	buckets int   // in the window

	done    window.Ring // ended | accepted
	refused window.Ring // refused here

	// Read by every call, written every throttleEvery: on cache lines that no
	// call writes.
	due      atomic.Int64        // when p is to be computed anew
	p        atomic.Uint64       // bits of the share to refuse, as of due
	capacity atomic.Int64        // most tokens that can be saved up
	rate     atomic.Uint64       // bits of the tokens a nanosecond that come by time
	filledAt atomic.Int64        // up to when they have come
	sentAt   atomic.Int64        // when a call was last sent while throttling
	askedAt  atomic.Int64        // when the floor admitted one that has not been sent yet; 0 if there is none
	seen     [ranks]atomic.Int64 // when a call of each class last asked

	_      [cacheLine]byte
	tokens atomic.Int64 // in units of 1/tokenUnit
	news   atomic.Int64 // refusals by the destination since p was computed, while it is zero
	_      [cacheLine]byte

	asked [ranks]window.Pair // calls of each class, for the book's rule
}

const cacheLine = 64

// newMeter returns a meter for a window. Below throttleBase all times shrink with
// the window.
func newMeter(d time.Duration) *meter {
	width := int64(min(d, throttleBase)) / baseBuckets
	buckets := int((int64(d) + width - 1) / width)
	return &meter{window: d, width: width, buckets: buckets, done: window.NewRing(buckets), refused: window.NewRing(buckets)}
}

// accepts counts accepts that came at some time from start on, before end.
func (m *meter) accepts(start, end int64, n uint64) {
	m.done.Spread(max(start, 0)/m.width, max(end-1, 0)/m.width, n, n)
}

// count counts the end of a call. Where nothing is throttled yet, throttleMin
// refusals have the share computed anew at once: a fast client could send hundreds
// of calls more in the meantime.
func (m *meter) count(n int64, accepted bool) {
	if accepted {
		m.done.Add(m.bucket(n), 1, 1)
		return
	}
	m.done.Add(m.bucket(n), 1, 0)
	if m.share() == 0 && m.news.Add(1) >= throttleMin {
		m.due.Store(0)
	}
}

func (m *meter) bucket(n int64) int64 {
	const usual = int64(throttleBase / baseBuckets)
	if m.width == usual {
		return n / usual // several times faster than a division by a variable
	}
	return n / m.width
}

// counts are calls that ended, those of them that were accepted, and calls that
// were refused here.
type counts struct{ ended, accepted, local float64 }

func (c counts) requests() float64 { return c.ended + c.local }
func (c counts) rejected() float64 { return c.ended - c.accepted }

// view is what the counts say at an instant.
type view struct {
	all  counts  // the window
	back counts  // as far back as the share looks
	base counts  // the last throttleBase
	last counts  // the last bucket's width
	p    float64 // share to refuse
}

// view sums up the counts at n; all of them only if whole is set.
//
// A sum over throttleBase is one over whole buckets, the newest of which is not
// over yet: it spans 8 to 10 s, so that somewhat less than K calls are sent per call
// accepted, which makes up for the leak.
func (m *meter) view(ad *Adaptive, n int64, whole bool) (v view) {
	newest := m.bucket(n)
	enough := false
	for i := 0; i < m.buckets && int64(i) <= newest; i++ {
		ended, accepted := m.done.Get(newest - int64(i))
		local, _ := m.refused.Get(newest - int64(i))
		c := counts{float64(ended), float64(accepted), float64(local)}
		switch {
		case i == 0:
			v.last = c
		case i == 1: // as much of it as is missing from the newest
			v.last.add(c, 1-float64(n-newest*m.width)/float64(m.width))
		}
		v.all.add(c, 1)
		if !enough {
			v.back.add(c, 1)
			enough = !ad.Plain && i >= baseBuckets-1 && v.back.requests() >= throttleSamples
		}
		if i < baseBuckets {
			v.base.add(c, 1)
		} else if enough && !whole {
			break
		}
	}
	if v.back.requests() >= throttleMin {
		v.p = share(v.back.requests(), v.back.accepted, ad.K)
	}
	return v
}

func (c *counts) add(d counts, part float64) {
	c.ended += d.ended * part
	c.accepted += d.accepted * part
	c.local += d.local * part
}

// share returns the share to refuse as it was last computed.
func (m *meter) share() float64 { return math.Float64frombits(m.p.Load()) }

// refresh returns the share to refuse. Whoever first finds it too old computes it
// anew, with all that depends on the counts.
func (m *meter) refresh(ad *Adaptive, n int64) float64 {
	const every = int64(throttleEvery)
	due := m.due.Load()
	// A time further ahead than that is left from before the clock was set back.
	if left := due - n; left > 0 && left <= every {
		return m.share()
	}
	if !m.due.CompareAndSwap(due, n+every) {
		return m.share()
	}
	m.news.Store(0)
	v := m.view(ad, n, false)
	if v.p > 0 {
		was := m.share()
		capacity := max(throttleBurst, v.last.accepted)
		m.capacity.Store(toTokens(capacity))
		base := float64(m.width * baseBuckets)
		m.rate.Store(math.Float64bits(((ad.K-1)*v.base.accepted + throttleLeak*v.base.local) / base))
		if was == 0 {
			m.tokens.Store(toTokens(credit(capacity, v.last)))
			m.filledAt.Store(n)
			m.sentAt.Store(n)
			m.askedAt.Store(0)
		}
	}
	m.p.Store(math.Float64bits(v.p))
	return v.p
}

// admit decides about a call of the given rank.
func (m *meter) admit(ad *Adaptive, n int64, rank int) (ok bool, wait time.Duration) {
	m.see(n, rank)
	p := m.refresh(ad, n)
	if p == 0 {
		return true, 0
	}
	if ad.Plain {
		if ok = ad.draw() >= m.shareOf(n, rank, p); !ok {
			m.refuse(ad, n)
		}
		return ok, 0
	}
	m.fill(n)
	need := m.need(n, rank)
	for {
		t := m.tokens.Load()
		if t < need {
			break
		}
		if m.tokens.CompareAndSwap(t, t-tokenUnit) {
			return true, 0
		}
	}
	if m.floor(n) {
		m.take()
		return true, 0
	}
	m.refuse(ad, n)
	return false, m.wait(n, need)
}

// refuse counts a call that is refused here. In shadow it is sent all the same and
// counts when it ends.
func (m *meter) refuse(ad *Adaptive, n int64) {
	if !ad.Shadow {
		m.refused.Add(m.bucket(n), 1, 0)
	}
}

// see notes that a class is in use, at most every throttleEvery: the word is shared.
func (m *meter) see(n int64, rank int) {
	if d := n - m.seen[rank].Load(); d < 0 || d >= int64(throttleEvery) {
		m.seen[rank].Store(n)
	}
}

// need returns how many tokens there must be for a call to take one: each more
// critical class in use keeps a quarter of what can be saved up for itself.
func (m *meter) need(n int64, rank int) int64 {
	need := int64(tokenUnit)
	for r := range rank {
		if n-m.seen[r].Load() < m.width*baseBuckets {
			need += m.capacity.Load() / 4
		}
	}
	return need
}

// fill adds the tokens that came by time.
func (m *meter) fill(n int64) {
	at := m.filledAt.Load()
	since := n - at
	if since >= 0 && since < int64(throttleOften) || !m.filledAt.CompareAndSwap(at, n) {
		return
	}
	since = min(max(since, 0), int64(throttleBase))
	m.give(toTokens(math.Float64frombits(m.rate.Load()) * float64(since)))
}

// pay gives a token back.
func (m *meter) pay() { m.give(tokenUnit) }

func (m *meter) give(n int64) {
	for {
		t := m.tokens.Load()
		next := min(t+n, m.capacity.Load())
		if next == t || m.tokens.CompareAndSwap(t, next) {
			return
		}
	}
}

// take takes a token, or what is left of one.
func (m *meter) take() {
	for {
		t := m.tokens.Load()
		if m.tokens.CompareAndSwap(t, max(0, t-tokenUnit)) {
			return
		}
	}
}

// floor reports whether a call must go because none did for throttleFloor, and
// lets one through each time: after an outage somebody must ask.
func (m *meter) floor(n int64) bool {
	asked, sent := m.askedAt.Load(), m.sentAt.Load()
	last := max(asked, sent)
	if last > n { // the clock was set back
		m.sentAt.Store(n)
		m.askedAt.Store(0)
		return false
	}
	return n-last >= int64(throttleFloor) && m.askedAt.CompareAndSwap(asked, n)
}

// wait returns how long until a token comes by time or the floor lets a call go.
func (m *meter) wait(n, need int64) time.Duration {
	d := int64(throttleFloor) - (n - max(m.askedAt.Load(), m.sentAt.Load()))
	if rate := math.Float64frombits(m.rate.Load()) * tokenUnit; rate > 0 && need <= m.capacity.Load() {
		d = min(d, int64(min(float64(need-m.tokens.Load())/rate, float64(throttleFloor))))
	}
	return time.Duration(min(max(d, int64(time.Millisecond)), int64(throttleFloor)))
}

// shareOf returns the share of the calls of a class that the book's rule refuses,
// so that the share of all calls is p: the least critical go first.
func (m *meter) shareOf(n int64, rank int, p float64) float64 {
	slot := n / int64(throttleBase)
	rest := 1 - float64(n%int64(throttleBase))/float64(throttleBase)
	m.asked[rank].Add(slot, 1)
	var total, below, mine float64
	for r := range m.asked {
		now, before := m.asked[r].Get(slot)
		asked := float64(now) + rest*float64(before)
		total += asked
		switch {
		case r == rank:
			mine = asked
		case r > rank:
			below += asked
		}
	}
	return min(max((p*total-below)/mine, 0), 1)
}
