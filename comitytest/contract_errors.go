package comitytest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"time"
)

var errorClauses = []clause{
	{"E1_error_of_the_base_matches", clock, baseErrorMatches},
	{"E2_timeout_of_the_base_shows", clock, timeoutShows},
	{"E3_scheme_mismatch_shows", clock, schemeMismatch},
	{"E4_dead_context_sends_nothing", clock, deadContext},
	{"E5_cancel_ends_a_wait", clock, cancelEndsWait},
	{"E6_never_waits_past_the_deadline", clock, deadlineKept},
	{"E7_client_timeout_covers_waits", clock, clientTimeout},
	{"E8_cause_of_a_cancel_shows", clock, causeShows},
	{"E9_callers_mistakes_tried_once", clock, mistakesTriedOnce},
	{"E9_bad_certificate_tried_once", 0, certificateTriedOnce},
	{"E10_post_without_key_not_sent_again", clock, postSentOnce},
	{"E11_get_tried_again_on_429_and_503", clock | again, getTriedAgain},
	{"E12_not_before_Retry_After", clock | again, notBeforeRetryAfter},
	{"E13_panic_of_the_base", clock, panicOfBase},
	{"E14_CloseIdleConnections_forwarded", clock, idleForwarded},
	{"E15_hosts_do_not_block_each_other", clock, hostsApart},
	{"E16_nothing_after_return", clock, nothingAfterReturn},
	{"E17_response_or_error", clock, responseOrError},
	{"E19_no_goroutine_of_its_own", clock, noGoroutine},
	{"E20_waits_are_never_zero", clock, waitsNeverZero},
}

// fault is an error of a type of its own.
type fault struct{ timeout bool }

func (*fault) Error() string   { return "fault" }
func (f *fault) Timeout() bool { return f.timeout }

func baseErrorMatches(t *trial) {
	sentinel := errors.New("sentinel")
	for name, send := range map[string]*http.Request{
		"GET": t.get("http://" + hostA), "POST": t.send("POST", "http://"+hostA, "content"),
	} {
		r := t.try(t.wrapped(t.stub(broken(errors.Join(sentinel, &fault{})))), send)
		r.close()
		var as *fault
		if !errors.Is(r.err, sentinel) || !errors.As(r.err, &as) {
			t.Errorf("%s: the base's error is not to be found in %v", name, r.err)
		}
	}
}

// timeoutShows asks as the caller of a Client does: url.Error looks at the type
// of the error itself, not at what it wraps.
func timeoutShows(t *trial) {
	for _, base := range []answer{broken(&fault{timeout: true}), broken(&fault{})} {
		_, want := base(nil)
		client := &http.Client{Transport: t.wrapped(t.stub(base))}
		res, err := client.Do(t.get("http://" + hostA))
		if err == nil {
			res.Body.Close()
			t.Error("no error")
			continue
		}
		var e *url.Error
		if !errors.As(err, &e) || e.Timeout() != want.(*fault).timeout {
			t.Errorf("Timeout() of %v is not %v", err, want.(*fault).timeout)
		}
	}
}

func schemeMismatch(t *trial) {
	t.proto = http1
	s := t.serve(func(http.ResponseWriter, *http.Request) {})
	client := &http.Client{Transport: t.wrapped(s)}
	res, err := client.Do(t.get("https://" + hostA))
	if err == nil {
		res.Body.Close()
	}
	if !errors.Is(err, http.ErrSchemeMismatch) {
		t.Errorf("https to a server of http gave %v", err)
	}
}

func deadContext(t *trial) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{{over, context.Canceled}, {past, context.DeadlineExceeded}} {
		base := t.stub(status(200))
		r := t.try(t.wrapped(base), t.get("http://"+hostA).WithContext(c.ctx))
		r.close()
		if !errors.Is(r.err, c.want) {
			t.Errorf("got %v, want %v", r.err, c.want)
		}
		t.count(base, 0)
	}
}

// waits are the places where a call waits: for an answer, and between two tries.
func (t *trial) waits() map[string]answer {
	w := map[string]answer{"an answer": silence}
	if f := t.c.trigger; f != nil {
		w["a retry"] = f.answer
		if f.status != 0 {
			w["a retry, for 3 s"] = status(f.status, "Retry-After", "3")
			w["a retry, for an hour"] = status(f.status, "Retry-After", "3600")
		}
	}
	return w
}

// slack is what a call may take beyond an instant of the fake clock.
const slack = 10 * time.Millisecond

func cancelEndsWait(t *trial) {
	for name, base := range t.waits() {
		for _, after := range []time.Duration{30 * time.Millisecond, 1500 * time.Millisecond} {
			ctx, cancel := context.WithCancel(t.context())
			stop := time.AfterFunc(after, cancel)
			r := t.try(t.wrapped(t.stub(base)), t.get("http://"+hostA).WithContext(ctx))
			r.close()
			if r.took > after+slack {
				t.Errorf("waiting for %s: returned %s after the cancel", name, r.took-after)
			}
			if r.took >= after && r.Response == nil && !errors.Is(r.err, context.Canceled) {
				t.Errorf("waiting for %s: got %v after the cancel", name, r.err)
			}
			stop.Stop()
			cancel()
		}
	}
}

