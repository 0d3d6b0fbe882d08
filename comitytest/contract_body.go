package comitytest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// closeUnread closes bodies that have no end, or whose end never comes.
func closeUnread(t *trial) {
	for name, body := range unwanted() {
		base := t.stub(func(r *http.Request) (*http.Response, error) {
			res := respond(r, 200, nil, "")
			res.Body, res.ContentLength = body, -1
			return res, nil
		})
		r := t.answered(t.wrapped(base), t.get("http://"+hostA))
		closed := make(chan error, 1)
		began := time.Now()
		go func() { closed <- r.Body.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Errorf("%s: Close failed: %v", name, err)
			}
		case <-time.After(t.patience):
			t.Errorf("%s: Close blocks", name)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: Close took %s", name, took)
		}
		read, closes := body.state()
		if read > drainLimit {
			t.Errorf("%s: %d bytes were read to close it", name, read)
		}
		if closes == 0 {
			t.Errorf("%s: the base's body was not closed", name)
			_ = body.Close()
		}
	}
}

func unwanted() map[string]*download {
	return map[string]*download{
		"an endless body": {Reader: endless{}},
		"a stalled body":  {Reader: strings.NewReader("a part"), stall: make(chan struct{})},
	}
}

func cutBody(t *trial) {
	var hits atomic.Int32
	s := t.serve(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "cut")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	r := t.answered(t.wrapped(s), t.get(s.url))
	got, err := io.ReadAll(r.Body)
	r.close()
	if err == nil || t.proto == http1 && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading a body that is cut gave %q, %v", got, err)
	}
	time.Sleep(time.Minute)
	if n := hits.Load(); n != 1 {
		t.Errorf("a call whose headers were handed over was sent %d times", n)
	}
}

func protocolAndTLS(t *trial) {
	s := t.serve(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	r := t.answered(t.wrapped(s), t.get(s.url))
	major := 1
	if t.proto == http2 {
		major = 2
		if r.TLS == nil || !r.TLS.HandshakeComplete || r.TLS.NegotiatedProtocol != "h2" {
			t.Errorf("the state of TLS is lost: %+v", r.TLS)
		}
	}
	if r.ProtoMajor != major {
		t.Errorf("the response says %s", r.Proto)
	}
	if got := t.text(r.Response); got != r.Proto {
		t.Errorf("the server was asked by %s, the response says %s", got, r.Proto)
	}
}

// abandonedClosed: the answer that a retry replaces is closed, in bounded time
// and with bounded reading, whatever its body does.
func abandonedClosed(t *trial) {
	f := t.c.trigger
	if f.status == 0 {
		t.Skip("skipped: the wrapper tries again only where there is no response")
	}
	bodies := unwanted()
	bodies["a short body"] = &download{Reader: strings.NewReader("try again")}
	for name, body := range bodies {
		first := func(r *http.Request) (*http.Response, error) {
			res := respond(r, f.status, f.header, "")
			res.Body, res.ContentLength = body, -1
			return res, nil
		}
		base := t.stub(first, status(200))
		r := t.answered(t.wrapped(base), t.get("http://"+hostA))
		t.count(base, 2)
		calls := base.seen()
		last := calls[len(calls)-1].answer.(*download)
		if _, closes := last.state(); closes != 0 {
			t.Errorf("%s: the response that was returned had been closed", name)
		}
		t.text(r.Response)
		read, closes := body.state()
		if closes == 0 {
			t.Errorf("%s of the first answer was not closed", name)
			_ = body.Close()
		}
		if read > drainLimit {
			t.Errorf("%s of the first answer was read for %d bytes", name, read)
		}
		if r.took > 10*time.Minute {
			t.Errorf("%s of the first answer held the call up for %s", name, r.took)
		}
	}
}

func retryReusesConnection(t *trial) {
	if t.c.trigger.status == 0 {
		t.Skip("skipped: the wrapper tries again only where the connection is lost")
	}
	s := t.serve(t.setbackFirst(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "content") }))
	r := t.answered(t.wrapped(s), t.get(s.url))
	t.text(r.Response)
	if n := s.dials.Load(); n != 1 {
		t.Errorf("two tries took %d connections", n)
	}
}

func nilBody(t *trial) {
	empty := func(f answer) answer {
		return func(r *http.Request) (*http.Response, error) {
			res, err := f(r)
			if res != nil {
				res.Body, res.ContentLength = nil, 0
			}
			return res, err
		}
	}
	script := t.script(status(200))
	for i := range script {
		script[i] = empty(script[i])
	}
	base := t.stub(script...)
	r := t.answered(t.wrapped(base), t.get("http://"+hostA))
	if r.StatusCode != 200 {
		t.Errorf("got %d", r.StatusCode)
	}
	r.close()
	base = t.stub(empty(t.setback().answer))
	t.try(t.wrapped(base), t.get("http://"+hostA)).close()
}
