package comitytest

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var responseClauses = []clause{
	{"B1_4xx_and_501_returned_once", clock, returnedOnce},
	{"B2_last_response_returned", clock, lastResponse},
	{"B3_redirects_not_followed", clock, redirectsNotFollowed},
	{"B4_each_hop_is_one_RoundTrip", clock, eachHop},
	{"B5_response_names_its_request", clock, responseRequest},
	{"B6_head_204_304", wire, withoutContent},
	{"B7_101_body_is_the_bases_own", clock, switchedProtocol},
	{"B8_gzip_as_in_net_http", wire, compression},
	{"B9_response_trailers", clock | wire, responseTrailers},
	{"B10_streaming", wire, streaming},
	{"B11_body_outlives_RoundTrip", clock | wire, bodyOutlivesCall},
	{"B12_cancel_during_the_body", wire, cancelDuringBody},
	{"B13_connection_reused_and_double_Close", wire, connectionReused},
	{"B14_close_neither_blocks_nor_drains", clock, closeUnread},
	{"B15_early_hints", wire, earlyHints},
	{"B16_cut_body", clock | wire, cutBody},
	{"B17_protocol_and_tls_state", wire, protocolAndTLS},
	{"B18_abandoned_responses_closed", clock | again, abandonedClosed},
	{"B19_retry_reuses_the_connection", clock | wire | again, retryReusesConnection},
	{"B20_nil_body_tolerated", clock, nilBody},
	{"B21_cookies_untouched", clock, cookies},
}

func returnedOnce(t *trial) {
	for _, code := range []int{400, 401, 403, 404, 405, 409, 410, 411, 413, 415, 422, 451, 501} {
		for _, method := range []string{"PUT", "POST"} {
			base := t.stub(status(code))
			r := t.answered(t.wrapped(base), t.send(method, "http://"+hostA, "content"))
			if r.StatusCode != code {
				t.Errorf("%s: the base's %d became %d", method, code, r.StatusCode)
			}
			if got := t.text(r.Response); got != http.StatusText(code) {
				t.Errorf("%s: the body of the %d became %q", method, code, got)
			}
			if n := len(base.seen()); n != 1 {
				t.Errorf("%s answered %d was sent %d times", method, code, n)
			}
		}
	}
}

func lastResponse(t *trial) {
	for _, code := range []int{503, 429, 500} {
		var n atomic.Int32
		base := t.stub(func(r *http.Request) (*http.Response, error) {
			return respond(r, code, nil, fmt.Sprintf("answer %d", n.Add(1))), nil
		})
		r := t.answered(t.wrapped(base), t.put("http://"+hostA, "content"))
		got, want := t.text(r.Response), fmt.Sprintf("answer %d", n.Load())
		if r.StatusCode != code || got != want {
			t.Errorf("got %d %q, want %d %q", r.StatusCode, got, code, want)
		}
	}
}

func redirectsNotFollowed(t *trial) {
	base := t.stub(status(302, "Location", "http://"+hostB+"/there"))
	rt := t.wrapped(base)
	r := t.answered(rt, t.get("http://"+hostA))
	if r.StatusCode != 302 || r.Header.Get("Location") != "http://"+hostB+"/there" {
		t.Errorf("the redirect became %d, Location %q", r.StatusCode, r.Header.Get("Location"))
	}
	r.close()
	t.count(base, 1)
	asked := 0
	client := &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
		asked++
		return http.ErrUseLastResponse
	}}
	res, err := client.Do(t.get("http://" + hostA))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if asked != 1 || res.StatusCode != 302 {
		t.Errorf("CheckRedirect was asked %d times, and the status is %d", asked, res.StatusCode)
	}
	t.count(base, 2)
}

func eachHop(t *trial) {
	base := t.stub(status(307, "Location", "/second"), status(307, "Location", "/third"), status(200))
	client := &http.Client{Transport: t.wrapped(base)}
	res, err := client.Do(t.send("POST", "http://"+hostA+"/first", "content"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	t.count(base, 3)
	for i, c := range base.seen() {
		if c.body != "content" {
			t.Errorf("hop %d sent %q", i+1, c.body)
		}
		if i > 0 && (c.copy.Response == nil || c.copy.Response.StatusCode != 307) {
			t.Errorf("hop %d has lost the response that caused it", i+1)
		}
	}
}

func responseRequest(t *trial) {
	req := t.put("http://"+hostA+"/p?q=1", "content")
	r := t.answered(t.wrapped(t.stub(t.script(status(200))...)), req)
	r.close()
	if r.Request == nil {
		t.Fatal("Response.Request is nil")
	}
	if r.Request.URL.String() != req.URL.String() || r.Request.Method != req.Method {
		t.Errorf("Response.Request is %s %s", r.Request.Method, r.Request.URL)
	}
}

func withoutContent(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "HEAD" {
			w.Header().Set("Content-Length", "1234")
			return
		}
		code, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(code)
	})
	rt := t.wrapped(s)
	r := t.answered(rt, t.request("HEAD", s.url+"/", nil))
	if r.ContentLength != 1234 {
		t.Errorf("HEAD has ContentLength %d, want 1234", r.ContentLength)
	}
	if got := t.text(r.Response); got != "" {
		t.Errorf("HEAD has the body %q", got)
	}
	for _, code := range []int{204, 304} {
		r := t.answered(rt, t.get(fmt.Sprintf("%s/%d", s.url, code)))
		if got := t.text(r.Response); r.StatusCode != code || got != "" {
			t.Errorf("%d became %d with body %q", code, r.StatusCode, got)
		}
	}
}

