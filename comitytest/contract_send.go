package comitytest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// uploadersTo returns the kinds of requests with a body: one that may be sent
// again, one that may not, one that cannot.
func (t *trial) uploadersTo(url string) []func() *http.Request {
	return []func() *http.Request{
		func() *http.Request { return t.put(url, "content") },
		func() *http.Request { return t.send("POST", url, "content") },
		func() *http.Request { return t.once("POST", url, "content") },
	}
}

func bodyClosedOnSuccess(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	rt := t.wrapped(s)
	for _, make := range t.uploadersTo(s.url) {
		r := t.answered(rt, make())
		if got := t.text(r.Response); got != "content" {
			t.Errorf("the server got %q", got)
		}
	}
	t.bodiesClosed()
}

func bodyClosedWithoutDial(t *trial) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, refused
	}}
	rt := t.wrapped(base)
	for _, make := range t.uploadersTo("http://" + hostA) {
		if r := t.try(rt, make()); r.err == nil {
			t.Error("no error although no connection could be made")
			r.close()
		}
		t.bodiesClosed()
	}
}

func bodyClosedWhenNotSent(t *trial) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	past, cancel2 := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel2()
	for name, ctx := range map[string]context.Context{"canceled": over, "past its deadline": past} {
		for _, make := range t.uploadersTo("http://" + hostA) {
			req := make().WithContext(ctx)
			if r := t.try(t.wrapped(t.stub(status(200))), req); r.err == nil {
				t.Errorf("no error for a context that is %s", name)
				r.close()
			}
			t.bodiesClosed()
		}
	}
	r := t.try(t.wrapped(&http.Transport{}), t.once("POST", "gopher://"+hostA, "content"))
	if r.err == nil {
		t.Error("no error for a scheme that does not exist")
	}
	t.bodiesClosed()
}

func bodyClosedAfterCutWait(t *trial) {
	for _, after := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 700 * time.Millisecond, 5 * time.Second} {
		ctx, cancel := context.WithCancel(t.context())
		timer := time.AfterFunc(after, cancel)
		rt := t.wrapped(t.stub(t.c.trigger.answer))
		t.try(rt, t.put("http://"+hostA, "content").WithContext(ctx)).close()
		t.bodiesClosed()
		timer.Stop()
		cancel()
		ctx, cancel = context.WithTimeout(t.context(), after)
		t.try(rt, t.put("http://"+hostA, "content").WithContext(ctx)).close()
		t.bodiesClosed()
		cancel()
	}
}

func wholeBodyEachTry(t *trial) {
	const content = "the whole of the content"
	for _, taken := range []int64{-1, 0, 5} {
		base := t.stub(t.script(status(200))...)
		base.take = taken
		base.look = func(*http.Request) {
			if len(base.seen()) == 1 {
				base.take = -1
			}
		}
		r := t.answered(t.wrapped(base), t.put("http://"+hostA, content))
		r.close()
		t.count(base, 2)
		calls := base.seen()
		if got := calls[len(calls)-1].body; got != content {
			t.Errorf("the second try sent %q where the first was read up to %d", got, taken)
		}
		t.bodiesClosed()
	}
}

func noBodyStays(t *trial) {
	type framing struct {
		length int64
		coding []string
	}
	var mu sync.Mutex
	var got []framing
	s := t.serve(t.setbackFirst(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, framing{r.ContentLength, r.TransferEncoding})
	}))
	base := &tap{RoundTripper: s, look: func(r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			t.Errorf("http.NoBody became a %T", r.Body)
		}
	}}
	req := t.request("PUT", s.url, http.NoBody)
	req.Header.Set("Idempotency-Key", "k1")
	t.answered(t.wrapped(base), req).close()
	mu.Lock()
	defer mu.Unlock()
	for _, f := range got {
		if f.length != 0 || len(f.coding) != 0 {
			t.Errorf("http.NoBody was sent with length %d and coding %v", f.length, f.coding)
		}
	}
}

func contentLengthEachTry(t *trial) {
	content := strings.Repeat("x", 1000)
	var mu sync.Mutex
	var lengths []int64
	h := t.setbackFirst(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		lengths = append(lengths, r.ContentLength)
		mu.Unlock()
		h(w, r)
	})
	t.answered(t.wrapped(s), t.put(s.url, content)).close()
	mu.Lock()
	defer mu.Unlock()
	want := slices.Repeat([]int64{1000}, len(lengths))
	if len(lengths) == 0 || !slices.Equal(lengths, want) {
		t.Errorf("Content-Length of each try: %v, want 1000", lengths)
	}
}

func sentOnceWithoutGetBody(t *trial) {
	f := t.setback()
	for _, method := range []string{"PUT", "POST"} {
		base := t.stub(f.answer, status(200))
		req := t.once(method, "http://"+hostA, "content")
		req.Header.Set("Idempotency-Key", "k1")
		r := t.try(t.wrapped(base), req)
		t.count(base, 1)
		if f.status == 0 {
			if r.err == nil {
				t.Errorf("%s: no error", method)
			}
		} else if r.err != nil || r.Response == nil {
			t.Errorf("%s: the %d became the error %v", method, f.status, r.err)
		} else if got := t.text(r.Response); r.StatusCode != f.status || got != "try again" {
			t.Errorf("%s: got %d %q", method, r.StatusCode, got)
		}
	}
}

func uploadsStreamed(t *trial) {
	first := make(chan struct{})
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 5))
		close(first)
		_, _ = io.Copy(w, r.Body)
	})
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, "first")
		select {
		case <-first:
			_, _ = io.WriteString(pw, "second")
			pw.Close()
		case <-time.After(t.patience / 8):
			pw.CloseWithError(errors.New("the server did not see what was written: the upload is buffered"))
		}
	}()
	r := t.answered(t.wrapped(s), t.request("POST", s.url, pr))
	if got := t.text(r.Response); got != "second" {
		t.Errorf("the server got %q after the first part", got)
	}
}

func requestTrailers(t *trial) {
	var mu sync.Mutex
	var sums []string
	h := t.setbackFirst(func(w http.ResponseWriter, r *http.Request) {})
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		sums = append(sums, r.Trailer.Get("X-Sum"))
		mu.Unlock()
		h(w, r)
	})
	req := t.put(s.url, "content")
	req.ContentLength = -1
	req.Trailer = http.Header{"X-Sum": nil}
	var opened atomic.Int32
	body := func() (io.ReadCloser, error) {
		u := t.upload("a body", "content")
		sum := strconv.Itoa(int(opened.Add(1)))
		u.atEOF = func() { req.Trailer.Set("X-Sum", sum) }
		return u, nil
	}
	req.Body, _ = body()
	req.GetBody = body
	t.answered(t.wrapped(s), req).close()
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"1", "2"}[:t.tries()]; !slices.Equal(sums, want) {
		t.Errorf("trailers that the server got: %q, want %q", sums, want)
	}
}

func expectContinue(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusExpectationFailed) })
	s.ExpectContinueTimeout = t.patience
	req := t.put(s.url, "content")
	req.Header.Set("Expect", "100-continue")
	r := t.answered(t.wrapped(s), req)
	r.close()
	if r.StatusCode != http.StatusExpectationFailed {
		t.Errorf("got status %d", r.StatusCode)
	}
	for _, u := range t.uploads.all {
		if reads, _ := u.state(); reads != 0 {
			t.Error("an upload that the server refused was read")
		}
	}
}
