package comity

import (
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// join makes p one of the policies that d obeys, and returns what d obeys now. It
// returns nil if p itself no longer holds.
func (t *Transport) join(d *destination, p *policy, now time.Time) *group {
	for {
		if p.rules != nil && p.rules != t.rules.Load() {
			return nil
		}
		old := d.group.Load()
		if old.has(p) {
			return old
		}
		if g := t.regroup(d, old, p, nil, now); g != nil {
			return g
		}
	}
}

// regroup has d obey the policies that name it now, those of old that still do,
// less gone, and p. Both may be nil. It returns nil if d obeys something else than
// old meanwhile.
func (t *Transport) regroup(d *destination, old *group, p, gone *policy, now time.Time) *group {
	r := t.rules.Load()
	if d.standsIn() {
		if old != nil {
			p = r.regroupOverflow(old, p)
		}
		if p == nil {
			return old
		}
		return t.obey(d, old, []*policy{p}, now)
	}
	ps := slices.Clone(r.named[d.key().name])
	add := func(p *policy) {
		if p != nil && !slices.Contains(ps, p) {
			ps = append(ps, p)
		}
	}
	add(p)
	if old != nil {
		for _, q := range old.policies {
			switch {
			case q == gone:
			case q == p || q.rules == r:
				add(q)
			case q.rules == nil: // of PolicyFor: it holds until that says otherwise
				if q.name != "" || d.hostOwn.Load() == q {
					add(q)
				}
			case q.name == "": // of "" or a wildcard, and d is a host
				if now := r.matchHost(d.key().name); now.name == "" && (now != r.rest || t.policyFor == nil) {
					add(now)
				}
			}
		}
	}
	if len(ps) == 0 {
		return old // nothing names it any more: who still has it ends under what it had
	}
	return t.obey(d, old, ps, now)
}

// obey has d obey ps, unless it obeys something else than old by now.
func (t *Transport) obey(d *destination, old *group, ps []*policy, now time.Time) *group {
	g := newGroup(d, old, ps)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !d.group.CompareAndSwap(old, g) {
		return nil
	}
	if old != nil && len(old.policies) == 1 && len(ps) == 1 { // else each call keeps its own
		d.pacer.changeDelay(old.policies[0].Delay, ps[0].Delay)
	}
	d.pacer.setRules(now, g.policies)
	return g
}

// newGroup returns what d obeys under ps. Gates of the same Guards stay.
func newGroup(d *destination, old *group, ps []*policy) *group {
	first := ps[0]
	if len(ps) == 1 && first.alone != nil {
		return first.alone
	}
	g := &group{policies: ps}
	if old != nil && sameGuards(old.policies[0].Guards, first.Guards) {
		g.gates = old.gates
		return g
	}
	for _, guard := range first.Guards {
		g.gates = append(g.gates, guard.NewGate(d.name))
	}
	return g
}

// sameGuards reports whether a and b are the same slice.
func sameGuards(a, b []Guard) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// matchHost returns the policy for the root of host.
func (r *ruleBook) matchHost(host string) *policy { return r.match(host, &url.URL{Path: "/"}) }

// askPolicy returns what PolicyFor says of host. It is kept with the destination of
// that name, and forgotten with it.
func (t *Transport) askPolicy(host string) (*policy, error) {
	d := t.registry.pin(destKey{name: host})
	if d != nil {
		defer d.unpin()
		if p := d.hostOwn.Load(); p != nil {
			return p, nil
		}
	}
	p, err := t.intern(host)
	if err != nil {
		return nil, err
	}
	if d == nil {
		d = t.create(destKey{name: host})
		defer d.unpin()
	}
	if !d.hostOwn.CompareAndSwap(nil, p) {
		return d.hostOwn.Load(), nil
	}
	return p, nil
}

// internedMost is how many policies of PolicyFor are compared with a new one.
const internedMost = 16

// intern asks PolicyFor for the policy of host. Hosts with equal policies share
// one: a million copies would take more memory than all the rest.
func (t *Transport) intern(host string) (*policy, error) {
	raw := t.policyFor(strings.Clone(host))
	if faults := raw.check(); len(faults) > 0 {
		return nil, errors.Join(inField("PolicyFor("+strconv.Quote(host)+")", faults)...)
	}
	p := newPolicy(raw, "", t.shared)
	for _, other := range t.rules.Load().named[p.name] {
		if faults := p.conflicts(other); p.name != "" && len(faults) > 0 {
			return nil, errors.Join(inField("PolicyFor("+strconv.Quote(host)+")", faults)...)
		}
	}
	if len(p.Guards) > 0 {
		return p, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.interned {
		if reflect.DeepEqual(p.Policy, q.Policy) { // functions never are, unless their slice is the same
			return q, nil
		}
	}
	if len(t.interned) >= internedMost {
		t.interned = t.interned[1:]
	}
	if limits := slices.ContainsFunc(p.Limits, Limit.hasFunc); !limits && reflect.DeepEqual(p.Policy, p.Policy) {
		t.serial++
		p.serial = t.serial
	}
	t.interned = append(t.interned, p)
	return p, nil
}

// SetPolicies replaces Config.Policies: all of them, or none if one is invalid.
// Destinations keep what they have learned. Limits are matched by Name, else by
// position: one of the same Algorithm keeps what it has spent, another starts
// with the units of its last Per charged. Gates are made anew unless Guards is
// the same slice. Calls that wait are timed anew, those in flight end under the
// old policy.
func (t *Transport) SetPolicies(policies map[string]Policy) error {
	if !t.ready.Load() {
		t.begin()
	}
	r, err := newRules(policies, t.shared)
	if err != nil {
		return err
	}
	t.rules.Store(r)
	now := time.Now()
	for _, d := range t.registry.list() {
		t.regroupAll(d, r, now)
	}
	return nil
}

// regroupAll has d obey r.
func (t *Transport) regroupAll(d *destination, r *ruleBook, now time.Time) {
	for t.rules.Load() == r {
		old := d.group.Load()
		if old == nil || t.regroup(d, old, nil, nil, now) != nil {
			return
		}
	}
}

// Refresh asks Config.PolicyFor again for host, as when its robots.txt is known.
func (t *Transport) Refresh(host string) {
	if !t.ready.Load() {
		t.begin()
	}
	host = canonicalHost(host, "")
	d := t.registry.pin(destKey{name: host})
	if d == nil || t.policyFor == nil {
		return // its first call asks
	}
	defer d.unpin()
	old := d.hostOwn.Load()
	if old == nil {
		return
	}
	p, err := t.intern(host)
	if err != nil || p == old || !d.hostOwn.CompareAndSwap(old, p) {
		return
	}
	now := time.Now()
	for _, d := range t.registry.named(old.destination(host)) {
		q := p
		if p.destination(host) != d.key().name {
			q = nil
		}
		for {
			g := d.group.Load()
			if !g.has(old) || t.regroup(d, g, q, old, now) != nil {
				break
			}
		}
	}
}

// destination returns the name of the destination of calls to host under p.
func (p *policy) destination(host string) string {
	if p.name != "" {
		return p.name
	}
	return host
}

// Hold stops calls to dest until the given time, creating it if need be; the
// zero time ends what servers told and the own backoff, not quotas. The name of
// a split destination holds all its parts.
func (t *Transport) Hold(dest string, until time.Time) {
	if !t.ready.Load() {
		t.begin()
	}
	now := time.Now()
	found := false
	name, part, _ := strings.Cut(dest, "#")
	held := t.registry.named(dest)
	if part != "" {
		held = t.registry.one(destKey{name, part})
	}
	for _, d := range held {
		if d.group.Load() == nil {
			continue
		}
		found = found || d.name == dest
		t.hold(d, now, until)
	}
	if found || until.IsZero() {
		return
	}
	p := t.rules.Load().matchHost(name)
	if named := t.rules.Load().named[name]; len(named) > 0 {
		p = named[0]
	} else if p == t.rules.Load().rest && t.policyFor != nil {
		own, err := t.askPolicy(name)
		if err != nil {
			return
		}
		p = own
	}
	k := destKey{name, part}
	d := t.registry.pin(k)
	if d == nil {
		if d = t.overflow(k, p, now); d == nil {
			d = t.create(k)
		}
	}
	defer d.unpin()
	if d.standsIn() {
		if p = p.slow(); d.pacer.heldLonger(until) {
			return // others stand there too: it is only ever held for longer
		}
	}
	if g := d.group.Load(); g.has(p) || t.join(d, p, now) != nil {
		t.hold(d, now, until)
	}
}

// hold holds one destination, and says so.
func (t *Transport) hold(d *destination, now, until time.Time) {
	ready := d.pacer.holdFor(now, until)
	if t.trace == nil {
		return
	}
	if until.After(now) && t.trace.Held != nil {
		t.trace.Held(Hold{Destination: d.name, Until: until, Told: -1})
	}
	if ready && t.trace.Ready != nil {
		t.trace.Ready(d.name)
	}
}