func deadlineKept(t *trial) {
	for name, base := range t.waits() {
		const limit = 1200 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.context(), limit)
		r := t.try(t.wrapped(t.stub(base)), t.get("http://"+hostA).WithContext(ctx))
		r.close()
		cancel()
		if r.took > limit+slack {
			t.Errorf("waiting for %s: returned %s after the deadline", name, r.took-limit)
		}
		if r.Response != nil || r.err == t.setbackError() {
			continue
		}
		var timeout interface{ Timeout() bool }
		if !errors.Is(r.err, context.DeadlineExceeded) || !errors.As(r.err, &timeout) || !timeout.Timeout() {
			t.Errorf("waiting for %s: got %v, want a DeadlineExceeded whose Timeout is true", name, r.err)
		}
	}
}

// setbackError is the error in hand while the wrapper waits to try again.
func (t *trial) setbackError() error {
	_, err := t.setback().answer(&http.Request{})
	return err
}

func clientTimeout(t *trial) {
	for name, base := range t.waits() {
		client := &http.Client{Transport: t.wrapped(t.stub(base)), Timeout: 1200 * time.Millisecond}
		began := time.Now()
		res, err := client.Do(t.get("http://" + hostA))
		if took := time.Since(began); took > client.Timeout+slack {
			t.Errorf("waiting for %s: returned %s after Client.Timeout", name, took-client.Timeout)
		}
		if err == nil {
			res.Body.Close()
			continue
		}
		if in := t.setbackError(); in != nil && errors.Is(err, in) {
			continue
		}
		// A Client whose time is up to the nanosecond does not say Timeout itself.
		var e *url.Error
		if !errors.As(err, &e) || !e.Timeout() && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for %s: %v does not say that time ran out", name, err)
		}
	}
}

func causeShows(t *trial) {
	cause := errors.New("cause")
	for name, base := range t.waits() {
		ctx, cancel := context.WithCancelCause(t.context())
		stop := time.AfterFunc(30*time.Millisecond, func() { cancel(cause) })
		r := t.try(t.wrapped(t.stub(base)), t.get("http://"+hostA).WithContext(ctx))
		r.close()
		if r.Response == nil && r.took >= 30*time.Millisecond && !errors.Is(r.err, cause) && !errors.Is(r.err, context.Canceled) {
			t.Errorf("waiting for %s: %v is neither the cause nor Canceled", name, r.err)
		}
		stop.Stop()
		cancel(nil)
	}
}

func mistakesTriedOnce(t *trial) {
	for name, spoil := range map[string]func(*http.Request){
		"an unknown scheme":   func(r *http.Request) { r.URL.Scheme = "gopher" },
		"an invalid method":   func(r *http.Request) { r.Method = "G E T" },
		"an invalid header":   func(r *http.Request) { r.Header["X-Bad"] = []string{"a\nb"} },
		"an invalid name":     func(r *http.Request) { r.Header["X Bad"] = []string{"a"} },
		"an URL without host": func(r *http.Request) { r.URL.Host = ""; r.Host = "" },
	} {
		base := &tap{RoundTripper: &http.Transport{}}
		req := t.get("http://" + hostA + "/")
		spoil(req)
		r := t.try(t.wrapped(base), req)
		if r.err == nil {
			t.Errorf("%s: no error", name)
		}
		r.close()
		if n := base.n.Load(); n > 1 {
			t.Errorf("a request with %s was tried %d times", name, n)
		}
	}
}

func certificateTriedOnce(t *trial) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = quiet
	srv.StartTLS()
	t.Cleanup(srv.Close)
	base := &tap{RoundTripper: &http.Transport{}}
	r := t.try(t.wrapped(base), t.get(srv.URL))
	if r.err == nil {
		t.Error("a certificate of an unknown authority was accepted")
	}
	r.close()
	if n := base.n.Load(); n > 1 {
		t.Errorf("a bad certificate was tried %d times", n)
	}
}

// postSentOnce: who has read a POST may have done it, even if no answer came.
func postSentOnce(t *trial) {
	lost := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for name, first := range map[string]answer{
		"an EOF":            broken(io.EOF),
		"an unexpected EOF": broken(io.ErrUnexpectedEOF),
		"a reset":           broken(lost),
		"a timeout":         broken(&fault{timeout: true}),
		"a 500":             status(500),
		"a 502":             status(502),
		"a 504":             status(504),
	} {
		base := t.stub(first, status(200))
		r := t.try(t.wrapped(base), t.send("POST", "http://"+hostA, "charge the card"))
		r.close()
		if n := len(base.seen()); n != 1 {
			t.Errorf("a POST was sent %d times after %s", n, name)
		}
	}
}

func getTriedAgain(t *trial) {
	if t.c.trigger.status == 0 {
		t.Skip("skipped: the wrapper tries again only after a lost connection")
	}
	for _, code := range []int{429, 503} {
		base := t.stub(status(code, "Retry-After", "1"), status(200))
		r := t.answered(t.wrapped(base), t.get("http://"+hostA))
		r.close()
		if n := len(base.seen()); n != 2 || r.StatusCode != 200 {
			t.Errorf("a GET answered %d was sent %d times and gave %d", code, n, r.StatusCode)
		}
	}
}
