package comity

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// outgoing returns the request that goes to the base: the caller's own, or a
// shallow copy with a context or a body of this try. A deep copy would lose the
// trailers that a caller fills in while its body is read.
func (t *Transport) outgoing(a *try) (*http.Request, error) {
	timeout := a.turn.pol.Retry.Timeout
	braked := a.d.traits.Load()&spokeHTTP1 == 0
	if a.N == 1 && timeout <= 0 && !braked {
		return a.root, nil
	}
	fresh := a.root.Body
	if a.N > 1 && hasBody(a.root) {
		var err error
		if fresh, err = a.root.GetBody(); err != nil {
			return nil, err
		}
	}
	ctx := a.root.Context()
	if a.N > 1 {
		v := &callValue{call: a.Call, resent: true, root: a.value}
		ctx = context.WithValue(ctx, callKey{}, v)
	}
	if timeout > 0 || braked {
		ctx = a.newContext(ctx, timeout, braked)
	}
	req := a.root.WithContext(ctx)
	req.Body = fresh
	return req, nil
}

// hasBody reports whether req has a body that a copy must have anew.
func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// ownContext is the context of one try, by which it can end before the call does.
type ownContext struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  error // what the timer ends it with
	a      *try
	sends  atomic.Int32
}

func (a *try) newContext(parent context.Context, timeout time.Duration, braked bool) context.Context {
	o := &ownContext{a: a}
	o.ctx, o.cancel = context.WithCancelCause(parent)
	if timeout > 0 {
		o.limit = &tryTimeout{dest: a.Destination, after: timeout}
		o.timer = time.AfterFunc(timeout, func() { o.cancel(o.limit) })
	}
	a.own, a.lent = o, true
	if braked {
		return httptrace.WithClientTrace(o.ctx, &httptrace.ClientTrace{GotConn: o.gotConn})
	}
	return o.ctx
}

// ended stops the timer, as headers or an error are there, and returns why the
// try's context ended, if the caller's has not. A context that no other one would
// keep needs no end.
func (o *ownContext) ended(caller context.Context) error {
	if o.timer != nil && !o.timer.Stop() {
		o.cancel(o.limit) // it may only just be on its way: this answer's body would be cut
	}
	if caller.Done() == nil {
		o.a.own = nil
	}
	if caller.Err() != nil {
		return nil
	}
	return context.Cause(o.ctx)
}

func (o *ownContext) release() { o.cancel(nil) }

const (
	resendFirst = 100 * time.Millisecond
	resendMost  = time.Second
	resendCount = 10
)

var errResent = errors.New("comity: the server broke off every one of 11 sends of one HTTP/2 request")

// gotConn brakes net/http, which resends a request by itself, without a pause or
// an end, when an HTTP/2 server breaks its stream off with PROTOCOL_ERROR
// (golang/go#52459). It is called once for each send.
func (o *ownContext) gotConn(httptrace.GotConnInfo) {
	n := int(o.sends.Add(1)) - 1
	if n == 0 {
		return
	}
	if n > resendCount {
		o.cancel(errResent)
		return
	}
	a := o.a
	wait := max(a.d.pacer.resent(&a.turn, time.Now()), min(resendFirst<<(n-1), resendMost))
	if wait > max(a.turn.maxWait, resendMost) {
		o.cancel(errResent)
		return
	}
	_ = sleep(o.ctx, wait) // the send that follows sees for itself that the context is over
}

// sleep returns after d, or when ctx ends, with its cause.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryTimeout is the error of a try that Retry.Timeout ended.
type tryTimeout struct {
	dest  string
	after time.Duration
}

func (e *tryTimeout) Error() string {
	return "comity: " + e.dest + ": no answer within " + e.after.String() + " (Retry.Timeout)"
}

// Timeout and Is are what the timeouts of net/http say of themselves.
func (e *tryTimeout) Timeout() bool        { return true }
func (e *tryTimeout) Is(target error) bool { return target == context.DeadlineExceeded }
