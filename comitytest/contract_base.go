package comitytest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

const (
	hostA = "a.example"
	hostB = "b.example"

	// tooMany is where a stub takes a wrapper for one that spins.
	tooMany = 5000

	// drainLimit is how much of a body that nobody wants may be read: net/http's
	// server takes 256 KiB for the price of a connection.
	drainLimit = 256 << 10
)

// An answer is what a base returns for one call.
type answer func(*http.Request) (*http.Response, error)

// A failure is an end of a call after which a wrapper may try again.
type failure struct {
	name   string
	status int // 0 is a lost connection
	header http.Header
}

// failures are tried in turn until one makes the wrapper try again.
var failures = []*failure{
	{name: "503", status: 503},
	{name: "429", status: 429},
	{name: "503 with Retry-After", status: 503, header: http.Header{"Retry-After": {"1"}}},
	{name: "429 with Retry-After", status: 429, header: http.Header{"Retry-After": {"1"}}},
	{name: "a lost connection"},
}

// answer is the failure as a stub gives it.
func (f *failure) answer(r *http.Request) (*http.Response, error) {
	if f.status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return respond(r, f.status, f.header, "try again"), nil
}

// serve is the failure as a server gives it.
func (f *failure) serve(w http.ResponseWriter) {
	if f.status == 0 {
		panic(http.ErrAbortHandler)
	}
	for k, v := range f.header {
		w.Header()[k] = v
	}
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, "try again")
}

// respond returns a response as net/http would hand it over.
func respond(r *http.Request, code int, h http.Header, body string) *http.Response {
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Date") == "" {
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: &download{Reader: strings.NewReader(body)},
		ContentLength: int64(len(body)), Request: r,
	}
}

// status answers with code and the headers given in pairs.
func status(code int, pairs ...string) answer {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return func(r *http.Request) (*http.Response, error) {
		return respond(r, code, h, http.StatusText(code)), nil
	}
}

// broken answers with err.
func broken(err error) answer {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// silence answers nothing until the context of the call ends.
func silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// script returns final, after one failure if the wrapper would try again.
func (t *trial) script(final answer) []answer {
	if t.c.trigger == nil {
		return []answer{final}
	}
	return []answer{t.c.trigger.answer, final}
}

// tries is the number of calls that script leads to.
func (t *trial) tries() int {
	if t.c.trigger == nil {
		return 1
	}
	return 2
}

// setback returns the failure that the wrapper tries again after, or a 503.
func (t *trial) setback() *failure {
	if t.c.trigger == nil {
		return failures[0]
	}
	return t.c.trigger
}

// stub is a base in memory. It treats a request as net/http does: it reads the
// body, closes it, and sends nothing for a context that is over.
type stub struct {
	look func(*http.Request) // called first, if set
	take int64               // bytes of a body read before the answer; all if negative

	mu     sync.Mutex
	script []answer // the last one for ever
	calls  []call
	idle   int // calls of CloseIdleConnections
}

// call is what a stub saw.
type call struct {
	at     time.Time
	req    *http.Request
	copy   http.Request
	header http.Header
	body   string
	answer io.ReadCloser // body of the response, as the wrapper got it
}

func (t *trial) stub(script ...answer) *stub {
	return &stub{script: script, take: -1}
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.look != nil {
		s.look(r)
	}
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	n, next := s.enter(r)
	if r.Body != nil {
		var b []byte
		var err error
		if s.take < 0 {
			b, err = io.ReadAll(r.Body)
		} else {
			b, err = io.ReadAll(io.LimitReader(r.Body, s.take))
		}
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.calls[n].body = string(b)
		s.mu.Unlock()
	}
	res, err := next(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if res != nil {
		s.calls[n].answer = res.Body
	}
	return res, err
}

// enter records r and returns its number and its answer.
func (s *stub) enter(r *http.Request) (int, answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.calls)
	if n >= tooMany {
		runtime.Goexit() // a wrapper that spins would never end by itself
	}
	s.calls = append(s.calls, call{at: time.Now(), req: r, copy: *r, header: r.Header.Clone()})
	return n, s.script[min(n, len(s.script)-1)]
}

// CloseIdleConnections counts its calls.
func (s *stub) CloseIdleConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle++
}

// seen returns the calls so far.
func (s *stub) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// count fails the case unless the stub was called n times.
func (t *trial) count(s *stub, n int) {
	t.Helper()
	if got := len(s.seen()); got != n {
		t.Errorf("the base was called %d times, want %d", got, n)
	}
}

// settle lets every goroutine of a bubble come to rest.
func (t *trial) settle() {
	if t.bubble {
		synctest.Wait()
	}
}

// errAfterClose is what a body gives that is read although it was closed.
var errAfterClose = errors.New("comitytest: read after Close")

// download is the body of a stub's response.
type download struct {
	io.Reader
	stall <-chan struct{} // if set, Read blocks on it once Reader is at its end

	mu     sync.Mutex
	read   int64
	closes int
	ended  chan struct{}
}

// endless never comes to an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (d *download) gone() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended == nil {
		d.ended = make(chan struct{})
	}
	return d.ended
}

func (d *download) Read(p []byte) (int, error) {
	gone := d.gone()
	select {
	case <-gone:
		return 0, http.ErrBodyReadAfterClose
	default:
	}
	n, err := d.Reader.Read(p)
	if err == io.EOF && d.stall != nil {
		select {
		case <-d.stall:
		case <-gone:
			err = http.ErrBodyReadAfterClose
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read += int64(n)
	return n, err
}

func (d *download) Close() error {
	gone := d.gone()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closes == 0 {
		close(gone)
	}
	d.closes++
	return nil
}

// state returns the bytes read and the number of times it was closed.
func (d *download) state() (read int64, closes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.read, d.closes
}
