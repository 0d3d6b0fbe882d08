package comity

import "time"

// would is what a shadow would have done to a call that goes: held it back for d, or
// refused it.
type would struct {
	d   time.Duration
	why Reason
	err *ThrottledError
}

// off reports whether c keeps its call from nothing.
func (c *charge) off() bool { return c.n == 0 || c.rule.Shadow }

// firstAsked is the account of the first of cs that is not off; nil if all are.
func firstAsked(cs []charge) *account {
	for i := range cs {
		if !cs[i].off() {
			return cs[i].b
		}
	}
	return nil
}

// shade charges the shadow limits of the call of k, which goes at now, as if it had
// waited its turn with them, and notes what they would have done. If they would have
// refused it, nothing is charged.
func (p *pacer) shade(k *turn, now time.Time) {
	longest := time.Duration(0)
	var by *account
	for _, cs := range [][]charge{k.charges, k.globals} {
		for i := range cs {
			c := &cs[i]
			if c.n == 0 || !c.rule.Shadow || c.b == nil {
				continue
			}
			d, err := p.shadeOne(k, c, now)
			if err != nil {
				k.would = &would{err: err}
				giveShades(k.charges, now)
				giveShades(k.globals, now)
				return
			}
			if d > longest {
				longest, by = d, c.b
			}
		}
	}
	if by != nil {
		k.would = &would{d: longest, why: ReasonLimit}
	}
}

// shadeOne charges c, a shadow limit of k, and returns how long it would have held
// the call back, or the error that it would have refused it with.
func (p *pacer) shadeOne(k *turn, c *charge, now time.Time) (time.Duration, *ThrottledError) {
	wait, err := c.b.lim.Take(now, c.n)
	b := bound{}
	if k.req != nil {
		b = boundOf(k.req.Context(), k, now)
	}
	y := way{gate: c.b, why: ReasonLimit, at: now.Add(wait), err: err}
	switch {
	case err != nil:
		return 0, p.refuse(k, y, time.Time{}, now, bound{})
	case wait <= 0:
		c.took = true
		return 0, nil
	case wait == Forever:
		y.why, y.err = ReasonCost, errCost
		return 0, p.refuse(k, y, time.Time{}, now, bound{})
	case k.maxWait <= 0 || b.before(y.at):
		return 0, p.refuse(k, y, y.at, now, b)
	}
	c.b.lim.Adjust(now, c.n)
	c.took = true
	return wait, nil
}

// giveShades gives back what shadow limits were charged.
func giveShades(cs []charge, now time.Time) {
	for i := range cs {
		if c := &cs[i]; c.took && c.rule.Shadow {
			c.b.lim.Adjust(now, -c.n)
			c.took = false
		}
	}
}

// force lets a call of a shadow policy go that y would have kept: its limits are
// charged as if it had waited, unless it would have been refused.
func (p *pacer) force(k *turn, y way, now time.Time) {
	w := &would{d: untilOrUnknown(y.at, now), why: y.why}
	est := y.at
	if p.waiting > 0 && !est.IsZero() {
		est = p.estimate(k, classOf(k.crit, k.again), est, now)
	}
	b := bound{}
	if k.req != nil {
		b = boundOf(k.req.Context(), k, now)
	}
	if y.err != nil || k.maxWait <= 0 || b.before(est) {
		w = &would{err: p.refuse(k, y, est, now, b)}
	} else {
		spend(k.charges, now)
		k.forceCommons(now)
	}
	p.grant(k, now)
	k.would = w
}

// reportShadow tells the hooks what a shadow would have done to a.
func (a *try) reportShadow() {
	w := a.turn.would
	a.turn.would, a.Shadow = nil, true
	if w.err != nil {
		a.passes(w.err)
		return
	}
	a.waiting(w.d, w.why)
}
