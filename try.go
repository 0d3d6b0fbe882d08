package comity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// try is one try of a call: what others see of it, its standing with the pacer,
// and the body that its answer has. It is the only allocation of a call that is
// not held back, and all that a call is; what several tries share is in again.
type try struct {
	Attempt
	turn   turn
	t      *Transport
	root   *http.Request // the caller's; that of Attempt is a copy from the second try on
	value  *callValue    // where Settle and Report find the try; nil without WithCall
	d      *destination
	group  *group
	now    time.Time // of the step
	ruling ruling
	again  *again // of the second and later tries
	own    *ownContext
	fault  fault
	holds  uint8
	marked bool // the context says that another Transport retries
	lent   bool // a context of its own knows it
	told   bool // Policy.Classify gave the Verdict

	entered []Gate
	left    atomic.Bool
	body    body
	quotas  [2]Quota // room for Advice.Quotas
}

// What a try holds that a panic or a refusal must give back.
const (
	holdsAdmission uint8 = 1 << iota // of the throttle
	holdsPlace                       // and units of the pacer
	holdsAnswer                      // sent: the pacer and the throttle wait for its end
	holdsCall                        // sent: the place is not yet left to the body
)

// Faults of a request that are found before its destination is known.
var (
	errNoURL    = errors.New("comity: nil Request.URL")
	errNoHeader = errors.New("comity: nil Request.Header")
	errNoHost   = errors.New("comity: no Host in request URL") // in the words of net/http
	errNothing  = errors.New("comity: the base transport returned neither a response nor an error")
)

// tries that nobody else has seen are used again.
var tries = sync.Pool{New: func() any { return new(try) }}

// begun returns the first try of a call.
func (t *Transport) begun(req *http.Request, ctx context.Context) (*try, error) {
	a := tries.Get().(*try)
	if a.t != t {
		a.t = t
	}
	a.root, a.now = req, time.Now()
	a.Request, a.N = req, 1
	if v, ok := ctx.Value(callKey{}).(*callValue); ok {
		a.Call, a.marked, a.value = v.call, v.resent, v.origin()
	}
	d, g, p, err := t.locate(req, &a.Call, a.now)
	if err != nil {
		return nil, err
	}
	a.goesTo(d, g, p)
	return a, nil
}

// goesTo has a go to d, obeying p.
func (a *try) goesTo(d *destination, g *group, p *policy) {
	if a.d != d || a.group != g || a.turn.pol != p { // a try used again most often goes where it went before
		a.d, a.group, a.Destination = d, g, d.name
		a.turn.by, a.turn.pol = a, p
	}
	a.Shadow = p.Shadow
	a.turn.req = a.root
	if a.Call.Cost != nil {
		a.turn.cost = a.Call.Cost
	}
	a.turn.crit, a.turn.maxWait = a.Call.Criticality, a.Call.MaxWait
	if a.turn.crit == 0 {
		a.turn.crit = Critical
	}
	if a.turn.maxWait == 0 {
		a.turn.maxWait = p.MaxWait
	}
}

// refuse closes the body of a request that is not sent.
func refuse(req *http.Request, err error) error {
	if req.Body != nil {
		req.Body.Close()
	}
	return err
}

// repolicy is part of caller: what a obeys after the policies changed, unless it
// belongs elsewhere now.
func (a *try) repolicy() *policy {
	p, err := a.t.policyOf(hostOf(a.root.URL), a.root)
	if err != nil {
		return a.turn.pol
	}
	if a.d.standsIn() {
		p = p.slow()
	}
	if p.name != "" && p.name != a.d.key().name {
		return a.turn.pol
	}
	return p
}

// guarded returns what a gate's refusal means for the caller.
func (a *try) guarded(g Gate, err error) error {
	if ctx := a.root.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if own, ok := err.(*ThrottledError); ok {
		e := *own
		if e.Destination == "" {
			e.Destination = a.Destination
		}
		return &e
	}
	name := printGate(g)
	return &ThrottledError{Reason: ReasonGuard, Destination: a.Destination, Limit: name, Err: err,
		detail: fmt.Sprintf("gate %q: %v", name, err)}
}

