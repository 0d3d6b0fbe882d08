package comitytest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRoundTripper checks that wrap keeps the contract of [http.RoundTripper],
// one subtest a clause: R about requests, B about responses, E about waits,
// errors and retries.
//
// wrap is called for each case with a base of that case's own: a fake, or an
// [http.Transport] to a server on loopback or in memory. What it returns must
// have no limit that the cases of a few calls run into; no case but the one of
// concurrent use needs two calls open at once to a host. Cases with a clock run
// in a bubble of testing/synctest. If the wrapper is an [io.Closer], it is closed
// at the end of each case.
//
// Cases about a second try are skipped for a wrapper that makes none: it is
// asked once, by a GET that fails and would succeed if it were sent again.
func TestRoundTripper(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) {
	t.Helper()
	c := &contract{wrap: wrap}
	c.probe(t)
	for _, cl := range clauses() {
		t.Run(cl.name, func(t *testing.T) { c.run(t, cl) })
	}
}

// A clause is one promise and the function that checks it.
type clause struct {
	name string
	needs
	check func(*trial)
}

// needs says how a clause is run.
type needs uint8

const (
	clock needs = 1 << iota // in a bubble, with a fake clock
	wire                    // once over HTTP/1 and once over HTTP/2
	again                   // only for what tries again
)

// contract is what is known of the wrapper under test.
type contract struct {
	wrap       func(http.RoundTripper) http.RoundTripper
	trigger    *failure // what it tries again after; nil if nothing
	background bool     // goroutines of its own outlive its calls
}

func clauses() []clause {
	var all []clause
	all = append(all, requestClauses...)
	all = append(all, responseClauses...)
	return append(all, errorClauses...)
}

func (c *contract) run(t *testing.T, cl clause) {
	if cl.needs&again != 0 && c.trigger == nil {
		t.Skip("skipped: the wrapper does not try again")
	}
	if cl.needs&wire == 0 {
		c.start(t, cl, "")
		return
	}
	for _, proto := range []string{http1, http2} {
		t.Run(proto, func(t *testing.T) { c.start(t, cl, proto) })
	}
}

// start runs one case, in a bubble if it needs a clock. A panic fails that case
// alone, and so does a goroutine that is left behind.
func (c *contract) start(t *testing.T, cl clause, proto string) {
	tr := &trial{T: t, c: c, proto: proto, patience: 10 * time.Second}
	if cl.needs&clock == 0 {
		tr.guarded(cl.check)
		return
	}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		left := strings.Contains(fmt.Sprint(p), "main bubble goroutine has exited")
		if left && c.background && !strings.HasPrefix(cl.name, "E19") {
			return // said once, by E19
		}
		t.Errorf("goroutines are left behind, or blocked for ever: %v", p)
	}()
	synctest.Test(t, func(t *testing.T) {
		tr.T, tr.bubble, tr.patience = t, true, time.Hour
		tr.guarded(cl.check)
	})
}

// probe finds out what the wrapper tries again after and whether it keeps
// goroutines. It reports nothing: the clauses do.
func (c *contract) probe(t *testing.T) {
	for _, f := range failures {
		calls, ok := c.asks(t, f)
		if ok && calls == 2 {
			c.trigger = f
			t.Logf("the wrapper tries again after %s", f.name)
			return
		}
	}
	t.Log("the wrapper does not try again: cases of a second try are skipped")
}

// asks sends one GET whose first answer is f and returns the number of sends and
// whether the second answer arrived.
func (c *contract) asks(t *testing.T, f *failure) (calls int, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			c.background = true
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		defer func() { _ = recover() }()
		tr := &trial{T: t, c: c, bubble: true, patience: time.Hour}
		base := tr.stub(f.answer, status(200))
		rt := tr.wrapped(base)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+hostA+"/", nil)
		if err != nil {
			return
		}
		res, err := rt.RoundTrip(req)
		ok = err == nil && res != nil && res.StatusCode == 200
		if res != nil && res.Body != nil {
			res.Body.Close()
		}
		calls = len(base.seen())
	})
	return calls, ok
}

// trial is one case at work.
type trial struct {
	*testing.T
	c        *contract
	proto    string        // http1 or http2 for a case on the wire
	bubble   bool          // the clock is fake
	patience time.Duration // after which a call counts as hung

	uploads ledger
}

// guarded runs check; a panic is an error of this case, not the end of the test
// program.
func (t *trial) guarded(check func(*trial)) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	check(t)
}

// wrapped returns the round tripper under test, towards base.
func (t *trial) wrapped(base http.RoundTripper) http.RoundTripper {
	t.Helper()
	rt := t.c.wrap(base)
	if rt == nil {
		t.Fatal("wrap returned nil")
	}
	t.Cleanup(func() {
		if c, ok := rt.(io.Closer); ok {
			_ = c.Close()
		}
	})
	return rt
}

// result is the end of a RoundTrip.
type result struct {
	*http.Response
	err      error
	panicked any
	took     time.Duration
}

// try runs one RoundTrip and waits for its end, but not for ever.
func (t *trial) try(rt http.RoundTripper, req *http.Request) result {
	t.Helper()
	select {
	case r := <-t.launch(rt, req):
		return r
	case <-time.After(t.patience + time.Second):
	}
	t.Fatalf("RoundTrip did not return within %s", t.patience)
	return result{}
}

// launch runs one RoundTrip in a goroutine of its own.
func (t *trial) launch(rt http.RoundTripper, req *http.Request) <-chan result {
	done := make(chan result, 1)
	began := time.Now()
	go func() {
		var r result
		defer func() {
			r.panicked = recover()
			r.took = time.Since(began)
			done <- r
		}()
		r.Response, r.err = rt.RoundTrip(req)
	}()
	return done
}

// answered is try for a call that must end in a response.
func (t *trial) answered(rt http.RoundTripper, req *http.Request) result {
	t.Helper()
	r := t.try(rt, req)
	if r.panicked != nil {
		t.Fatalf("RoundTrip panicked: %v", r.panicked)
	}
	if r.err != nil {
		t.Fatalf("RoundTrip failed: %v", r.err)
	}
	if r.Response == nil {
		t.Fatal("RoundTrip returned neither response nor error")
	}
	return r
}

// text reads the whole body of res and closes it.
func (t *trial) text(res *http.Response) string {
	t.Helper()
	if res.Body == nil {
		t.Fatal("the response has no Body")
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("reading the body of the response: %v", err)
	}
	if err := res.Body.Close(); err != nil {
		t.Errorf("closing the body of the response: %v", err)
	}
	return string(b)
}

// closed closes what a call returned, if anything.
func (r result) close() {
	if r.Response != nil && r.Body != nil {
		_ = r.Body.Close()
	}
}

// context returns one that ends with the case, and before it counts as hung.
func (t *trial) context() context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), t.patience)
	t.Cleanup(cancel)
	return ctx
}
