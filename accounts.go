package comity

import (
	"time"

	"github.com/comity/comity/internal/limit"
)

// limiterFree returns the units free at now, as far as lim can tell.
func limiterFree(lim Limiter, now time.Time) float64 {
	if f, ok := lim.(interface{ Free(time.Time) float64 }); ok {
		return f.Free(now)
	}
	return 0
}

// limiterFull reports whether a new limiter would decide as lim does. Of one that
// cannot tell, as of a fleet's, nothing is lost: its state is elsewhere.
func limiterFull(lim Limiter, now time.Time) bool {
	if f, ok := lim.(interface{ Full(time.Time) bool }); ok {
		return f.Full(now)
	}
	return true
}

// newLimiter returns the limiter of r for one key of dest. A New of the user's is
// user code: no lock is held.
func (r *limitRule) newLimiter(dest, key string) Limiter {
	if r.New != nil {
		if l := r.New(dest, key); l != nil {
			return l
		}
		return nothing{}
	}
	return makeLimiter(r.Algorithm, r.rule)
}

// nothing is the limiter that a Limit.New stands for when it returns nil.
type nothing struct{}

func (nothing) Take(time.Time, int) (time.Duration, error) { return 0, nil }
func (nothing) Adjust(time.Time, int)                      {}

// bind points the charges of k at accounts, making those that are missing. It
// gives up the lock while a Limit.New runs.
func (p *pacer) bind(k *turn, now time.Time) {
	k.bound = true
	for i := range k.charges {
		c := &k.charges[i]
		c.b = p.led.get(c)
		if c.b != nil {
			continue
		}
		if c.rule.New == nil {
			c.b = p.led.add(c, makeLimiter(c.rule.Algorithm, c.rule.rule), now)
			continue
		}
		p.mu.Unlock()
		lim := c.rule.newLimiter(p.name, c.key)
		p.mu.Lock()
		if c.b = p.led.get(c); c.b == nil {
			c.b = p.led.add(c, lim, now)
		}
	}
	if len(k.globals) > 0 {
		k.pol.shared.bind(k, now)
	}
}

// bind points the globals of k at accounts. A Limit.New of Config.Limits is run
// under no lock but that of the pacer whose call it is for.
func (cm *commons) bind(k *turn, now time.Time) {
	cm.mu.Lock()
	defer cm.mu.Unlock()
	for i := range k.globals {
		c := &k.globals[i]
		if c.b = cm.led.get(c); c.b != nil {
			continue
		}
		lim := Limiter(nil)
		if c.rule.New == nil {
			lim = makeLimiter(c.rule.Algorithm, c.rule.rule)
		} else {
			cm.mu.Unlock()
			lim = c.rule.newLimiter("", c.key)
			cm.mu.Lock()
		}
		if c.b = cm.led.get(c); c.b == nil {
			c.b = cm.led.add(c, lim, now)
			c.b.common = true
		}
	}
}

// bindKnown points the charges of k at the accounts there are. What has no account
// yet has spent nothing.
func (k *turn) bindKnown(l *ledger) {
	for i := range k.charges {
		c := &k.charges[i]
		if c.b = l.get(c); c.b == nil {
			c.n = 0
		}
	}
	if len(k.globals) == 0 {
		return
	}
	cm := k.pol.shared
	cm.mu.Lock()
	defer cm.mu.Unlock()
	for i := range k.globals {
		c := &k.globals[i]
		if c.b = cm.led.get(c); c.b == nil {
			c.n = 0
		}
	}
}

// setRules matches the accounts of p to the limits of the policies that hold for
// it now: by identity, as of one Algorithm they keep what they have spent, else
// they begin with the units of their last Per charged. Those who wait are priced
// and timed anew.
func (p *pacer) setRules(now time.Time, pols []*policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.led.limits[:0]
	for _, s := range p.led.limits {
		r := ruleOf(pols, s.rule.id)
		if r == nil {
			continue
		}
		if !r.same(s.rule) {
			s.change(r, p.name, now)
		}
		s.rule = r
		if s.one != nil {
			s.one.rule = r
		}
		for _, b := range s.keyed {
			b.rule = r
		}
		kept = append(kept, s)
	}
	clear(p.led.limits[len(kept):])
	p.led.limits = kept
	p.repriceAll(now)
	p.epoch++
}