// goes notes that a goes out now.
func (a *try) goes() {
	a.Sent = a.now
	if ad := a.group.adaptive(); ad.K > 0 {
		a.d.throttle.sent(ad, a.now)
	}
	a.holds = holdsAnswer | holdsCall
	a.d.touch(a.now.Sub(a.t.epoch))
	if a.again != nil {
		a.again.sends()
	} else {
		a.d.budget.first(a.now)
	}
	if a.value != nil {
		a.value.last.Store(a)
	}
	for _, tr := range a.traces() {
		if tr.Sent != nil {
			tr.Sent(&a.Attempt)
		}
	}
}

// came takes in what the base returned for req.
func (a *try) came(req *http.Request, res *http.Response, err error) {
	if res == nil && err == nil {
		err = errNothing
	}
	if a.own != nil {
		if cause := a.own.ended(a.root.Context()); cause != nil {
			err = cause
		}
	}
	if err != nil && res != nil {
		if res.Body != nil {
			res.Body.Close()
		}
		res = nil
	}
	if res != nil && res.Request == req {
		res.Request = a.root // and not a copy with a context of ours
	}
	a.Response = res
	if err != nil {
		a.Err = err
	}
}

// teach tells the throttle and the pacer how a ended.
func (a *try) teach() {
	if ad := a.group.adaptive(); ad.K > 0 {
		accepted, counts := ad.outcome(&a.Attempt)
		if ad.Accepted == nil && a.neutral() {
			counts = false
		}
		a.d.throttle.done(ad, a.now, accepted, counts)
	}
	if a.Verdict == Accepted && a.Err == nil {
		a.d.learnLatency(a.Sent.Sub(a.t.epoch), a.Latency)
	}
	if a.turn.pol.settles && a.Response != nil {
		a.d.pacer.settleByHeaders(&a.turn, &a.Attempt, a.now)
	}
	ans := a.answer()
	a.ruling = a.d.pacer.learn(&a.turn, &ans)
	a.holds &^= holdsAnswer
}

// answer is what the pacer learns of a.
func (a *try) answer() answer {
	ans := answer{sent: a.Sent, now: a.now, verdict: a.Verdict, advice: &a.Advice}
	if a.Response == nil {
		return ans
	}
	ans.status = a.Response.StatusCode
	if a.Advice.RetryAfter < 0 && len(a.Advice.Quotas) == 0 {
		return ans
	}
	h := a.Response.Header
	if age := h["Age"]; len(age) > 0 && age[0] != "" && age[0] != "0" {
		ans.aged = true
	}
	if a.Advice.RetryAfter > 0 && ans.status/100 == 2 {
		ans.pause = len(h["X-Database-Lag"]) > 0 || len(h["X-Ratelimit-Delay"]) > 0
	}
	return ans
}

// refused ends a call whose try was not sent. What came back to an earlier try
// stands; a call that was given up has no use for it.
func (a *try) refused(err error) (*http.Response, error) {
	a.release()
	if a.again == nil {
		refuse(a.root, err)
	}
	throttled, ok := err.(*ThrottledError)
	if ok {
		a.tellRefused(throttled)
	}
	if a.again == nil {
		return nil, err
	}
	a.again.cancel(a)
	if !ok && a.root.Context().Err() != nil {
		a.again.aside.drop()
		return nil, err
	}
	return a.again.aside.take()
}

// over is a context that has ended: a gate that would wait under it refuses.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// tries enters a gate whose refusal is not enforced. It does not wait.
func (a *try) tries(g Gate) {
	a.Request = a.root.WithContext(over)
	err := g.Enter(&a.Attempt)
	a.Request = a.root
	if err == nil {
		a.entered = append(a.entered, g)
		return
	}
	if refused, ok := a.guarded(g, err).(*ThrottledError); ok {
		a.passes(refused)
	}
}

