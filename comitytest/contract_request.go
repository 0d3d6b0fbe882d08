package comitytest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var requestClauses = []clause{
	{"R1_request_not_modified", clock, requestNotModified},
	{"R2_request_only_read_in_flight", 0, requestOnlyRead},
	{"R3_body_closed_on_success", wire, bodyClosedOnSuccess},
	{"R4_body_closed_when_base_cannot_dial", clock, bodyClosedWithoutDial},
	{"R5_body_closed_when_not_sent", clock, bodyClosedWhenNotSent},
	{"R6_body_closed_when_wait_is_cut_short", clock | again, bodyClosedAfterCutWait},
	{"R7_each_try_sends_the_whole_body", clock | again, wholeBodyEachTry},
	{"R8_no_body_stays_no_body", clock | wire, noBodyStays},
	{"R9_content_length_on_each_try", clock | wire, contentLengthEachTry},
	{"R10_without_GetBody_sent_once", clock, sentOnceWithoutGetBody},
	{"R11_uploads_are_streamed", wire, uploadsStreamed},
	{"R12_request_trailers", clock | wire, requestTrailers},
	{"R13_expect_continue_leaves_upload_unread", wire, expectContinue},
	{"R14_context_and_httptrace_reach_the_base", clock | wire, contextAndTrace},
	{"R15_headers_equal_on_each_try", clock, headersEachTry},
	{"R16_failing_GetBody_ends_the_call", clock | again, failingGetBody},
	{"R17_concurrent_use", wire, concurrentUse},
	{"R18_invalid_request_is_an_error", clock, invalidRequest},
	{"R19_RequestURI_is_no_error", wire, requestURI},
	{"R20_framing_fields_pass_through", clock, framingFields},
	{"R21_connect_and_upgrade_sent_once", clock, connectAndUpgrade},
	{"R22_request_cancel_channel_survives", clock, cancelChannel},
	{"R23_length_zero_with_a_body_is_unknown_length", clock | wire, lengthZeroWithBody},
}

// photo is a request as it was.
type photo struct {
	of      *http.Request
	fields  http.Request
	header  http.Header
	trailer http.Header
	url     string
}

func photograph(r *http.Request) photo {
	return photo{r, *r, r.Header.Clone(), r.Trailer.Clone(), r.URL.String()}
}

// unchanged fails the case for each field of the request that differs now.
func (t *trial) unchanged(p photo, when string) {
	t.Helper()
	now, was := p.of, &p.fields
	same := map[string]bool{
		"Method":           now.Method == was.Method,
		"URL":              now.URL == was.URL && now.URL.String() == p.url,
		"Proto":            now.Proto == was.Proto && now.ProtoMajor == was.ProtoMajor,
		"Header":           reflect.DeepEqual(now.Header, p.header),
		"Body":             now.Body == was.Body,
		"GetBody":          (now.GetBody == nil) == (was.GetBody == nil),
		"ContentLength":    now.ContentLength == was.ContentLength,
		"TransferEncoding": slices.Equal(now.TransferEncoding, was.TransferEncoding),
		"Close":            now.Close == was.Close,
		"Host":             now.Host == was.Host,
		"Trailer":          reflect.DeepEqual(now.Trailer, p.trailer),
		"RequestURI":       now.RequestURI == was.RequestURI,
		"Response":         now.Response == was.Response,
		"context":          now.Context() == was.Context(),
	}
	for field, ok := range same {
		if !ok {
			t.Errorf("the caller's request has another %s %s", field, when)
		}
	}
}

func requestNotModified(t *trial) {
	for name, script := range map[string][]answer{
		"200":       t.script(status(200)),
		"404":       t.script(status(404)),
		"a failure": t.script(broken(io.ErrUnexpectedEOF)),
	} {
		req := t.put("http://"+hostA+"/p?q=1", "content")
		req.Header["X-Multi"] = []string{"a", "b"}
		req.Header["x-lower"] = []string{"c"}
		before := photograph(req)
		base := t.stub(script...)
		base.look = func(*http.Request) { t.unchanged(before, "while it is sent, before "+name) }
		t.try(t.wrapped(base), req).close()
		t.unchanged(before, "after "+name)
	}
}

