package comity

import (
	"strconv"
	"time"
)

// Where Config.MaxDestinations leaves no room, and none can be forgotten, new
// destinations share a few that are slower than any of them would be alone.
const (
	overflowSlots = 64 // for each policy
	overflowDelay = time.Second

	// sweepEach is how many old destinations each new one looks at: some more than
	// one, so that the number of those that can be forgotten falls. sweepFull is how
	// many it looks at where there is no room.
	sweepEach = 4
	sweepFull = 64
)

// place returns the destination for the key k, pinned, and what a call under p
// obeys there. d is that of k, pinned, if it is known but nothing was sent to it, or
// nil.
func (t *Transport) place(d *destination, k destKey, p *policy, now time.Time) (*destination, *policy) {
	if o := t.overflow(k, p, now); o != nil {
		if d != nil {
			d.unpin()
		}
		return o, p.slow()
	}
	if d == nil {
		d = t.create(k)
	}
	if k.part != "" {
		t.inheritHold(d, now)
	}
	return d, p
}

// create returns the destination of k, pinned. It is made unless another call was
// first.
func (t *Transport) create(k destKey) *destination {
	return t.registry.add(newDestination(k))
}

// standsIn reports whether d is an overflow destination.
func (d *destination) standsIn() bool { return d.traits.Load()&overflowing != 0 }

// hasFunc reports whether l holds a function.
func (l Limit) hasFunc() bool {
	return l.For != nil || l.Key != nil || l.Cost != nil || l.Settle != nil || l.New != nil
}

// overflow makes room for a new destination. If there is none, or if what another
// overflow destination was told may have been meant for this key, it returns that,
// pinned.
func (t *Transport) overflow(k destKey, p *policy, now time.Time) *destination {
	if t.most <= 0 {
		return nil
	}
	if t.registry.count.Load() >= t.most/10 {
		t.registry.sweep(sweepEach, now)
	}
	full := t.registry.count.Load() >= t.most && t.registry.sweep(sweepFull, now) == 0
	if !full && !t.overflows.Load() {
		return nil
	}
	if p.rules != nil && p.name != "" && k.part == "" || p.rules == nil && p.serial == 0 {
		return nil // as many as were written down; or a policy that no two hosts share
	}
	o := t.registry.pin(t.overflowKey(k, p))
	switch {
	case o != nil && (full || o.calls.Load() > 1 || !o.idle(now)):
	case o != nil:
		o.unpin()
		return nil
	case !full:
		return nil
	default:
		t.overflows.Store(true)
		d := newDestination(t.overflowKey(k, p))
		d.traits.Store(overflowing)
		o = t.registry.add(d)
	}
	if t.wholeHeld(k, now) {
		o.unpin()
		return nil
	}
	return o
}

func (t *Transport) overflowKey(k destKey, p *policy) destKey {
	return destKey{p.slow().name, strconv.Itoa(int(t.registry.hash(k) % overflowSlots))}
}

// slow returns the policy p as overflow destinations have it: one call at a time
// and a pause after each. Its name is theirs.
func (p *policy) slow() *policy {
	if s := p.slowed.Load(); s != nil {
		return s
	}
	s := &policy{Policy: p.Policy, pattern: p.pattern, limits: p.limits, shared: p.shared, rules: p.rules,
		settles: p.settles, shown: p.shown, ends: true}
	s.name = "overflow of " + strconv.Quote(p.pattern)
	if p.rules == nil {
		s.name = "overflow of PolicyFor " + strconv.FormatUint(p.serial, 10)
	}
	s.MaxInFlight = 1
	s.Delay.Min = max(s.Delay.Min, overflowDelay)
	if len(s.Guards) == 0 {
		s.alone = &group{policies: []*policy{s}}
	}
	if !p.slowed.CompareAndSwap(nil, s) {
		return p.slowed.Load()
	}
	return s
}

// regroupOverflow returns what an overflow destination obeys under r.
func (r *ruleBook) regroupOverflow(old *group, p *policy) *policy {
	if p != nil || old.policies[0].rules == nil {
		return p
	}
	if q := r.patterns[old.policies[0].pattern]; q != nil {
		return q.slow()
	}
	return nil
}

// wholeHeld reports whether the split destination that k is a part of is held as a
// whole.
func (t *Transport) wholeHeld(k destKey, now time.Time) bool {
	if k.part == "" {
		return false
	}
	return t.heldUntil(destKey{name: k.name}, now).After(now)
}

// inheritHold has a new part of a split destination keep an operator's hold of the
// whole.
func (t *Transport) inheritHold(d *destination, now time.Time) {
	if until := t.heldUntil(destKey{name: d.key().name}, now); until.After(now) {
		d.pacer.holdFor(now, until)
	}
}

// heldUntil returns when the hold of k ends, if it is known.
func (t *Transport) heldUntil(k destKey, now time.Time) time.Time {
	d := t.registry.pin(k)
	if d == nil {
		return time.Time{}
	}
	defer d.unpin()
	if d.group.Load() == nil {
		return time.Time{}
	}
	var s Destination
	d.pacer.snapshot(now, &s)
	return s.HeldUntil
}
