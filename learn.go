package comity

import "time"

// answer is how a try ended, for learn.
type answer struct {
	sent, now time.Time
	verdict   Verdict
	advice    *Advice // RetryAfter -1 and no quotas if there was no response
	status    int     // 0 without a response
	aged      bool    // a stored answer (Age above 0): it says nothing about quotas
	pause     bool    // a 200 that asks for a pause beside its delay: X-Database-Lag, X-RateLimit-Delay
}

// ruling is what an answer means for its call and its destination.
type ruling struct {
	held  bool // a hold was set or grew
	until stamp
	told  time.Duration // what was asked for; -1 if nothing was
	back  bool          // refused: back to the line, where the hold is its delay
	delay time.Duration // only this call waits so long, at least
	final bool          // the call gets this answer: another try would not help
	ready bool          // a hold ended early
}

// learn takes in how the sent try of k ended.
func (p *pacer) learn(k *turn, a *answer) ruling {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.landed(k)
	r := ruling{told: -1}
	good := a.verdict == Accepted || a.verdict == Broken
	if a.verdict == Accepted {
		p.latency = a.now.Sub(a.sent)
	}
	if good {
		p.pace.accept(a.now, a.sent, k.ceiling())
	}
	if p.told == nil && good && len(a.advice.Quotas) == 0 && a.advice.RetryAfter <= 0 {
		return r
	}
	excess := time.Duration(0)
	if p.told != nil {
		excess = p.told.trips.add(a.now, a.now.Sub(a.sent))
		if os := a.sent.Add(excess); p.pace.rate > 0 {
			p.pace.arrived(os, a.now)
		}
	}
	if len(k.charges) > 0 && (a.verdict == Limited || a.verdict == Accepted) {
		p.charged(k, a, excess)
	}
	refusal := a.verdict == Limited || a.verdict == Overloaded
	if p.told == nil && !refusal && len(a.advice.Quotas) == 0 && a.advice.RetryAfter <= 0 {
		return r
	}
	t := p.tell()
	if t.clock.IsZero() {
		t.clock = a.now // the machine may sleep before the next decision
	}
	if good || refusal {
		t.recent.add(a.now, refusal)
	}
	wasRamp := k.ramped && t.hold.ramp.places > 0
	t.hold.ramp.endedIf(k, a.now, good)
	reported := p.report(k, a, excess)
	if good {
		t.lastGood = stampOf(a.now)
		t.hold.accepted(a.now, a.sent)
		t.cleared(k)
		if reported && wasRamp {
			t.hold.ramp = ramp{} // from here on the quota decides
		}
		if d := a.advice.RetryAfter; d > 0 && a.status == 200 && (a.pause || t.usedUp(a.advice)) {
			p.holdTold(&r, a, d, 0)
		}
	}
	if refusal {
		p.refused(k, a, &r)
	}
	if r.held {
		p.judge(a.now)
	}
	p.epoch++
	if p.waiting > 0 {
		p.dispatch(a.now)
	} else {
		t.drained()
	}
	return r
}

// endedIf notes the answer to the call of k if the ramp counts it.
func (r *ramp) endedIf(k *turn, now time.Time, accepted bool) {
	if k.ramped {
		k.ramped = false
		r.ended(now, k.at, accepted)
	}
}

// quotaErred reports whether a refusal of k is one of a reported quota rather than of
// the configured limits: one that let k go with nothing left, paces a refill with a
// margin of its own, or is spent by others too. A quota that had room says nothing.
func (k *turn) quotaErred(now stamp) bool {
	for _, s := range k.spent {
		if s.early || s.q.share.on || s.q.share.crowded(now) || s.q.pace(now) > 0 {
			return true
		}
	}
	return false
}

// charged tells the configured limits how a call went that they let go.
func (p *pacer) charged(k *turn, a *answer, excess time.Duration) {
	refused := a.verdict == Limited && a.sent.After(p.told.lastRefusal()) && !k.quotaErred(stampOf(a.now))
	for i := range k.charges {
		if c := &k.charges[i]; c.b != nil && !c.rule.Shadow && (refused || c.b.slack != nil) {
			c.b.ended(a.now, a.sent, a.sent.Add(excess), c.n, refused, p.told.longest())
		}
	}
}

// longest is the largest excess of a round trip over the shortest, lately.
func (t *told) longest() time.Duration {
	if t == nil {
		return 0
	}
	return t.trips.longest
}

// lastRefusal is when a refusal last began an incident.
func (t *told) lastRefusal() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.hold.last
}

// ceiling is the lowest rate a second that the configured limits of k allow; 0
// without one.
func (k *turn) ceiling() (rate float64) {
	for i := range k.charges {
		r := k.charges[i].rule
		if r.N <= 0 || r.Per <= 0 || k.charges[i].off() {
			continue
		}
		if v := float64(r.N) / float64(k.charges[i].n) / r.Per.Seconds(); rate == 0 || v < rate {
			rate = v
		}
	}
	return rate
}

