package comity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Transport is an [http.RoundTripper] that paces, throttles and retries calls,
// with separate state for each destination. It is safe for concurrent use,
// starts no goroutines and needs no Close. The zero Transport is what New
// returns for a nil base and the zero Config.
type Transport struct {
	ready     atomic.Bool
	base      http.RoundTripper // nil is http.DefaultTransport, looked up for each call
	trace     *Trace
	policyFor func(host string) Policy
	shared    *commons
	most      int64 // destinations; negative is no bound
	nested    bool  // the base holds a Transport, which retries
	epoch     time.Time
	rules     atomic.Pointer[ruleBook]
	registry  registry
	overflows atomic.Bool // there is an overflow destination, or was

	mu       sync.Mutex // guards what follows, and changes of a destination's group
	interned []*policy  // the last policies of policyFor
	serial   uint64     // of the last of them
}

// New returns a Transport that sends through base, or through
// [http.DefaultTransport] if base is nil. It fails only on an invalid
// configuration, and then names every invalid field.
func New(base http.RoundTripper, cfg Config) (*Transport, error) {
	t := &Transport{base: base}
	if err := t.configure(cfg); err != nil {
		return nil, err
	}
	return t, nil
}

// configure makes t ready for its first call.
func (t *Transport) configure(cfg Config) error {
	var faults []error
	for i, l := range cfg.Limits {
		for _, err := range checkLimit(l) {
			faults = append(faults, fmt.Errorf("comity: Limits[%d]: %w", i, err))
		}
	}
	if len(faults) == 0 {
		t.shared = newCommons(cfg.Limits)
	}
	r, err := newRules(cfg.Policies, t.shared)
	if err := errors.Join(append(faults, err)...); err != nil {
		return err
	}
	t.trace, t.policyFor, t.most = cfg.Trace, cfg.PolicyFor, int64(cfg.MaxDestinations)
	if t.most == 0 {
		t.most = defaultMaxDestinations
	}
	t.nested = holdsTransport(t.base)
	t.epoch = time.Now().Add(-time.Hour) // no time since it is 0
	t.registry.init()
	t.rules.Store(r)
	t.ready.Store(true)
	return nil
}

// begin makes the zero Transport ready.
func (t *Transport) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ready.Load() {
		_ = t.configure(Config{}) // the zero Config is valid
	}
}

// nests reports whether a Transport further in retries.
func (t *Transport) nests() bool {
	return t.nested || t.base == nil && holdsTransport(t.inner())
}

// holdsTransport reports whether there is a Transport in rt or below it.
func holdsTransport(rt http.RoundTripper) bool {
	for range 100 { // a chain that is a ring ends too
		if _, ok := rt.(*Transport); ok {
			return true
		}
		u, ok := rt.(interface{ Unwrap() http.RoundTripper })
		if !ok {
			return false
		}
		rt = u.Unwrap()
	}
	return false
}

// RoundTrip sends req once its destination's policy allows. A request that is
// refused before it was sent fails with a [*ThrottledError], also when its
// deadline is too near. One that the caller cancels fails with the cause of its
// context.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	a, err := t.key(req)
	if err != nil {
		return nil, refuse(req, err)
	}
	defer func() { a.unwind() }() // the last try's
	for {
		err = t.throttle(a)
		if err == nil {
			err = t.pace(a)
		}
		if err == nil {
			err = t.enter(a)
		}
		if err == nil {
			err = t.send(a)
		}
		if err != nil {
			return a.refused(err)
		}
		t.observe(a)
		t.leave(a)
		next := t.next(a)
		if next == nil {
			return a.Response, a.Err
		}
		a = next
	}
}

