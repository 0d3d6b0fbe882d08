package comity_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comity/comity"
)

// FuzzRoundTrip runs a scripted server and scripted callers against each other
// on a fake clock, and holds the Transport to what must be so whatever they do:
// the limit and the order are kept, each body is closed, a call ends in time and
// in one way, nothing is sent once it has ended, nothing stays taken.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("\x01\x05\x00\x03\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 300 {
			return
		}
		synctest.Test(t, func(t *testing.T) { (&play{t: t, tape: tape(data)}).run() })
	})
}

// tape is what a run is made of; it ends in zeros.
type tape []byte

// pick returns a number below n.
func (s *tape) pick(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := int((*s)[0])
	*s = (*s)[1:]
	return b % n
}

// choose returns one of the values given, the first for an empty tape.
func choose[V any](s *tape, values ...V) V { return values[s.pick(len(values))] }

// play is one run.
type play struct {
	t      *testing.T
	tape   tape
	policy comity.Policy
	gates  [2]countingGate
	steps  []step

	mu    sync.Mutex
	calls []*scriptedCall
	sends []send
}

// step is what the server does with one send.
type step struct {
	err    error
	panics bool
	status int
	header [2]string
	late   time.Duration // until headers
	body   string        // "", "short", "long", "cut", "stalled"
}

// send is one try as the base sees it.
type send struct {
	at   time.Time
	call *scriptedCall
	n    int
	step step
}

// scriptedCall is one call and what became of it.
type scriptedCall struct {
	id       int
	method   string
	host     string
	uploads  []*fuzzBody
	started  time.Time
	ended    atomic.Bool
	tries    int
	answered []*fuzzBody // bodies the base gave
	end      string      // how the caller ends: "read", "close", "leave"
	limit    time.Duration
	cancel   time.Duration
}

type callID struct{}

// fuzzBody is a body of a request or a response.
type fuzzBody struct {
	io.Reader
	stall  <-chan struct{}
	cut    bool
	closes atomic.Int32
	late   atomic.Bool
	gone   chan struct{}
}

func newFuzzBody(content string) *fuzzBody {
	return &fuzzBody{Reader: strings.NewReader(content), gone: make(chan struct{})}
}

func (b *fuzzBody) Read(p []byte) (int, error) {
	if b.closes.Load() > 0 {
		b.late.Store(true)
		return 0, errors.New("read after Close")
	}
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.cut {
		return n, io.ErrUnexpectedEOF
	}
	if err == io.EOF && b.stall != nil {
		select {
		case <-b.stall:
			return n, context.Canceled
		case <-b.gone:
			return n, net.ErrClosed
		}
	}
	return n, err
}

func (b *fuzzBody) Close() error {
	if b.closes.Add(1) == 1 {
		close(b.gone)
	}
	return nil
}

// countingGate counts, and refuses each nth.
type countingGate struct {
	inside, asked atomic.Int32
	nth           int32
}

func (g *countingGate) NewGate(string) comity.Gate { return g }
func (g *countingGate) Enter(*comity.Attempt) error {
	if g.nth > 0 && g.asked.Add(1)%g.nth == 0 {
		return errors.New("full")
	}
	g.inside.Add(1)
	return nil
}
func (g *countingGate) Leave(*comity.Attempt) { g.inside.Add(-1) }

func (p *play) setUp() {
	s := &p.tape
	p.policy = comity.Policy{
		Limits: []comity.Limit{{
			N: 1 + s.pick(20), Per: choose(s, time.Second, 100*time.Millisecond, time.Minute), Burst: s.pick(4),
			Algorithm: choose(s, comity.TokenBucket, comity.GCRA, comity.LeakyBucket),
		}},
		MaxInFlight: choose(s, 0, 1, 2, 5),
		MaxWaiting:  choose(s, 0, 0, 3, -1),
		MaxWait:     choose(s, 0, time.Second, 30*time.Second, comity.Forever, -1),
		Delay:       choose(s, comity.Delay{}, comity.Delay{Min: 50 * time.Millisecond, Factor: 1, Max: time.Second, Jitter: 0.3}),
		Spread:      choose(s, 0, 0.5, 1),
		Adaptive:    comity.Adaptive{K: choose(s, -1.0, 2.0)},
		Retry: comity.Retry{
			Max: choose(s, 0, 1, 5, -1), Base: choose(s, 0, time.Millisecond, 10*time.Second),
			Budget: choose(s, 0, -1.0, 0.5), Timeout: choose(s, 0, 0, 2*time.Second),
		},
	}
	if s.pick(2) == 1 {
		p.gates[1].nth = int32(choose(s, 0, 2, 5))
		p.policy.Guards = []comity.Guard{&p.gates[0], &p.gates[1]}
	}
	lost := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for range s.pick(24) {
		p.steps = append(p.steps, step{
			err:    choose(s, nil, nil, nil, nil, nil, error(lost), error(refused), io.ErrUnexpectedEOF),
			panics: s.pick(32) == 31,
			status: choose(s, 200, 200, 429, 503, 503, 500, 404, 403, 204, 408),
			header: choose(s, [2]string{}, [2]string{}, [2]string{"Retry-After", "1"}, [2]string{"Retry-After", "40"},
				[2]string{"X-RateLimit-Remaining", "0"}, [2]string{"RateLimit", `"q";r=2;t=5`}, [2]string{"Retry-After", "-3"}),
			late: choose(s, 0, 0, 10*time.Millisecond, 3*time.Second, time.Hour),
			body: choose(s, "", "short", "long", "cut", "stalled"),
		})
	}
	for i := range 1 + s.pick(24) {
		p.calls = append(p.calls, &scriptedCall{
			id: i, method: choose(s, "GET", "GET", "PUT", "POST", "HEAD"), host: choose(s, "a.example", "a.example", "b.example"),
			end:    choose(s, "read", "close", "leave"),
			limit:  choose(s, 0, 0, 500*time.Millisecond, 5*time.Second),
			cancel: choose(s, 0, 0, 0, 1, 30*time.Millisecond, 2*time.Second),
		})
	}
}