// usedUp reports whether a says that a quota is used up.
func (t *told) usedUp(a *Advice) bool {
	for i := range a.Quotas {
		if a.Quotas[i].Remaining == 0 {
			return true
		}
	}
	return false
}

// refused rules on a refusal: what it means for the destination and for the call.
func (p *pacer) refused(k *turn, a *answer, r *ruling) {
	t := p.told
	d := a.advice.RetryAfter
	if a.verdict == Overloaded {
		if d <= 0 {
			return // the throttle and the retry delay of the call answer it
		}
		if !t.recent.mostlyRefused(a.now) {
			r.delay, r.told = d, d
			return
		}
	}
	k.refusals++
	r.back = true
	if t.lastGood.IsZero() {
		t.lastGood = stampOf(a.sent)
	}
	if t.usedUp(a.advice) {
		t.count(k, true) // the quota explains it, not the call
	} else if t.ownFault(k, a, p.sends, r) {
		return
	}
	if d <= 0 {
		d = t.unpaced(k, a)
	} else {
		t.tellQuotas(k, a.now, d)
	}
	p.pace.refuse(a.now, max(d, 0))
	if d > 0 {
		floor, _ := t.hold.incident(a.now, a.sent, t.spacing(k))
		p.holdTold(r, a, d, floor)
		return
	}
	if t.emptied(k, a) {
		t.hold.incident(a.now, a.sent, t.spacing(k))
		return // the quota's reset is the delay, for the calls that spend it
	}
	if t.hold.sameIncident(a.sent) {
		return
	}
	r.final = k.scout && t.gone(k, a.now)
	t.hold.incident(a.now, a.sent, 0)
	t.hold.incidents++
	own := ownBackoff(t.hold.incidents, k.pol.Retry.Base, k.pol.Retry.Cap, randFloat)
	if t.hold.extend(a.now, a.now.Add(own), holdOwn, a.status, -1) {
		r.held, r.until = true, stampOf(t.hold.until)
	}
}

// holdTold holds p for the delay d that a response told, never less, and at least
// for floor.
func (p *pacer) holdTold(r *ruling, a *answer, d, floor time.Duration) {
	t := p.told
	r.told = d
	until := a.now.Add(min(d, maxHold))
	if d%time.Second == 0 {
		until = t.exact(until, a.advice)
	}
	until = until.Add(jitterTold(min(d, maxHold), t.shared() || t.hold.repeats > 1, randFloat))
	if f := a.now.Add(floor); f.After(until) {
		// Without jitter who is refused asks again in the same phase of the server's
		// beat, where another client takes what there is.
		until = f.Add(jitterTold(floor, true, randFloat))
	}
	if t.hold.extend(a.now, until, holdTold, a.status, d) {
		r.held, r.until = true, stampOf(t.hold.until)
	}
}

// exact returns the instant that a delay in whole seconds, which ends at until,
// stands for: where earlier answers told the same reset more exactly, that.
func (t *told) exact(until time.Time, a *Advice) time.Time {
	end := stampOf(until)
	for i := range a.Quotas {
		if q := t.find(&a.Quotas[i]); q != nil && !q.hi.IsZero() && q.hi.Before(end) && end.Add(-time.Second).Before(q.hi) {
			return q.hi.from(until)
		}
	}
	return until
}

// shared reports whether others share a reported quota.
func (t *told) shared() bool {
	for _, q := range t.quotas {
		if q.share.on {
			return true
		}
	}
	return false
}

// spacing is the time between two calls of k where a quota or a limit tells it.
func (t *told) spacing(k *turn) (sp time.Duration) {
	for _, q := range t.quotas {
		if _, ok := q.spends(k); ok {
			sp = max(sp, q.spacing())
		}
	}
	for i := range k.charges {
		if r := k.charges[i].rule; r.N > 0 && !r.Shadow {
			sp = max(sp, r.Per/time.Duration(r.N))
		}
	}
	return sp
}

// learnOf takes in the end of a call that a Pacer let go at sent.
func (p *pacer) learnOf(pol *policy, sent, now time.Time, v Verdict, a *Advice) {
	k := &turn{by: waits{}, pol: pol, maxWait: Forever, airborne: true, at: sent}
	p.mu.Lock()
	k.num = p.sends // the quotas that were known when it went count it
	if p.told != nil {
		k.ramped = p.told.hold.ramp.places > 0
		for _, q := range p.told.quotas {
			k.spent = append(k.spent, spent{q: q, n: 1, early: q.probing})
		}
	}
	p.mu.Unlock()
	status := 0
	if v == Accepted {
		status = 200
	}
	p.learn(k, &answer{sent: sent, now: now, verdict: v, advice: a, status: status})
}
