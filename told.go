package comity

import (
	"math/rand/v2"
	"time"
)

// randFloat draws from [0, 1).
func randFloat() float64 { return rand.Float64() }

// goneIncidents is how many incidents in a row without a time say that waiting is
// of no use.
const goneIncidents = 4

// told is what servers and operators said to a pacer: its hold, the quotas it
// reported, and how its answers went lately. The lock of the pacer guards it.
type told struct {
	hold      hold
	quotas    []*quota
	recent    recent
	suspects  []*suspect
	trips     trips
	lastGood  stamp     // the last accepted answer
	clock     time.Time // the last decision
	reports   uint64    // answers so far
	overtaken int       // calls that went before older ones because those were refused before
}

// tell returns p.told, made if need be.
func (p *pacer) tell() *told {
	if p.told == nil {
		p.told = &told{}
	}
	return p.told
}

// ask reports in y what t keeps the call of k for.
func (t *told) ask(k *turn, now time.Time, y *way) {
	h := &t.hold
	if k.peeks { // now may be any time: nothing must change
		c := *h
		h = &c
	}
	if at, ok := h.open(now); !ok {
		y.longer(at, &t.hold, ReasonHeld)
	}
	if k.suspect != nil && now.Before(k.suspect.until) {
		y.longer(k.suspect.until, k.suspect, ReasonHeld)
	}
	i := stampOf(now)
	for _, q := range t.quotas {
		n, ok := q.spends(k)
		if !ok {
			continue
		}
		asked := q
		if k.peeks {
			c := *q
			asked = &c
		}
		if at, ok, _ := asked.ready(i, n); !ok {
			y.longer(at.from(now), q, ReasonLimit)
		} else if at := asked.spread(i, k.pol.Spread); i.Before(at) {
			y.longer(at.from(now), q, ReasonLimit)
		}
	}
}

// take books a call that goes at now.
func (t *told) take(k *turn, now time.Time) {
	k.ramped = t.hold.ramp.sent()
	k.scout = k.ramped && t.hold.ramp.places == 1
	k.spent = k.spentBuf[:0]
	i := stampOf(now)
	for _, q := range t.quotas {
		if n, ok := q.spends(k); ok {
			_, _, early := q.ready(i, n)
			lone := early && q.flying == 0 && q.rest == 0
			q.take(i, n, early)
			k.spent = append(k.spent, spent{q, n, q.taken, early, lone})
		}
	}
}

// give takes back a take.
func (t *told) give(k *turn) {
	if k.ramped {
		t.hold.ramp.unsent(k.at)
		k.ramped = false
	}
	for _, s := range k.spent {
		s.q.give(s.n, s.early)
	}
	k.spent = nil
	for _, q := range t.quotas {
		if k.num > 0 && k.num <= q.born && q.unit == unitRequests {
			q.give(1, false)
		}
	}
}

// gone reports whether the destination seems gone for good: refused four times in
// a row without a time, and nothing accepted for as long as k would wait.
func (t *told) gone(k *turn, now time.Time) bool {
	return t.hold.incidents >= goneIncidents && !t.hold.quiet(now) && k.maxWait != Forever && !t.lastGood.IsZero() &&
		stampOf(now).Sub(t.lastGood) >= k.maxWait
}

// wantsFresh reports whether the calls that go now should be ones that were not
// refused before.
//
// Every so often they are not: where all are refused again and again, as under a
// quota that many share, there are always new ones, and the old would starve.
func (t *told) wantsFresh(now time.Time) bool {
	if t == nil || t.overtaken >= rampFresh {
		return false
	}
	h := &t.hold
	return h.ramp.places > 0 && h.ramp.accepted < rampFresh || !h.until.IsZero() && !h.holds(now)
}

// overtakes notes that k goes although one that was refused before may have waited
// longer.
func (t *told) overtakes(l *line, k *turn) {
	if t == nil {
		return
	}
	if k.refusals > 0 {
		t.overtaken = 0
		return
	}
	for _, q := range l.busy {
		if h := q.head(false); h.k.refusals > 0 && h.k != k {
			t.overtaken++
			return
		}
	}
}

// paces reports whether a reported quota paces the call of k: what the refusals
// taught matters only without one.
func (t *told) paces(k *turn) bool {
	if t == nil {
		return false
	}
	for _, q := range t.quotas {
		if _, ok := q.spends(k); ok && q.known {
			return true
		}
	}
	return false
}

// drained ends a ramp for which nobody waits any more and whose scout is back.
func (t *told) drained() {
	if r := &t.hold.ramp; r.places > 1 {
		*r = ramp{}
	}
}

// endDelays forgets delays that servers told with refusals, not their quotas.
func (t *told) endDelays() {
	for _, q := range t.quotas {
		q.retryAt = 0
	}
	for _, s := range t.suspects {
		s.until = time.Time{}
	}
}

// mask names the quotas that bind the call of k, by place.
func (t *told) mask(k *turn) (m uint32) {
	if t == nil {
		return 0
	}
	for i, q := range t.quotas {
		if q.binds(k) {
			m |= 1 << i
		}
	}
	return m
}

// idle reports whether forgetting t changes no decision.
func (t *told) idle(now time.Time) bool {
	h := &t.hold
	if h.holds(now) || h.ramp.places > 0 && now.Sub(h.ramp.stirred) < quietForget || (h.incidents > 0 || h.repeats > 0) && !h.quiet(now) {
		return false
	}
	for _, q := range t.quotas {
		if !q.idle(stampOf(now)) {
			return false
		}
	}
	return true
}

// recent counts answers and refusals of the last two seconds, by second.
type recent struct {
	sec      [2]int64
	answers  [2]uint32
	refusals [2]uint32
}

// add counts an answer at now.
func (r *recent) add(now time.Time, refused bool) {
	s := now.Unix()
	i := s & 1
	if r.sec[i] != s {
		r.sec[i], r.answers[i], r.refusals[i] = s, 0, 0
	}
	r.answers[i]++
	if refused {
		r.refusals[i]++
	}
}

// mostlyRefused reports whether at least half of the answers were refusals.
func (r *recent) mostlyRefused(now time.Time) bool {
	var answers, refusals uint32
	for i, s := range r.sec {
		if d := now.Unix() - s; d >= 0 && d < 2 {
			answers += r.answers[i]
			refusals += r.refusals[i]
		}
	}
	return 2*refusals >= answers
}