// changeDelay has the pause after the last call be what a change of the delay makes
// of it.
func (p *pacer) changeDelay(old, now Delay) {
	if old == now {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.pauseEnd.IsZero() {
		never := func() float64 { return 0 }
		p.pauseEnd = max(p.pauseEnd.Add(now.pause(p.latency, never)-old.pause(p.latency, never)), 1)
	}
}

// ruleOf returns the rule with the identity id in pols, or nil.
func ruleOf(pols []*policy, id string) *limitRule {
	for _, pol := range pols {
		for i := range pol.limits {
			if pol.limits[i].id == id {
				return &pol.limits[i]
			}
		}
	}
	return nil
}

// change makes the accounts of s obey r.
func (s *ledgerLimit) change(r *limitRule, dest string, now time.Time) {
	one := func(b *account) {
		old, ok := b.lim.(limit.Limiter)
		if ok && r.New == nil && r.Algorithm == b.rule.Algorithm {
			old.Reconfigure(now, r.rule)
			return
		}
		b.lim = r.newLimiter(dest, b.key)
		if ok {
			if n := old.Spent(now); n > 0 {
				b.lim.Adjust(now, n)
			}
		}
	}
	if s.one != nil {
		one(s.one)
	}
	for _, b := range s.keyed {
		one(b)
	}
}

// requeue puts those who wait in the queues of the quotas that bind them now.
func (p *pacer) requeue(now time.Time) {
	if p.waiting == 0 {
		return
	}
	var all []*waiter
	for len(p.line.busy) > 0 {
		w := p.line.busy[0].head(false)
		p.line.drop(w)
		all = append(all, w)
	}
	for _, w := range all {
		w.due, w.decides, w.stamp = time.Time{}, nil, p.epoch-1
		p.line.add(p.line.queueOf(w.k, p.told.mask(w.k)), w)
	}
}

// snapshot fills in what p knows of its destination.
func (p *pacer) snapshot(now time.Time, d *Destination) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.InFlight, d.Waiting = int(p.inFlight), int(p.waiting)
	for i := range p.led.limits {
		s := &p.led.limits[i]
		if s.one != nil {
			d.Limits = append(d.Limits, s.one.state(now))
		}
		for _, b := range s.keyed {
			d.Limits = append(d.Limits, b.state(now))
		}
	}
	if p.told == nil {
		return
	}
	if p.told.hold.holds(now) {
		d.HeldUntil = p.told.hold.until
	}
	for _, q := range p.told.quotas {
		d.Quotas = append(d.Quotas, q.state(stampOf(now)))
	}
}

// state is b as snapshots show it.
func (b *account) state(now time.Time) LimitState {
	s := LimitState{Name: b.rule.label, Key: b.key, Next: now}
	l, ok := b.lim.(limit.Limiter)
	if !ok {
		return s
	}
	s.Available = l.Free(now)
	if b.slack != nil {
		s.Margin = b.slack.value(stampOf(now))
	}
	if w := l.Wait(now, 1); w != Forever {
		s.Next = now.Add(w)
	}
	return s
}

// wallStep shortens what servers told by the time that the machine slept: when
// the wall clock went further than the monotonic one, which stands still then, by
// more than 2 s since the last decision.
func (p *pacer) wallStep(now time.Time) {
	t := p.told
	if t == nil {
		return
	}
	s := now.Unix() - t.clock.Unix()
	if s == 0 {
		return // it cannot have slept as long within a second
	}
	if s >= 2 && !t.clock.IsZero() {
		if slept := now.Round(0).Sub(t.clock.Round(0)) - now.Sub(t.clock); slept > 2*time.Second {
			t.shorten(slept)
			p.epoch++
		}
	}
	t.clock = now
}

// shorten brings told holds and resets nearer by d.
func (t *told) shorten(d time.Duration) {
	if t.hold.kind == holdTold && !t.hold.until.IsZero() {
		t.hold.until = t.hold.until.Add(-d)
	}
	for _, q := range t.quotas {
		for _, at := range []*stamp{&q.lo, &q.hi, &q.retryAt} {
			if !at.IsZero() {
				*at = at.Add(-d)
			}
		}
	}
}
