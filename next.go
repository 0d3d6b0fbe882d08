package comity

import (
	"net/http"
	"time"
)

// Next reports when req could be sent, behind those that wait already, without
// sending or spending anything. It creates no destination: of an unknown one only
// Config.Limits are asked. The adaptive throttle and the Guards are not.
func (t *Transport) Next(req *http.Request) Readiness {
	now := time.Now()
	if !t.ready.Load() || req.URL == nil {
		return Readiness{At: now}
	}
	a := tries.Get().(*try) // nobody sees it
	defer func() {
		*a = try{}
		tries.Put(a)
	}()
	a.t, a.root, a.now = t, req, now
	a.Request, a.N, a.Call = req, 1, CallFrom(req.Context())
	d, g, p := t.known(req, &a.Call, now)
	if d == nil {
		return t.nextShared(a, now)
	}
	defer d.unpin()
	a.goesTo(d, g, p)
	a.turn.price()
	return d.pacer.next(&a.turn, now)
}

// nextShared is Next for a destination that is not known.
func (t *Transport) nextShared(a *try, now time.Time) Readiness {
	if t.shared == nil {
		return Readiness{At: now}
	}
	a.turn.pol = &policy{shared: t.shared}
	a.turn.by, a.turn.req, a.turn.cost, a.turn.crit = a, a.root, a.Call.Cost, a.Call.Criticality
	if a.turn.crit == 0 {
		a.turn.crit = Critical
	}
	a.turn.price()
	return new(pacer).next(&a.turn, now)
}

// known is locate without making anything: d is nil if there is no such
// destination, else pinned.
func (t *Transport) known(req *http.Request, call *Call, now time.Time) (d *destination, g *group, p *policy) {
	host := hostOf(req.URL)
	r := t.rules.Load()
	p = r.match(host, req.URL)
	if p == r.rest && t.policyFor != nil {
		d := t.registry.pin(destKey{name: host})
		if d == nil {
			return nil, nil, nil
		}
		p = d.hostOwn.Load()
		d.unpin()
		if p == nil {
			return nil, nil, nil
		}
	}
	k := p.keyOf(host, req, call)
	d = t.registry.pin(k)
	if d == nil && t.overflows.Load() {
		d, p = t.registry.pin(t.overflowKey(k, p)), p.slow()
	}
	if d == nil {
		return nil, nil, nil
	}
	if g = d.group.Load(); !g.has(p) {
		if g = t.join(d, p, now); g == nil { // the policies change this instant
			d.unpin()
			return nil, nil, nil
		}
	}
	return d, g, p
}