func (p *play) run() {
	p.setUp()
	rt, err := comity.New(p, comity.Config{Policies: map[string]comity.Policy{"": p.policy}})
	if err != nil {
		p.t.Fatal(err)
	}
	var callers sync.WaitGroup
	for _, c := range p.calls {
		callers.Go(func() { p.call(rt, c) })
		synctest.Wait() // the order in which they come is the order of their numbers
		time.Sleep(choose(&p.tape, 0, 0, time.Millisecond, 300*time.Millisecond, 10*time.Second))
	}
	callers.Wait()
	p.check(rt)
}

// call is one caller.
func (p *play) call(rt http.RoundTripper, c *scriptedCall) {
	ctx, cancel := context.WithCancel(context.WithValue(p.t.Context(), callID{}, c))
	defer cancel()
	limit := 3 * time.Hour
	if c.limit > 0 {
		limit = c.limit
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	if c.cancel > 0 {
		defer time.AfterFunc(c.cancel, cancel).Stop()
	}
	req, err := http.NewRequestWithContext(ctx, c.method, "http://"+c.host+"/"+strconv.Itoa(c.id), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if c.method == "PUT" || c.method == "POST" {
		req.ContentLength = 7
		fresh := func() (io.ReadCloser, error) {
			b := newFuzzBody("content")
			p.mu.Lock()
			defer p.mu.Unlock()
			c.uploads = append(c.uploads, b)
			return b, nil
		}
		req.Body, _ = fresh()
		req.GetBody = fresh
	}
	c.started = time.Now()
	res, err, panicked := guarded(rt, req)
	took := time.Since(c.started)
	c.ended.Store(true)
	if c.cancel > 0 {
		limit = min(limit, c.cancel)
	}
	if took > limit+10*time.Millisecond {
		p.t.Errorf("call %d took %s of %s", c.id, took, limit)
	}
	if !panicked && (res == nil) == (err == nil) {
		p.t.Errorf("call %d returned %v and %v", c.id, res, err)
	}
	if errors.Is(err, comity.ErrThrottled) && c.sent() > 0 {
		p.t.Errorf("call %d was sent and is said to be refused: %v", c.id, err)
	}
	if res == nil {
		return
	}
	switch c.end {
	case "read":
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	case "close":
		time.Sleep(10 * time.Millisecond)
		res.Body.Close()
	case "leave": // the end of the context has to do
		time.Sleep(20 * time.Millisecond)
	}
}

func guarded(rt http.RoundTripper, req *http.Request) (res *http.Response, err error, panicked bool) {
	defer func() { panicked = recover() != nil }()
	res, err = rt.RoundTrip(req)
	return res, err, false
}

func (c *scriptedCall) sent() int { return c.tries }

// RoundTrip is the server, and the net/http before it.
func (p *play) RoundTrip(r *http.Request) (*http.Response, error) {
	c := r.Context().Value(callID{}).(*scriptedCall)
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	if c.ended.Load() {
		p.t.Errorf("call %d was sent after it had ended", c.id)
	}
	p.mu.Lock()
	st := step{status: 200}
	if n := len(p.sends); n < len(p.steps) {
		st = p.steps[n]
	}
	c.tries++
	p.sends = append(p.sends, send{time.Now(), c, c.tries, st})
	p.mu.Unlock()
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil || string(b) != "content" {
			p.t.Errorf("try %d of call %d sent %q, %v", c.tries, c.id, b, err)
		}
	}
	late := time.NewTimer(st.late)
	defer late.Stop()
	select {
	case <-late.C:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	if st.panics {
		panic(http.ErrAbortHandler)
	}
	if st.err != nil {
		return nil, st.err
	}
	return p.answer(r, c, st), nil
}

func (p *play) answer(r *http.Request, c *scriptedCall, st step) *http.Response {
	content := map[string]string{"short": "short", "long": strings.Repeat("long", 5000), "cut": "cu", "stalled": "st"}[st.body]
	res := answer(st.status, "", st.header[0], st.header[1])
	res.Request = r
	if r.Method == "HEAD" || st.status == 204 || content == "" {
		return res
	}
	b := newFuzzBody(content)
	switch st.body {
	case "cut":
		b.cut = true
	case "stalled":
		b.stall = r.Context().Done()
	}
	res.Body, res.ContentLength = b, -1
	p.mu.Lock()
	defer p.mu.Unlock()
	c.answered = append(c.answered, b)
	return res
}
