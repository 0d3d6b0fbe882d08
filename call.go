package comity

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Call is what one request asks for beyond its destination's policy.
type Call struct {
	Cost        Cost          // units to spend; nil is what each Limit says
	Criticality Criticality   // who is shed first, and who waits longest
	Idempotent  bool          // safe to send twice, whatever its method
	Retries     int           // replaces Retry.Max
	Stream      bool          // its place is free once its headers are here, and its own deadline says nothing about the destination: event streams, long polls
	MaxWait     time.Duration // replaces Policy.MaxWait
	Key         string        // replaces what Policy.Key returns: the tenant, the account
	Trace       *Trace        // hooks for this request, after Config.Trace
}

// Cost is a number of units by Limit.Unit.
type Cost map[string]int

// Settle corrects the cost of the request made with ctx, which WithCall
// returned for it, once the caller knows what it was.
func Settle(ctx context.Context, actual Cost) {
	if a := lastTry(ctx); a != nil {
		a.d.pacer.settle(&a.turn, actual, time.Now())
	}
}

// Report tells the destination of the last call made with ctx, which WithCall
// returned for it, what only the body said: a refusal in a stream's event, in an
// item of a batch, in a GraphQL answer. It is learned as if the headers had said
// so; nothing is sent again.
func Report(ctx context.Context, v Verdict, adv Advice) {
	a := lastTry(ctx)
	if a == nil {
		return
	}
	now := time.Now()
	if adv.RetryAfter <= 0 {
		adv.RetryAfter = -1
	}
	seen := Attempt{Request: a.Request, Destination: a.Destination, Call: a.Call, N: a.N, Sent: a.Sent, Verdict: v, Advice: adv}
	if ad := a.group.adaptive(); ad.K > 0 && v == Overloaded {
		accepted, counts := ad.outcome(&seen)
		a.d.throttle.done(ad, now, accepted, counts)
	}
	r := a.d.pacer.learn(&a.turn, &answer{sent: a.Sent, now: now, verdict: v, advice: &adv})
	for _, tr := range a.traces() {
		r.tell(tr, now, a.Destination, &seen)
	}
}

// lastTry returns the last try sent with the context that WithCall returned.
func lastTry(ctx context.Context) *try {
	if v, ok := ctx.Value(callKey{}).(*callValue); ok {
		if v = v.origin(); v != nil {
			return v.last.Load()
		}
	}
	return nil
}

// WithCall returns a context that carries c. Fields left zero keep the value
// of an outer WithCall.
func WithCall(ctx context.Context, c Call) context.Context {
	if outer, ok := ctx.Value(callKey{}).(*callValue); ok {
		return context.WithValue(ctx, callKey{}, &callValue{call: c.over(outer.call), resent: outer.resent})
	}
	return context.WithValue(ctx, callKey{}, &callValue{call: c})
}

// CallFrom returns the Call that ctx carries, or the zero Call.
func CallFrom(ctx context.Context) Call {
	if v, ok := ctx.Value(callKey{}).(*callValue); ok {
		return v.call
	}
	return Call{}
}

// callKey is the context key of a *callValue.
type callKey struct{}

// callValue is what WithCall puts in a context, and a Transport in that of each
// try after the first.
type callValue struct {
	call   Call
	resent bool       // a Transport tries again: one further in must not
	root   *callValue // the caller's own, of a try's; nil if it has none
	last   atomic.Pointer[try]
}

// origin returns the value that the caller holds, or nil.
func (v *callValue) origin() *callValue {
	if v.resent && v.root == nil {
		return nil
	}
	if v.root != nil {
		return v.root
	}
	return v
}

// over returns c with its zero fields taken from outer.
func (c Call) over(outer Call) Call {
	if c.Cost == nil {
		c.Cost = outer.Cost
	}
	if c.Criticality == 0 {
		c.Criticality = outer.Criticality
	}
	if !c.Idempotent {
		c.Idempotent = outer.Idempotent
	}
	if c.Retries == 0 {
		c.Retries = outer.Retries
	}
	if !c.Stream {
		c.Stream = outer.Stream
	}
	if c.MaxWait == 0 {
		c.MaxWait = outer.MaxWait
	}
	if c.Key == "" {
		c.Key = outer.Key
	}
	if c.Trace == nil {
		c.Trace = outer.Trace
	}
	return c
}

// Criticality orders calls for shedding, lowest first.
type Criticality int8

const (
	Sheddable     Criticality = iota - 2 // partial or total loss expected: batch work
	SheddablePlus                        // partial loss expected
	_                                    // 0, not stated: that of the outer Call, or Critical
	Critical                             // users would notice
	CriticalPlus                         // shed last
)

// String returns the name of c in kebab case, as package egress sends it:
// "sheddable", "sheddable-plus", "critical", "critical-plus", "" for 0.
func (c Criticality) String() string {
	switch c {
	case Sheddable:
		return "sheddable"
	case SheddablePlus:
		return "sheddable-plus"
	case 0:
		return ""
	case Critical:
		return "critical"
	case CriticalPlus:
		return "critical-plus"
	}
	return "criticality(" + strconv.Itoa(int(c)) + ")"
}

// Attempt is one try at a request, as gates, traces and policies see it. It must
// not be changed, and is valid only during the call it is passed to (for a Gate
// until Leave): copy what you keep.
type Attempt struct {
	Request     *http.Request
	Destination string
	Call        Call
	N           int           // 1 for the first try
	Waited      time.Duration // held back so far, all tries
	Sent        time.Time     // zero until sent
	Latency     time.Duration // from Sent to the response's headers
	Response    *http.Response
	Err         error // error of the base transport
	Verdict     Verdict
	Advice      Advice
	Shadow      bool // decisions about it are not enforced
}

// Verdict is what an attempt's end says about its destination.
type Verdict uint8

const (
	Unsent     Verdict = iota // not ended, never sent, the caller's own fault (bad URL, certificate, no such host) or this machine's own trouble (no file, port or memory left, no route)
	Accepted                  // answered, or refused for the request's own fault
	Limited                   // this client is over a limit and the call was not carried out, so even a POST is sent again: 429; 403 with Retry-After, or with a quota used up (then tried again once at most); 400, 413, 418, 420 with Retry-After; HTTP/2 ENHANCE_YOUR_CALM
	Overloaded                // 502, 503, 504, 520 to 524, 529; no connection; connection lost; try timed out
	Broken                    // any other 5xx
	Canceled                  // the caller gave up
)

// String returns the name of v in lower case, fit for a metric label.
func (v Verdict) String() string {
	switch v {
	case Unsent:
		return "unsent"
	case Accepted:
		return "accepted"
	case Limited:
		return "limited"
	case Overloaded:
		return "overloaded"
	case Broken:
		return "broken"
	case Canceled:
		return "canceled"
	}
	return "verdict(" + strconv.Itoa(int(v)) + ")"
}