// release gives back what a holds, in reverse order.
func (a *try) release() {
	for n := len(a.entered); n > 0; n = len(a.entered) {
		gate := a.entered[n-1]
		a.entered = a.entered[:n-1]
		gate.Leave(&a.Attempt)
	}
	if a.holds&holdsPlace != 0 {
		a.holds &^= holdsPlace
		a.d.pacer.abandon(&a.turn, a.now)
	}
	if a.holds&holdsAdmission != 0 {
		a.holds &^= holdsAdmission
		a.d.throttle.unsend(a.group.adaptive(), a.now)
	}
}

// end gives back what is held until the response's body has ended, last taken
// first. It may be called more than once.
func (a *try) end(now time.Time) {
	if a.own != nil && (a.Response == nil || a.Response.StatusCode != http.StatusSwitchingProtocols) {
		a.own.release()
	}
	a.leavePlace(now)
}

func (a *try) leavePlace(now time.Time) {
	if a.left.Swap(true) {
		return
	}
	for i := len(a.entered) - 1; i >= 0; i-- {
		a.entered[i].Leave(&a.Attempt)
	}
	if !a.d.pacer.leave(&a.turn, a.delay(), now) {
		return
	}
	for _, tr := range a.traces() {
		if tr.Ready != nil {
			tr.Ready(a.Destination)
		}
	}
}

// delay is the pause after a. Where one policy holds for all calls that is the
// latest, though a went under another: a robots.txt asks for it in its own answer.
func (a *try) delay() Delay {
	if g := a.d.group.Load(); g != a.group && len(g.policies) == 1 && len(a.group.policies) == 1 {
		return g.policies[0].Delay
	}
	return a.turn.pol.Delay
}

// recycle has a used again, if it ended and nobody else can have kept it: no body
// or context of its own is at large, and no user code saw the Attempt.
func (a *try) recycle() {
	if !a.left.Load() || a.body.a != nil || a.lent || a.again != nil || a.value != nil || a.shown() || len(a.entered) > 0 {
		return
	}
	if a.Err == nil && a.turn.waited == 0 && a.turn.refusals == 0 && len(a.turn.charges) == 0 && len(a.turn.globals) == 0 {
		a.wipe()
	} else {
		*a = try{}
	}
	tries.Put(a)
}

// wipe clears what a call leaves behind that cost nothing and was not held back,
// but for what each call sets anew. To clear all of a is slow while the garbage
// collector runs.
func (a *try) wipe() {
	a.Request, a.Response, a.root = nil, nil, nil
	a.Sent, a.Latency, a.Verdict, a.Shadow = time.Time{}, 0, 0, false
	a.Advice = Advice{}
	a.holds, a.fault, a.told = 0, 0, false
	a.left.Store(false)
	k := &a.turn
	k.req, k.quotaOf, k.suspect, k.spent, k.spentBuf = nil, "", nil, nil, [len(k.spentBuf)]spent{}
	k.charges, k.globals = nil, nil
	k.bound, k.placed, k.airborne, k.ramped, k.scout = false, false, false, false, false
	k.seq, k.num, k.at = 0, 0, time.Time{}
}

// unwind ends RoundTrip's use of the destination. If the base, a gate or a hook
// panicked, it gives back what the try still holds.
func (a *try) unwind() {
	d := a.d
	if a.holds == 0 {
		a.recycle()
		d.unpin()
		return
	}
	defer d.unpin()
	if a.holds&holdsCall == 0 {
		a.release()
		return
	}
	now := time.Now()
	if a.holds&holdsAnswer != 0 {
		a.Verdict, a.Advice.RetryAfter = Canceled, -1
		if ad := a.group.adaptive(); ad.K > 0 {
			a.d.throttle.done(ad, now, false, false)
		}
		a.d.pacer.learn(&a.turn, &answer{sent: a.Sent, now: now, verdict: Canceled, advice: &a.Advice})
	}
	a.end(now)
}
