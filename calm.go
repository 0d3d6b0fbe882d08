package comity

import (
	"sync/atomic"
	"time"
)

// calm lets calls to a busy destination go without its pacer's lock while nothing
// could keep them: no limit, no hold, nobody waits, and far more is left of each
// reported quota than can go meanwhile. What went is booked by the next call that
// takes the lock, and the headers of those answers are not read: the next one says
// the same, a few hundred calls or milliseconds later.
type calm struct {
	left   atomic.Int64 // calls that may go so
	until  atomic.Int64 // and until when, in ticks
	flying atomic.Int64 // calls that went so and have not ended

	// The pacer's lock guards the rest.
	given  int64  // what left began with
	booked int64  // calls of those that are booked
	since  int64  // when the calls of this span began, in ticks
	sends  uint64 // and how many there had been
}

const (
	calmAfter = 1024                   // calls before the first
	calmSpan  = 128                    // so many calls
	calmBusy  = 128 * time.Millisecond // in so short a time
	calmMost  = 256                    // calls that go without the lock
	calmLast  = 250 * time.Millisecond // and for how long
	calmLeast = 100                    // units left of a quota at least
	calmShare = 16                     // the part of what is left that may go unread
)

// calmly reports whether calls under p could ever go without the pacer's lock.
func (p *policy) calmly() bool {
	return len(p.limits) == 0 && (p.shared == nil || len(p.shared.rules) == 0) && p.MaxInFlight == 0 &&
		p.Delay == (Delay{}) && p.Spread == 0 && !p.Shadow && (p.Dialect == nil || p.Dialect.Quota == nil)
}

// passes lets the call of k go without the lock, if it may.
func (p *pacer) passes(k *turn, now time.Time) bool {
	c := p.calm.Load()
	if c == nil || c.left.Load() <= 0 || !k.pol.calm || k.again || ticks(now) >= c.until.Load() || c.left.Add(-1) < 0 {
		return false
	}
	c.flying.Add(1)
	k.calm, k.at = c, now
	return true
}

// landed ends the call of k as one that went calmly.
func (c *calm) landed(k *turn) {
	c.flying.Add(-1)
	k.calm = nil
}

// inCalm is how many calls in flight went calmly.
func (p *pacer) inCalm() int64 {
	if c := p.calm.Load(); c != nil {
		return c.flying.Load()
	}
	return 0
}

// unnoted reports whether the answer to a call that went calmly changes nothing.
func (k *turn) unnoted(a *answer) bool {
	return k.calm != nil && a.verdict == Accepted && a.advice.RetryAfter <= 0 && len(a.advice.Quotas) == 0
}

// book notes the calls that went calmly so far; with k's, if its answer has
// something to say after all, as one that went like any other.
func (p *pacer) book(k *turn, now time.Time) {
	c := p.calm.Load()
	if c == nil {
		return
	}
	p.bookUpTo(c, c.given-max(c.left.Load(), 0), now)
	if k != nil && k.calm != nil {
		k.calm.landed(k)
		p.add(-1)
		p.grant(k, k.at)
	}
}

func (p *pacer) bookUpTo(c *calm, gone int64, now time.Time) {
	n := gone - c.booked
	if n <= 0 {
		return
	}
	c.booked = gone
	p.add(n)
	if t := p.told; t != nil {
		t.recent.addAll(now, uint32(n))
		t.lastGood = now
		for _, q := range t.quotas {
			q.lastGo, q.lastOK = now, now
		}
	}
}

// add counts n accepted calls.
func (p *pacer) add(n int64) {
	p.sends += uint64(n)
	p.pace.accepted += int(n)
	if p.told == nil {
		return
	}
	for _, q := range p.told.quotas {
		if q.unit == unitRequests {
			q.taken += n
			q.rest = max(0, q.rest-n)
		}
	}
}

// unsettle ends the calm: from here on every call takes the lock.
func (p *pacer) unsettle(now time.Time) {
	if c := p.calm.Load(); c != nil {
		gone := c.given - max(c.left.Swap(0), 0)
		p.bookUpTo(c, gone, now)
		c.given, c.booked = 0, 0
	}
}

// settleDown looks, after an accepted answer, whether there may be calm.
func (p *pacer) settleDown(now time.Time) {
	c := p.calm.Load()
	if c == nil {
		if p.sends < calmAfter {
			return
		}
		c = &calm{since: ticks(now), sends: p.sends}
		p.calm.Store(c)
	}
	if p.sends-c.sends < calmSpan {
		return
	}
	took := ticks(now) - c.since
	c.since, c.sends = ticks(now), p.sends
	p.unsettle(now)
	if took <= 0 || took > int64(calmBusy) {
		return
	}
	if n := p.spare(now); n > 0 {
		c.given = n
		c.until.Store(ticks(now) + int64(calmLast))
		c.left.Store(n)
	}
}

// spare is how many calls could go without anybody looking.
func (p *pacer) spare(now time.Time) int64 {
	if p.waiting > 0 || p.pace.rate > 0 || p.pace.pending {
		return 0
	}
	n := int64(calmMost)
	t := p.told
	if t == nil {
		return n
	}
	if t.hold.incidents > 0 || t.hold.ramp.places > 0 || t.hold.holds(now) || len(t.suspects) > 0 {
		return 0
	}
	for _, q := range t.quotas {
		switch left := q.rest - q.flying; {
		case q.unit != unitRequests || !q.known:
		case q.partial || q.share.on || q.probing || left < calmLeast:
			return 0
		default:
			n = min(n, left/calmShare)
		}
	}
	return n
}

// addAll counts n accepted answers at now.
func (r *recent) addAll(now time.Time, n uint32) {
	r.add(now, false)
	r.answers[now.Unix()&1] += n - 1
}
