package comitytest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

func notBeforeRetryAfter(t *trial) {
	forms := map[string]func() string{
		"seconds": func() string { return "3" },
		"a date":  func() string { return time.Now().Add(3 * time.Second).UTC().Format(http.TimeFormat) },
	}
	for name, form := range forms {
		for _, code := range []int{429, 503} {
			first := func(r *http.Request) (*http.Response, error) {
				return respond(r, code, http.Header{"Retry-After": {form()}}, ""), nil
			}
			base := t.stub(first, status(200))
			r := t.answered(t.wrapped(base), t.get("http://"+hostA))
			r.close()
			calls := base.seen()
			if len(calls) == 1 && r.StatusCode == code {
				continue // left to the caller
			}
			if gap := calls[1].at.Sub(calls[0].at); gap < 3*time.Second {
				t.Errorf("%d with Retry-After as %s: tried again after %s, told 3s", code, name, gap)
			}
		}
	}
}

// panicOfBase: a server that aborts a proxied answer panics on purpose, with
// [http.ErrAbortHandler], and expects to see it again.
func panicOfBase(t *trial) {
	base := t.stub(func(*http.Request) (*http.Response, error) { panic(http.ErrAbortHandler) }, status(200))
	rt := t.wrapped(base)
	r := t.try(rt, t.put("http://"+hostA, "content"))
	r.close()
	if r.panicked != http.ErrAbortHandler {
		t.Errorf("the base's panic became %v, %v", r.panicked, r.err)
	}
	for range 3 {
		second := t.launch(rt, t.put("http://"+hostA, "content"))
		select {
		case r := <-second:
			if r.err != nil {
				t.Errorf("a call after the panic failed: %v", r.err)
			}
			r.close()
		case <-time.After(10 * time.Minute):
			t.Fatal("a call after the panic hangs: something is still held")
		}
	}
}

func idleForwarded(t *trial) {
	base := t.stub(status(200))
	(&http.Client{Transport: t.wrapped(base)}).CloseIdleConnections()
	base.mu.Lock()
	defer base.mu.Unlock()
	if base.idle != 1 {
		t.Errorf("the base's CloseIdleConnections was called %d times", base.idle)
	}
}

func hostsApart(t *trial) {
	for name, busy := range t.waits() {
		base := t.stub(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == hostA {
				return busy(r)
			}
			return status(200)(r)
		})
		rt := t.wrapped(base)
		ctx, cancel := context.WithCancel(t.context())
		var held []<-chan result
		for range 20 {
			held = append(held, t.launch(rt, t.get("http://"+hostA).WithContext(ctx)))
		}
		t.settle()
		r := t.try(rt, t.get("http://"+hostB))
		r.close()
		if r.err != nil || r.took > time.Second {
			t.Errorf("while calls to another host wait for %s: answered after %s, %v", name, r.took, r.err)
		}
		cancel()
		for _, h := range held {
			r := <-h
			r.close()
		}
	}
}

// endings run a call to each kind of end.
func (t *trial) endings(visit func(name string, base *stub, r result)) {
	ends := map[string]answer{"an answer": status(200), "an error": broken(&fault{})}
	for name, base := range t.waits() {
		ends["waiting for "+name] = base
	}
	for name, answer := range ends {
		for _, limit := range []time.Duration{0, 20 * time.Millisecond, time.Second} {
			for _, how := range []string{"a cancel", "a deadline"} {
				base := t.stub(answer)
				ctx, cancel := context.WithCancel(t.context())
				if how == "a cancel" {
					time.AfterFunc(limit, cancel)
				} else {
					ctx, cancel = context.WithTimeout(ctx, limit)
				}
				t.settle()
				r := t.try(t.wrapped(base), t.put("http://"+hostA, "content").WithContext(ctx))
				visit(fmt.Sprintf("%s, %s after %s", name, how, limit), base, r)
				r.close()
				cancel()
			}
		}
	}
}

func nothingAfterReturn(t *trial) {
	t.endings(func(name string, base *stub, r result) {
		n := len(base.seen())
		r.close()
		time.Sleep(2 * time.Hour)
		if after := len(base.seen()); after != n {
			t.Errorf("%s: %d sends after RoundTrip had returned", name, after-n)
		}
	})
}

func responseOrError(t *trial) {
	t.endings(func(name string, _ *stub, r result) {
		if r.panicked != nil {
			t.Errorf("%s: panic: %v", name, r.panicked)
			return
		}
		if (r.Response == nil) == (r.err == nil) {
			t.Errorf("%s: response %v, error %v", name, r.Response, r.err)
		}
	})
}

// noGoroutine makes wrappers and calls, and drops them: a goroutine that serves
// them all would stay for ever, as nothing tells it that they are gone.
func noGoroutine(t *trial) {
	rt := t.wrapped(t.stub(t.script(status(200))...))
	for range 3 {
		t.answered(rt, t.get("http://"+hostA)).close()
	}
}

// waitsNeverZero counts tries that the clock does not separate. A wait that was
// rounded down to nothing makes a wrapper spin, and a server take it for an
// attack.
func waitsNeverZero(t *trial) {
	cases := map[string]answer{"a lost connection": broken(io.ErrUnexpectedEOF)}
	for _, code := range []int{429, 503} {
		cases[fmt.Sprint(code)] = status(code)
		for _, after := range []string{"0", "-1", "0.0000000001", "1e-12", "Thu, 01 Jan 1970 00:00:00 GMT"} {
			cases[fmt.Sprintf("%d with Retry-After %q", code, after)] = status(code, "Retry-After", after)
		}
	}
	for name, base := range cases {
		s := t.stub(base)
		ctx, cancel := context.WithTimeout(t.context(), 5*time.Minute)
		t.try(t.wrapped(s), t.get("http://"+hostA).WithContext(ctx)).close()
		cancel()
		calls := s.seen()
		for j := 1; j < len(calls); j++ {
			if !calls[j].at.After(calls[j-1].at) {
				t.Errorf("%s: try %d came without any wait", name, j+1)
				break
			}
		}
		if len(calls) >= tooMany {
			t.Errorf("%s: %d tries", name, len(calls))
		}
	}
}