// key finds the destination of req and the policy it obeys.
func (t *Transport) key(req *http.Request) (*try, error) {
	if !t.ready.Load() {
		t.begin()
	}
	ctx := req.Context()
	switch {
	case req.URL == nil:
		return nil, errNoURL
	case req.Header == nil:
		return nil, errNoHeader
	case req.URL.Host == "" && (req.URL.Scheme == "http" || req.URL.Scheme == "https"):
		return nil, errNoHost
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return t.begun(req, ctx)
}

// throttle asks the adaptive throttle: the cheapest refusal, before anything is
// taken.
func (t *Transport) throttle(a *try) error {
	ad := a.group.adaptive()
	if ad.K < 0 {
		return nil
	}
	ok, wait := a.d.throttle.admit(ad, a.now, a.turn.crit, a.N > 1)
	if ok {
		a.holds |= holdsAdmission
		return nil
	}
	err := a.d.throttle.refusal(ad, a.Destination, a.now, wait)
	if ad.Shadow || a.turn.pol.Shadow {
		a.passes(err)
		return nil
	}
	return err
}

// pace waits for the place and the units that a needs, all at one instant.
func (t *Transport) pace(a *try) error {
	if a.N == 1 {
		a.turn.price()
	}
	now, err := a.d.pacer.acquire(a.root.Context(), &a.turn, a.now)
	a.now, a.Waited = now, a.turn.waited
	if err != nil {
		return err
	}
	a.holds |= holdsPlace
	if a.turn.would != nil {
		a.reportShadow()
	}
	return nil
}

// enter asks the gates of the destination's Guards, in order.
func (t *Transport) enter(a *try) error {
	for i, gate := range a.group.gates {
		if a.turn.pol.Shadow {
			a.tries(gate)
			continue
		}
		if err := gate.Enter(&a.Attempt); err != nil {
			return a.guarded(gate, err)
		}
		a.entered = a.group.gates[:i+1]
	}
	if len(a.entered) > 0 {
		now := time.Now()
		a.turn.waited += now.Sub(a.now)
		a.now, a.Waited = now, a.turn.waited
	}
	return nil
}

// send hands the request to the base. It fails only if there is nothing to send:
// if the body cannot be had again.
func (t *Transport) send(a *try) error {
	req, err := t.outgoing(a)
	if err != nil {
		return err
	}
	a.goes()
	res, err := t.inner().RoundTrip(req)
	a.came(req, res, err)
	return nil
}

// observe learns from what came back, for all calls that wait.
func (t *Transport) observe(a *try) {
	a.Latency = time.Since(a.Sent) // half the price of time.Now
	a.now = a.Sent.Add(a.Latency)
	a.classify()
	a.teach()
	a.tell()
}

// leave gives back the place at the end of the response's body.
func (t *Transport) leave(a *try) {
	a.holds &^= holdsCall
	if a.endsNow() {
		a.end(a.now)
		return
	}
	a.body.wrap(a)
}

// inner returns the base. http.DefaultTransport is looked up for each call, as it
// may be replaced; if it was by t itself, what it was before is the base.
func (t *Transport) inner() http.RoundTripper {
	if t.base != nil {
		return t.base
	}
	if rt := http.DefaultTransport; rt != http.RoundTripper(t) {
		return rt
	}
	return standardTransport
}

var standardTransport = http.DefaultTransport

// CloseIdleConnections calls the method of the same name on the base, if any.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.inner().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Unwrap returns the base transport.
func (t *Transport) Unwrap() http.RoundTripper { return t.inner() }

// locate returns the destination of a call, pinned, and the policy that the call
// obeys there.
func (t *Transport) locate(req *http.Request, call *Call, now time.Time) (*destination, *group, *policy, error) {
	r := t.rules.Load()
	if r.onlyHosts && t.policyFor == nil && call.Key == "" {
		// A destination used lately whose name is as plain as this host.
		if d := t.registry.recall(destKey{name: req.URL.Host}); d != nil {
			if g := d.group.Load(); d.traits.Load()&plainName != 0 && g.has(r.rest) && d.pin() {
				return d, g, r.rest, nil
			}
		}
	}
	host := hostOf(req.URL)
	for {
		p, err := t.policyOf(host, req)
		if err != nil {
			return nil, nil, nil, err
		}
		k := p.keyOf(host, req, call)
		d := t.registry.pin(k)
		if d == nil || d.group.Load() == nil {
			d, p = t.place(d, k, p, now)
		}
		g := d.group.Load()
		if !g.has(p) {
			g = t.join(d, p, now)
		}
		if g != nil {
			return d, g, p, nil
		}
		d.unpin() // the policies changed meanwhile
	}
}

// policyOf returns the policy for a call to host.
func (t *Transport) policyOf(host string, req *http.Request) (*policy, error) {
	r := t.rules.Load()
	p := r.match(host, req.URL)
	if p != r.rest || t.policyFor == nil {
		return p, nil
	}
	return t.askPolicy(host)
}

// keyOf returns the key of the destination of a call to host under p.
func (p *policy) keyOf(host string, req *http.Request, call *Call) destKey {
	k := destKey{p.destination(host), call.Key}
	if k.part == "" && p.Key != nil {
		k.part = p.Key(req)
	}
	return k
}

// Destinations returns a snapshot of every destination, sorted by key.
func (t *Transport) Destinations() []Destination {
	if !t.ready.Load() {
		return nil
	}
	now := time.Now()
	var out []Destination
	for _, d := range t.registry.list() {
		if g := d.group.Load(); g != nil {
			out = append(out, d.snapshot(g, now, t.epoch))
		}
	}
	slices.SortFunc(out, func(a, b Destination) int { return strings.Compare(a.Key, b.Key) })
	return out
}