// socket is a body as of a 101: it can be written, and half of it closed.
type socket struct {
	io.ReadWriter
}

func (*socket) Close() error      { return nil }
func (*socket) CloseWrite() error { return nil }

func switchedProtocol(t *trial) {
	body := &socket{}
	base := t.stub(func(r *http.Request) (*http.Response, error) {
		res := respond(r, http.StatusSwitchingProtocols, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}, "")
		res.Body = body
		return res, nil
	})
	req := t.get("http://" + hostA)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	r := t.answered(t.wrapped(base), req)
	if r.Body != body {
		t.Errorf("the body of the 101 became a %T", r.Body)
	}
	_ = r.Body.Close()
}

func compression(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, strings.Repeat("content ", 100))
		z.Close()
	})
	for _, accept := range []string{"", "gzip"} {
		ask := func(rt http.RoundTripper) (string, string) {
			req := t.get(s.url)
			if accept != "" {
				req.Header.Set("Accept-Encoding", accept)
			}
			r := t.answered(rt, req)
			return t.text(r.Response), fmt.Sprintf("Uncompressed %v, ContentLength %d, Content-Encoding %q, Content-Length %q",
				r.Uncompressed, r.ContentLength, r.Header["Content-Encoding"], r.Header["Content-Length"])
		}
		wantBody, want := ask(s)
		body, got := ask(t.wrapped(s))
		if body != wantBody || got != want {
			t.Errorf("with Accept-Encoding %q: %s, want %s; same body: %v", accept, got, want, body == wantBody)
		}
	}
}

// responseTrailers: those that were not announced appear in the very response
// that the base returned, and in no copy of it.
func responseTrailers(t *trial) {
	s := t.serve(t.setbackFirst(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/announced" {
			w.Header().Set("Trailer", "X-Sum")
		}
		_, _ = io.WriteString(w, "content")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Sum", "7")
	}))
	rt := t.wrapped(s)
	for _, path := range []string{"/announced", "/"} {
		r := t.answered(rt, t.get(s.url+path))
		t.text(r.Response)
		if got := r.Trailer.Get("X-Sum"); got != "7" {
			t.Errorf("%s: the trailer is %q, want 7", path, got)
		}
	}
}

func streaming(t *trial) {
	saw := make(chan struct{})
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-saw:
			_, _ = io.WriteString(w, "second")
		case <-r.Context().Done():
		case <-time.After(t.patience / 8):
			panic(http.ErrAbortHandler)
		}
	})
	r := t.answered(t.wrapped(s), t.get(s.url))
	first := make([]byte, 5)
	if _, err := io.ReadFull(r.Body, first); err != nil || string(first) != "first" {
		t.Fatalf("what the server flushed did not arrive: %q, %v", first, err)
	}
	close(saw)
	if got := t.text(r.Response); got != "second" {
		t.Errorf("then came %q", got)
	}
}

func bodyOutlivesCall(t *trial) {
	saw := make(chan struct{})
	s := t.serve(t.setbackFirst(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-saw:
			_, _ = io.WriteString(w, "content")
		case <-r.Context().Done():
		}
	}))
	var last atomic.Pointer[http.Request]
	base := &tap{RoundTripper: s, look: func(r *http.Request) { last.Store(r) }}
	r := t.answered(t.wrapped(base), t.get(s.url))
	time.Sleep(20 * time.Minute) // longer than a limit on one try
	if err := last.Load().Context().Err(); err != nil {
		t.Errorf("the context of the body is over once RoundTrip has returned: %v", err)
	}
	close(saw)
	if got := t.text(r.Response); got != "content" {
		t.Errorf("the body is %q", got)
	}
}

func cancelDuringBody(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.context())
	defer cancel()
	r := t.answered(t.wrapped(s), t.get(s.url).WithContext(ctx))
	defer r.close()
	_, _ = io.ReadFull(r.Body, make([]byte, 5))
	cancel()
	if _, err := io.ReadAll(r.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("reading the body of a canceled call gave %v", err)
	}
}

func connectionReused(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "content") })
	rt := t.wrapped(s)
	for i := range 3 {
		reused := false
		req := t.get(s.url)
		ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused },
		})
		r := t.answered(rt, req.WithContext(ctx))
		t.text(r.Response)
		if err := r.Body.Close(); err != nil {
			t.Errorf("the second Close failed: %v", err)
		}
		if i > 0 && !reused {
			t.Errorf("call %d made a connection of its own", i+1)
		}
	}
}

func earlyHints(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "content")
	})
	var hints []int
	req := t.get(s.url)
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			hints = append(hints, code)
			return nil
		},
	})
	r := t.answered(t.wrapped(s), req.WithContext(ctx))
	t.text(r.Response)
	if len(hints) != 1 || hints[0] != http.StatusEarlyHints || r.StatusCode != 200 {
		t.Errorf("the hooks saw %v before the %d", hints, r.StatusCode)
	}
}

func cookies(t *trial) {
	base := t.stub(status(200, "Set-Cookie", "a=1", "Set-Cookie", "b=2"))
	rt := t.wrapped(base)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: rt, Jar: jar}
	for range 2 {
		res, err := client.Do(t.get("http://" + hostA))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := len(res.Cookies()); got != 2 {
			t.Errorf("%d cookies reach the client, want 2", got)
		}
	}
	t.answered(rt, t.get("http://"+hostA)).close()
	want := []string{"", "a=1; b=2", ""}
	for i, c := range base.seen() {
		if got := strings.Join(c.header["Cookie"], "; "); i < len(want) && got != want[i] {
			t.Errorf("call %d has the Cookie %q, want %q", i+1, got, want[i])
		}
	}
}