// requestOnlyRead reads the request all the time in builds with the race
// detector, which then reports any write. Without it a write beside a read of a
// map would end the test program, so there it reads while the base has the call.
func requestOnlyRead(t *trial) {
	base := t.stub(status(200))
	rt := t.wrapped(base)
	req := t.get("http://" + hostA + "/p?q=1")
	req.Header.Set("X-One", "1")
	before := photograph(req)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	if raceEnabled {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = req.Header.Clone()
				_, _, _, _ = *req.URL, req.Host, req.Method, req.Close
				time.Sleep(10 * time.Microsecond) // a turn for the call on a single core
			}
		})
	} else {
		base.look = func(*http.Request) { t.unchanged(before, "while it is sent") }
	}
	for range 20 {
		// Two calls share Header and URL, as a caller does who sends a request
		// again with another context.
		second := req.WithContext(t.context())
		t.try(rt, req).close()
		t.try(rt, second).close()
	}
	close(stop)
	readers.Wait()
	t.unchanged(before, "after 40 calls that share its Header")
}

func contextAndTrace(t *trial) {
	type key struct{}
	s := t.serve(t.setbackFirst(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	base := &tap{RoundTripper: s, look: func(r *http.Request) {
		if r.Context().Value(key{}) != "value" {
			t.Error("a value of the context does not reach the base")
		}
	}}
	var conns, wrote, first atomic.Int32
	req := t.put(s.url, "content")
	ctx := context.WithValue(req.Context(), key{}, "value")
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { conns.Add(1) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { wrote.Add(1) },
		GotFirstResponseByte: func() { first.Add(1) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) {},
	})
	r := t.answered(t.wrapped(base), req.WithContext(ctx))
	t.text(r.Response)
	t.settle()
	n := base.n.Load()
	if f := t.c.trigger; f != nil && f.status == 0 {
		first.Add(1) // no byte arrives of a connection that is lost
	}
	got := []int32{conns.Load(), wrote.Load(), first.Load()}
	if n != int32(t.tries()) || !slices.Equal(got, []int32{n, n, n}) {
		t.Errorf("%d tries, want %d; GotConn, WroteRequest, GotFirstResponseByte were called %v times", n, t.tries(), got)
	}
}

func headersEachTry(t *trial) {
	base := t.stub(t.script(status(200))...)
	req := t.put("http://"+hostA+"/p", "content")
	req.Host = "other.example"
	req.Header.Set("Authorization", "Bearer x")
	req.Header.Set("Cookie", "a=1")
	req.Header["X-Multi"] = []string{"a", "b"}
	t.answered(t.wrapped(base), req).close()
	t.count(base, t.tries())
	for i, c := range base.seen() {
		if c.copy.Host != "other.example" {
			t.Errorf("try %d has Host %q", i+1, c.copy.Host)
		}
		for name, want := range req.Header {
			if got := c.header[name]; !slices.Equal(got, want) {
				t.Errorf("try %d has %s %q, want %q", i+1, name, got, want)
			}
		}
	}
}

func failingGetBody(t *trial) {
	failed := errors.New("no second body")
	base := t.stub(t.script(status(200))...)
	req := t.put("http://"+hostA, "content")
	req.GetBody = func() (io.ReadCloser, error) { return nil, failed }
	r := t.try(t.wrapped(base), req)
	t.count(base, 1)
	switch {
	case r.Response == nil:
		if f := t.c.trigger; f.status != 0 && !errors.Is(r.err, failed) {
			t.Errorf("got the error %v, want that of GetBody or the last response", r.err)
		}
	case r.err != nil:
		t.Errorf("both a response and the error %v", r.err)
	case r.StatusCode == 200:
		t.Error("sent again although GetBody failed")
	default:
		t.text(r.Response)
	}
}

func concurrentUse(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.Header.Get("X-Id"), b)
	})
	rt := t.wrapped(s)
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for j := range 8 {
				id := fmt.Sprintf("%d-%d", i, j)
				req := t.put(s.url, id)
				req.Header.Set("X-Id", id)
				res, err := rt.RoundTrip(req)
				if err != nil {
					t.Errorf("call %s: %v", id, err)
					return
				}
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				if want := id + " " + id; err != nil || string(b) != want {
					t.Errorf("call %s was answered %q, %v", id, b, err)
				}
			}
		})
	}
	callers.Wait()
}

func invalidRequest(t *trial) {
	for name, spoil := range map[string]func(*http.Request){
		"nil URL":    func(r *http.Request) { r.URL = nil },
		"nil Header": func(r *http.Request) { r.Header = nil },
		"no host":    func(r *http.Request) { r.URL.Host = ""; r.Host = "" },
	} {
		req := t.once("POST", "http://"+hostA+"/", "content")
		spoil(req)
		r := t.try(t.wrapped(&http.Transport{}), req)
		if r.panicked != nil {
			t.Errorf("%s: panic: %v", name, r.panicked)
			continue
		}
		if r.err == nil || r.Response != nil {
			t.Errorf("%s: no error", name)
		}
		t.bodiesClosed()
	}
}
