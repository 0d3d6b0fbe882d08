package comity

import "time"

// judge learns from a call that went although nothing was left.
func (q *quota) judge(now, sent stamp, v Verdict) {
	n := q.nature()
	reset := q.reset()
	if !q.hi.IsZero() && !sent.Before(q.hi) || q.hi.IsZero() && !reset.IsZero() && !sent.Before(reset) {
		return // it went after the reset: that says nothing about its kind
	}
	switch v {
	case Accepted:
		q.blind = 0
		if !reset.IsZero() && q.retryAt.IsZero() { // a told delay that was obeyed says nothing of what comes before the reset
			n.kind, n.misses = kindRefill, 0
		}
	case Limited:
		q.blind++
		n.misses++
		if n.kind == kindRefill && n.misses < earlyMisses {
			return
		}
		n.kind = kindWall
		window := q.window
		if window <= 0 && !reset.IsZero() {
			window = reset.Sub(q.setAt)
		}
		skip := mulDuration(max(window, 0), int64(1)<<min(n.misses-1, 20)-1)
		if !reset.IsZero() {
			n.probeAt = reset.Add(min(skip, 365*maxHold))
		}
	}
}

// refused learns what a delay told with a refusal says about the reset. told is
// -1 without one.
func (q *quota) refused(now stamp, told time.Duration) {
	q.retryAt = 0
	if told <= 0 {
		return
	}
	q.retryAt = now.Add(min(told, maxHold))
	if reset := q.reset(); told%time.Second == 0 && reset.Before(q.retryAt) && q.retryAt.Add(-time.Second).Before(reset) {
		q.retryAt = reset // whole seconds are rounded up, and earlier answers told the reset more exactly
	}
	if q.told < 0 || q.hi.IsZero() {
		return
	}
	n := q.nature()
	slack := tellingSlack
	if q.window <= 0 {
		slack *= 2 // it may be an epoch less a Date, each in whole seconds
	}
	switch {
	case q.told-told >= slack && q.told > 0:
		if n.kind != kindRefill && n.misses < earlyMisses {
			n.kind = kindRefill
		}
	case told >= tellingWall && told == q.told && n.kind == kindUnknown:
		n.kind = kindWall
	}
}

// report takes in what the answer to a call sent at sent, here at now, says.
// excess is how much longer than the shortest one its round trip took.
// index is what was taken when the call went, its own units included; 0 if that
// is not known.
func (q *quota) report(now, sent stamp, excess time.Duration, index int64, refused bool, r *Quota) {
	q.seen = now
	if r.Limit >= 0 {
		q.limit = r.Limit
	}
	if r.Window > 0 {
		q.window = r.Window
	}
	if at := now.Add(r.Reset); refused && r.Reset >= 0 && q.told > nearReset && !q.hi.IsZero() && sent.After(q.hi) && at.Sub(q.hi) <= lateReset {
		q.late = max(q.late, at.Sub(q.hi)) // refused right after the reset, which it still announces
	}
	later, older := q.bound(now, sent, r.Reset)
	if r.Remaining < 0 || older {
		return
	}
	q.witness(now, sent, index, later, r.Remaining)
	defer q.remark(now, index)
	base := sent
	if q.margin.strict {
		base = sent.Add(excess)
	}
	rest := q.rest
	if sp := q.pace(now); sp > 0 {
		later = false // the reset of a refill moves with each call
		rest += int64(base.Sub(q.base) / sp)
	}
	switch {
	case !q.known || sent.After(q.setAt):
	case r.Remaining < rest:
	default:
		return
	}
	if later && r.Remaining == 0 {
		q.nature().probeAt = 0 // a window that begins with nothing left is none
	}
	q.known, q.rest, q.setAt, q.base = true, r.Remaining, now, base
}

// pacing learns the spacing of a refill whose window no answer states, from a call
// that went at sent with nothing left and was let in: rest more had come since base.
func (q *quota) pacing(sent stamp, rest int64) {
	gap := sent.Sub(q.base)
	if q.window > 0 || q.base.IsZero() || gap <= 0 {
		return
	}
	seen := gap / time.Duration(rest+1)
	switch {
	case q.seenPace == 0 || seen < q.seenPace:
		q.seenPace = max(seen, time.Microsecond)
	case rest == 0 && !q.steady:
		q.seenPace = max(q.seenPace*19/20, time.Microsecond) // perhaps they come faster
	case rest == 0:
		if q.passed++; q.passed > 16 {
			q.seenPace, q.passed = max(q.seenPace*49/50, time.Microsecond), 0
		}
	}
}

// missed slows a spacing that was seen after a refusal.
func (q *quota) missed() {
	if q.window <= 0 && q.seenPace > 0 {
		q.seenPace, q.steady, q.passed = q.seenPace*11/10, true, 0
	}
}

// witness looks for others in what an answer reports: r fell by more than the
// calls of this client can have made it.
func (q *quota) witness(now, sent stamp, index int64, later bool, rest int64) {
	s, m := &q.share, q.mark
	s.over(now, q.window)
	s.period(now, q.window)
	if s.on {
		s.grow(now, q.rate(), rest >= q.top-q.top/10)
	}
	q.top = max(q.top, rest)
	if rest == 0 && q.told > nearReset && now.Sub(s.cut) > q.window/2 {
		// Everybody who meets the end of a window cuts, or the polite would starve.
		s.reduce(now, sent)
	}
	if index == 0 || index < m.at {
		return
	}
	if sp := q.pace(now); !m.now.IsZero() && (!later || sp > 0) {
		was := m.rest
		if d := sent.Sub(m.now); sp > 0 && d > 0 && s.met > 0 && q.natures[0].kind != kindWall && q.natures[1].kind != kindWall {
			was = min(was+int64(d/sp), q.top)
		}
		// All that this client took since may have got there before, in any order.
		s.took(now, was-rest-(q.taken-m.at)-m.flying, q.limit, q.divisible())
	}
}

// remark begins a new span between two answers for witness to compare. What is
// left is what is known, not what this answer says: others overtook it.
func (q *quota) remark(now stamp, index int64) {
	if index >= q.mark.at && index > 0 {
		q.mark = mark{at: index, flying: q.flying, rest: q.rest, now: now}
	}
}

// bound narrows the instant of the reset by an answer that states it as reset
// from now. Headers have whole seconds: it lies in (sent+reset-1s, now+reset].
// later: the answer is of a later window than what was known; older: of an
// earlier one.
func (q *quota) bound(now, sent stamp, reset time.Duration) (later, older bool) {
	if reset < 0 {
		return false, false
	}
	grain := time.Second
	if reset%time.Second != 0 {
		grain = time.Millisecond
	}
	reset = min(reset, 400*maxHold)
	lo, hi := sent.Add(reset-grain), now.Add(reset)
	switch {
	case q.hi.IsZero() || !lo.Before(q.hi) || !sent.Before(q.hi):
		later = !q.hi.IsZero()
		q.lo, q.hi = lo, hi
	case !hi.After(q.lo):
		return false, true
	default:
		if lo.After(q.lo) {
			q.lo = lo
		}
		if hi.Before(q.hi) {
			q.hi = hi
		}
	}
	q.told = reset
	return later, false
}
