package comity

import (
	"context"
	"net/http"
	"strconv"
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

// WithCall returns a context that carries c. Fields left zero keep the value
// of an outer WithCall.
func WithCall(ctx context.Context, c Call) context.Context {
	if outer, ok := ctx.Value(callKey{}).(*callValue); ok {
		c = c.over(outer.call)
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

// callValue is what WithCall puts in a context.
type callValue struct {
	call Call
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
