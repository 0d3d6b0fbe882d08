package comity

import (
	"math"
	"time"
)

// margin is what a pace has learned of the jitter between it and a strict server,
// in two steps: at first that a call counts from the latest that it can have
// arrived, then that the spacing is wider. It is a plain state machine.
type margin struct {
	strict bool    // calls count from their latest possible arrival
	wide   float64 // widening of the spacing as of at; 0 is none
	at     stamp
	last   stamp // the last refusal
}

const (
	marginStep = 0.02
	marginMost = 0.25
	marginHalf = 10 * time.Minute // the widening falls by half in it
)

// refused notes a refusal of a call sent at sent for which there should have been
// room; it reports whether that was news. Refusals of calls sent before the last was
// known teach nothing.
func (m *margin) refused(now, sent stamp) (fresh bool) {
	if !sent.After(m.last) {
		return false
	}
	m.last = now
	if !m.strict {
		m.strict = true
		return true
	}
	m.wide = min(m.value(now)+marginStep, marginMost)
	m.at = now
	return true
}

// value is the widening at now.
func (m *margin) value(now stamp) float64 {
	if m.wide == 0 {
		return 0
	}
	return m.wide * math.Exp2(-float64(max(now.Sub(m.at), 0))/float64(marginHalf))
}

// widen returns sp with the margin added.
func (m *margin) widen(sp time.Duration, now stamp) time.Duration {
	if m.wide == 0 {
		return sp
	}
	return sp + time.Duration(m.value(now)*float64(sp))
}

// trips keeps the shortest round trip of the last minute or so.
type trips struct {
	this, last time.Duration // shortest of this and of the last 30 s; 0 is none
	longest    time.Duration // the largest excess of this and the last 30 s
	turned     time.Time
	few        uint8 // round trips so far, up to tripsFew
}

const (
	tripsSpan = 30 * time.Second
	tripsFew  = 32
)

// add notes a round trip that ended at now and returns how much longer than the
// shortest lately it took. As long as few are known, the shortest may be yet to
// come: then half of the trip may be excess.
func (t *trips) add(now time.Time, d time.Duration) (excess time.Duration) {
	if now.Sub(t.turned) >= tripsSpan {
		t.last, t.this, t.longest, t.turned = t.this, 0, t.longest/2, now
	}
	if t.this == 0 || d < t.this {
		t.this = d
	}
	shortest := t.this
	if t.last > 0 && t.last < shortest {
		shortest = t.last
	}
	t.longest = max(t.longest, d-shortest)
	if t.few < tripsFew {
		t.few++
		return max(d-shortest, d/2)
	}
	return max(d-shortest, 0)
}

// slack is the margin of a configured limit, kept from its first refusal of a call
// that it had room for.
type slack struct {
	margin
	set  float64   // the margin that its log was told
	full time.Time // when a bucket at the server would be full again, counted from latest arrivals
}

// spaced reports whether units of b come one by one, so that jitter can bring two
// calls too near each other.
func (b *account) spaced() bool {
	switch b.rule.Algorithm {
	case TokenBucket, GCRA, LeakyBucket:
		return b.rule.New == nil && b.rule.N > 0 && b.rule.Per > 0
	}
	return false
}

// step is the time in which one unit of b comes, margin included.
func (b *account) step(now time.Time) time.Duration {
	return b.slack.widen(max(b.rule.Per/time.Duration(b.rule.N), 1), stampOf(now))
}

// late returns how long n units must still wait for the margin of b.
func (b *account) late(now time.Time, n int) time.Duration {
	if b.slack == nil || !b.spaced() {
		return 0
	}
	spare := max(b.rule.Burst, 1) - n
	return max(b.slack.full.Add(-mulDuration(b.step(now), int64(spare))).Sub(now), 0)
}

// lateTake notes that n units go at now.
func (b *account) lateTake(now time.Time, n int) {
	if b.slack == nil || !b.spaced() {
		return
	}
	if b.slack.full.Before(now) {
		b.slack.full = now
	}
	b.slack.full = b.slack.full.Add(mulDuration(b.step(now), int64(n)))
}

// lateGive takes back a lateTake.
func (b *account) lateGive(now time.Time, n int) {
	if b.slack != nil && b.spaced() && b.slack.full.After(now) {
		b.slack.full = b.slack.full.Add(-mulDuration(b.step(now), int64(n)))
	}
}

// stretch lengthens the span of a log by the margin, and by what jitter can bring
// its first and last call nearer to each other.
func (b *account) stretch(now time.Time, jitter time.Duration) {
	l, ok := b.lim.(interface{ SetMargin(time.Time, float64) })
	m := 1 + b.slack.value(stampOf(now)) + float64(jitter)/float64(b.rule.Per)
	if ok && math.Abs(m-b.slack.set) > 1e-4 {
		b.slack.set = m
		l.SetMargin(now, m)
	}
}

// ended learns from the answer to a call of n units that can have arrived as late
// as at.
func (b *account) ended(now, sent, at time.Time, n int, refused bool, excess time.Duration) {
	if refused {
		if b.slack == nil {
			b.slack = &slack{}
		}
		b.slack.refused(stampOf(now), stampOf(sent))
	}
	switch {
	case b.slack == nil:
		return
	case b.rule.Algorithm == SlidingLog:
		b.stretch(now, excess)
		return
	case !b.spaced():
		return
	}
	if full := at.Add(mulDuration(b.step(now), int64(n))); full.After(b.slack.full) {
		b.slack.full = full
	}
}
