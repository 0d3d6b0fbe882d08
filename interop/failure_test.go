package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comity/comity"
	"github.com/stretchr/testify/require"
)

// permission is who may be sent again after a failure.
type permission string

const (
	never  permission = "no"   // nobody
	idem   permission = "idem" // idempotent methods, and what has a key
	always permission = "any"  // everybody: it was not carried out
)

// A failure is one way for a call to end without a response, or with half of
// one: what the caller sees, and who is tried again.
type failure struct {
	name  string
	again permission
	start func(*testing.T) *victim
	match func(error) bool // holds for the base's error, and for ours

	methods []string                                             // GET and POST if nil
	request func(t *testing.T, method, url string) *http.Request // nil is one whose body can be had again
	limit   time.Duration                                        // of the caller's context
	client  time.Duration                                        // Client.Timeout
	cause   error                                                // with which it ends
	primed  bool                                                 // a first call has left a connection
	heals   bool                                                 // the second send succeeds
	bubble  bool                                                 // under a fake clock
	inBody  bool                                                 // the error comes from reading the body
	varies  bool                                                 // the error depends on who is faster
	racy    bool                                                 // a call in a few hundred ends in "use of closed network connection" instead, and goes again
	unequal bool                                                 // sends are not compared with the base's own
}

// TestFailures runs each failure through the bare base and through a Transport:
// the base's error reaches the caller as it is, and what may be sent again is.
// They are numbered from E1 to E45, so that none is left out; E43 is a test of its
// own.
func TestFailures(t *testing.T) {
	for _, f := range append(append(connectFailures(), http1Failures()...), http2Failures()...) {
		methods := f.methods
		if methods == nil {
			methods = []string{"GET", "POST"}
		}
		for _, method := range methods {
			t.Run(f.name+"/"+method, func(t *testing.T) {
				if f.bubble {
					synctest.Test(t, func(t *testing.T) { f.run(t, method) })
					return
				}
				f.run(t, method)
			})
		}
	}
}

// outcome is what a caller saw of one call, and the server.
type outcome struct {
	err   error
	tries int // sends by the Transport; 1 for the bare base
	hits  int // requests the server received meanwhile
}

func (f failure) run(t *testing.T, method string) {
	bare := f.call(t, method, func(base http.RoundTripper, _ *int) http.RoundTripper { return base })
	ours := f.call(t, method, func(base http.RoundTripper, tries *int) http.RoundTripper {
		rt, err := comity.New(base, comity.Config{
			Policies: map[string]comity.Policy{"": {
				Retry:    comity.Retry{Max: 1, Base: time.Millisecond, Budget: -1},
				Adaptive: comity.Adaptive{K: -1},
			}},
			Trace: &comity.Trace{Sent: func(*comity.Attempt) { *tries++ }},
		})
		require.NoError(t, err)
		return rt
	})
	t.Logf("%s: bare %v (%d hits); ours %v (%d hits, %d tries)", f.again, bare.err, bare.hits, ours.err, ours.hits, ours.tries)

	want := 1
	if f.again == always || f.again == idem && method != "POST" {
		want = 2
	}
	if f.racy && ours.tries == 2 {
		want = 2
	}
	require.Equal(t, want, ours.tries, "tries of a %s after: %v", method, bare.err)
	if f.heals {
		if want == 2 || bare.err == nil {
			require.NoError(t, ours.err)
			return
		}
	}
	if f.match == nil {
		require.NoError(t, bare.err)
		require.NoError(t, ours.err)
	} else {
		require.Truef(t, f.match(bare.err), "the base's error is another: %v", chain(bare.err))
		require.Truef(t, f.match(ours.err), "the caller sees %v instead of %v", chain(ours.err), chain(bare.err))
		if !f.varies {
			require.Equal(t, chain(bare.err), chain(ours.err))
		}
		require.Equal(t, timeout(bare.err), timeout(ours.err), "Timeout() of %v", ours.err)
	}
	if !f.unequal {
		require.Equal(t, bare.hits*want, ours.hits, "requests that the server received")
	}
}

// call makes one call through what wrap returns and a fresh base.
func (f failure) call(t *testing.T, method string, wrap func(http.RoundTripper, *int) http.RoundTripper) outcome {
	v := f.start(t)
	tries := 1
	counted := 0
	client := &http.Client{Transport: wrap(v.base, &counted), Timeout: f.client}
	if f.primed {
		_, err := do(client, f.fresh(t, "GET", v.url).WithContext(t.Context()))
		require.NoError(t, err)
	}
	counted = 0
	limit := 20 * time.Second
	if f.limit > 0 {
		limit = f.limit
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, f.cause)
	defer cancel()
	if f.cause != nil && f.limit == 0 {
		var cause context.CancelCauseFunc
		ctx, cause = context.WithCancelCause(ctx)
		time.AfterFunc(50*time.Millisecond, func() { cause(f.cause) })
	}
	before := v.hits.Load()
	body, err := do(client, f.fresh(t, method, v.url).WithContext(ctx))
	if f.inBody {
		require.NotNil(t, body, "no response: %v", err)
	}
	if counted > 0 {
		tries = counted
	}
	return outcome{err, tries, int(v.hits.Load() - before)}
}

func (f failure) fresh(t *testing.T, method, url string) *http.Request {
	if f.request != nil {
		return f.request(t, method, url)
	}
	var content io.Reader
	if method == "POST" || method == "PUT" {
		content = strings.NewReader("content")
	}
	req, err := http.NewRequest(method, url, content)
	require.NoError(t, err)
	return req
}

// do returns the body of the response, and the error of the call or of the body.
func do(client *http.Client, req *http.Request) ([]byte, error) {
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// chain lists the types that err wraps.
func chain(err error) (types []string) {
	for ; err != nil; err = errors.Unwrap(err) {
		types = append(types, fmt.Sprintf("%T", err))
	}
	return types
}

// timeout is what a caller of a Client asks.
func timeout(err error) bool {
	var e *url.Error
	return errors.As(err, &e) && e.Timeout()
}

// is, as and text are the ways to match an error.
func is(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func as[E error](also func(E) bool) func(error) bool {
	return func(err error) bool {
		var e E
		return errors.As(err, &e) && also(e)
	}
}

func text(parts ...string) func(error) bool {
	return func(err error) bool {
		for _, p := range parts {
			if err == nil || !strings.Contains(err.Error(), p) {
				return false
			}
		}
		return true
	}
}

func both(a, b func(error) bool) func(error) bool {
	return func(err error) bool { return a(err) && b(err) }
}

func not(a func(error) bool) func(error) bool {
	return func(err error) bool { return err != nil && !a(err) }
}
