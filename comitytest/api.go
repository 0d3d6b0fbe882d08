package comitytest

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/comity/comity"
)

// API is a fake partner API that enforces limits and reports them. It is an
// [http.Handler], for httptest.NewServer, and an [http.RoundTripper] that needs
// no network, for testing/synctest. The zero API accepts everything. Its fields
// must not be changed once it is in use.
//
// A call over a limit is answered with 429, one beyond Capacity with 503, one
// inside both by Handler. A call spends of all the limits it is subject to or of
// none. A Limit with Shadow is counted and refuses nothing. Settle is not asked:
// the Cost of a request is what it spends.
//
// As a round tripper it runs Handler in the goroutine of the call and hands over
// the answer when that is complete. It fails with the cause of the request's
// context while a call takes its time, and with [io.EOF] for a lost connection.
type API struct {
	Limits    []comity.Limit       // enforced as a server would, by the same algorithms; a LeakyBucket keeps Burst calls waiting and refuses those on top
	Dialect   *comity.Dialect      // how it reports them; nil reports nothing
	Skew      time.Duration        // how far its clock is ahead
	Latency   func() time.Duration // time each call takes; nil is none
	Capacity  int                  // calls served a second before it refuses with 503; each refusal costs a tenth of a call served. 0 is no cap
	CountsAll bool                 // refused calls count against the limits too
	Handler   http.Handler         // answers calls inside the limits; nil is 200 without a body

	mu    sync.Mutex
	rules []*rule
	bad   error // of the first rule that is invalid
	work  work
	fails []failing
	hits  []Hit
}

// Hit is a call received.
type Hit struct {
	At     time.Time // by the clock of the test, whatever Skew is
	Method string
	URL    string
	Status int    // 0 while it is not answered, or if its connection was lost
	Over   string // name of the limit it went over, or N and Per as in its text form; "" if none
}

// failing is what Fail asked for.
type failing struct {
	n, code int
	header  http.Header
}

// Fail answers the next n calls with code and h, before any limit. Code 0 lets
// the call through to Handler and then loses the connection. What an earlier Fail
// asked for comes first.
func (a *API) Fail(n, code int, h http.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > 0 {
		a.fails = append(a.fails, failing{n, code, h.Clone()})
	}
}

// Hits returns the calls received, oldest first. All are remembered, about 100
// bytes each and the URL.
func (a *API) Hits() []Hit {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Hit(nil), a.hits...)
}

// Over returns the calls that went over a limit.
func (a *API) Over() []Hit {
	var over []Hit
	for _, h := range a.Hits() {
		if h.Over != "" {
			over = append(over, h)
		}
	}
	return over
}

// ServeHTTP answers r. It blocks for Latency, in the queue of a LeakyBucket and
// as long as Handler does. A lost connection is a panic with
// [http.ErrAbortHandler], which net/http's server understands.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u := *r.URL
	if u.Host == "" {
		u.Scheme, u.Host = "http", r.Host
		if r.TLS != nil {
			u.Scheme = "https"
		}
	}
	switch err := a.serve(w, r, u.String()); {
	case err == io.EOF:
		panic(http.ErrAbortHandler)
	case err == nil, r.Context().Err() != nil: // nobody listens
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// RoundTrip answers r. It blocks as ServeHTTP does, at most until the context of
// r ends.
func (a *API) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	rec := httptest.NewRecorder()
	if err := a.serve(rec, received(r), r.URL.String()); err != nil {
		return nil, err
	}
	res := rec.Result()
	res.Request = r
	if !rec.Flushed && res.ContentLength < 0 && r.Method != http.MethodHead {
		res.ContentLength = int64(rec.Body.Len())
	}
	if r.Method == http.MethodHead || res.ContentLength == 0 {
		res.Body = http.NoBody
	}
	return res, nil
}

// received returns r as a server sees it.
func received(r *http.Request) *http.Request {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "192.0.2.1:1234"
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Header == nil {
		in.Header = http.Header{}
	}
	in.Close, in.Response, in.GetBody = false, nil, nil
	return in
}

// serve answers r, unless the connection is lost or the context of r ends.
func (a *API) serve(w http.ResponseWriter, r *http.Request, url string) error {
	i, d, err := a.receive(r, url)
	if err != nil {
		return err
	}
	if a.Latency != nil {
		d.delay += max(a.Latency(), 0)
	}
	if err := sleep(r.Context(), d.delay); err != nil {
		return err
	}
	w.Header().Set("Date", time.Now().Add(a.Skew).UTC().Format(http.TimeFormat))
	maps.Copy(w.Header(), d.header)
	if d.code != 0 {
		a.answered(i, d.code)
		w.WriteHeader(d.code)
		return nil
	}
	out := &watched{ResponseWriter: w, code: http.StatusOK}
	if d.lost {
		out.ResponseWriter = httptest.NewRecorder()
	}
	if a.Handler != nil {
		a.Handler.ServeHTTP(out, r)
	}
	if d.lost {
		return io.EOF
	}
	a.answered(i, out.code)
	return nil
}

// decision is how a call will be answered.
type decision struct {
	code   int // 0 is what Handler says
	lost   bool
	over   string
	delay  time.Duration
	header http.Header
}

// receive decides about r and remembers it as the i-th call.
func (a *API) receive(r *http.Request, url string) (i int, d decision, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.prepare(); err != nil {
		return 0, d, err
	}
	now := time.Now()
	switch f := a.failure(); {
	case f != nil:
		d = decision{code: f.code, lost: f.code == 0, header: f.header}
	case a.Capacity > 0 && !a.work.take(now, a.Capacity):
		d.code = http.StatusServiceUnavailable
		if a.CountsAll {
			a.count(r, now.Add(a.Skew))
		}
	default:
		d = a.judge(r, now.Add(a.Skew))
	}
	a.hits = append(a.hits, Hit{At: now, Method: r.Method, URL: url, Over: d.over})
	return len(a.hits) - 1, d, nil
}

// failure returns the next answer that Fail asked for, if any.
func (a *API) failure() *failing {
	if len(a.fails) == 0 {
		return nil
	}
	f := a.fails[0]
	if a.fails[0].n--; a.fails[0].n == 0 {
		a.fails = a.fails[1:]
	}
	return &f
}

func (a *API) answered(i, code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hits[i].Status = code
}

// watched remembers the status of an answer.
type watched struct {
	http.ResponseWriter
	code  int
	wrote bool
}

func (w *watched) WriteHeader(code int) {
	if !w.wrote && code >= 200 {
		w.code, w.wrote = code, true
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *watched) Write(p []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(p)
}

// Unwrap lets an [http.ResponseController] find what it needs.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// work is what a server of some capacity has to do: a second's worth at once,
// and refusals on top, up to another second's.
type work struct {
	at  time.Time
	due time.Duration
}

// take does the work of one call if there is time for it, else that of a refusal.
func (k *work) take(now time.Time, capacity int) bool {
	k.due = max(0, k.due-now.Sub(k.at))
	k.at = now
	each := time.Second / time.Duration(capacity)
	if k.due+each <= time.Second {
		k.due += each
		return true
	}
	k.due = min(k.due+each/10, 2*time.Second)
	return false
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
