package comity_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

var (
	errRefusedDial = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errNoFile      = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	errReset       = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	errNoHost      = &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}}
	errServfail    = &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "server misbehaving", Name: "x", IsTemporary: true}}
)

// What is sent again, for a GET, for a POST and for a POST with a key: the number
// of sends when the same thing happens for ever.
func TestWhatIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		happens          any
		get, post, keyed int
	}{
		"200":                   {200, 1, 1, 1},
		"404":                   {404, 1, 1, 1},
		"501":                   {501, 1, 1, 1},
		"500":                   {500, 1, 1, 1},
		"502":                   {502, 3, 1, 3},
		"503":                   {503, 3, 1, 3},
		"504":                   {504, 3, 1, 3},
		"520":                   {520, 3, 1, 3},
		"529":                   {529, 3, 1, 3},
		"408":                   {408, 2, 1, 2},
		"421":                   {421, 2, 1, 2},
		"425":                   {425, 2, 1, 2},
		"connection refused":    {errRefusedDial, 3, 3, 3},
		"out of files":          {errNoFile, 3, 3, 3},
		"DNS fails for now":     {errServfail, 3, 3, 3},
		"no such host":          {errNoHost, 1, 1, 1},
		"connection reset":      {errReset, 3, 1, 3},
		"EOF":                   {io.EOF, 3, 1, 3},
		"unsupported scheme":    {errors.New("unsupported protocol scheme \"foo\""), 1, 1, 1},
		"told not to":           {answer(503, "", "X-Should-Retry", "false"), 1, 1, 1},
		"told to":               {answer(409, "", "X-Should-Retry", "true"), 3, 1, 3},
		"unreadable answer":     {errors.New("net/http: HTTP/1.x transport connection broken: malformed HTTP response \"x\""), 1, 1, 1},
		"handshake timed out":   {errors.New("net/http: TLS handshake timeout"), 3, 3, 3},
		"GOAWAY, not looked at": {errors.New("http2: Transport received Server's graceful shutdown GOAWAY"), 3, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, r := range []struct {
					kind, method string
					header       string
					sends        int
				}{
					{"get", http.MethodGet, "", c.get},
					{"delete", http.MethodDelete, "", c.get},
					{"post", http.MethodPost, "", c.post},
					{"patch", http.MethodPatch, "", c.post},
					{"keyed", http.MethodPost, "Idempotency-Key", c.keyed},
					{"x-keyed", http.MethodPost, "X-Idempotency-Key", c.keyed},
				} {
					base := replies(c.happens)
					body := ""
					if r.method == http.MethodPost {
						body = "payload"
					}
					req := request(t, t.Context(), r.method, "http://a.example/", body)
					if r.header != "" {
						req.Header.Set(r.header, "k")
					}
					res, err := transport(t, base, comity.Config{}).RoundTrip(req)
					require.Equal(t, r.sends, base.count(), r.kind)
					if want, failed := c.happens.(error); failed {
						require.Nil(t, res)
						require.True(t, err == want, "the base's own error")
					} else {
						require.NoError(t, err)
					}
					for _, b := range base.bodies {
						require.Equal(t, body, b, "the whole body each time")
					}
				}
			})
		})
	}
}

func TestWhatCallAndPolicySayIsTriedAgain(t *testing.T) {
	post := func(t *testing.T, ctx context.Context) *http.Request {
		return request(t, ctx, http.MethodPost, "http://a.example/", "x")
	}
	limited := func(a *comity.Attempt) comity.Verdict {
		if a.Response != nil && a.Response.StatusCode != 200 {
			return comity.Limited
		}
		return a.Verdict
	}
	for name, c := range map[string]struct {
		policy comity.Policy
		call   comity.Call
		base   *script
		sends  int
	}{
		"Call.Idempotent":       {comity.Policy{}, comity.Call{Idempotent: true}, replies(503), 3},
		"Retry.Safe":            {comity.Policy{Retry: comity.Retry{Safe: func(*http.Request) bool { return true }}}, comity.Call{}, replies(503), 3},
		"Retry.When no":         {comity.Policy{Retry: comity.Retry{When: func(*comity.Attempt) bool { return false }}}, comity.Call{Idempotent: true}, replies(503), 1},
		"Retry.When yes":        {comity.Policy{Retry: comity.Retry{When: func(a *comity.Attempt) bool { return a.N < 2 }}}, comity.Call{Idempotent: true}, replies(200), 2},
		"Retry.When, not safe":  {comity.Policy{Retry: comity.Retry{When: func(*comity.Attempt) bool { return true }}}, comity.Call{}, replies(503), 1},
		"Retry.Max":             {comity.Policy{Retry: comity.Retry{Max: 5}}, comity.Call{Idempotent: true}, replies(503), 6},
		"Retry.Max none":        {comity.Policy{Retry: comity.Retry{Max: -1}}, comity.Call{Idempotent: true}, replies(429), 1},
		"Call.Retries":          {comity.Policy{}, comity.Call{Idempotent: true, Retries: 4}, replies(503), 5},
		"Call.Retries none":     {comity.Policy{}, comity.Call{Idempotent: true, Retries: -1}, replies(503), 1},
		"MaxWait none":          {comity.Policy{MaxWait: -1}, comity.Call{Idempotent: true}, replies(503), 1},
		"Call.MaxWait none":     {comity.Policy{}, comity.Call{Idempotent: true, MaxWait: -1}, replies(503), 1},
		"no budget left":        {comity.Policy{Adaptive: comity.Adaptive{K: -1}, Retry: comity.Retry{Max: 50, Budget: 1e-9, Cap: 100 * time.Millisecond}}, comity.Call{Idempotent: true}, replies(503), 11},
		"no budget":             {comity.Policy{Adaptive: comity.Adaptive{K: -1}, Retry: comity.Retry{Max: 50, Budget: -1, Cap: time.Second}}, comity.Call{Idempotent: true}, replies(503), 51},
		"backoff stops":         {comity.Policy{Retry: comity.Retry{Max: 50, Backoff: func() backoff.BackOff { return &backoff.StopBackOff{} }}}, comity.Call{Idempotent: true}, replies(503), 1},
		"Classify: Limited 4xx": {comity.Policy{Classify: limited, Retry: comity.Retry{Base: time.Second}}, comity.Call{}, replies(409, 200), 2},
		"Classify: Limited 503": {comity.Policy{Classify: limited, Retry: comity.Retry{Base: time.Second}}, comity.Call{}, replies(503, 200), 1},
		"429":                   {comity.Policy{}, comity.Call{}, replies(429, 429, 429, 429, 200), 5},
		"told more than MaxWait": {comity.Policy{MaxWait: 5 * time.Second}, comity.Call{Idempotent: true},
			replies(answer(408, "", "Retry-After", "6"), 200), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := comity.WithCall(t.Context(), c.call)
				res, err := transport(t, c.base, every(c.policy)).RoundTrip(post(t, ctx))
				require.NoError(t, err)
				require.NotNil(t, res)
				require.Equal(t, c.sends, c.base.count())
			})
		})
	}
}

func TestBackoffIsFullJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most [6]time.Duration
		least := time.Hour
		for range 300 {
			base := replies(503)
			cfg := every(comity.Policy{Adaptive: comity.Adaptive{K: -1}, Retry: comity.Retry{Max: 6, Base: time.Second, Cap: 5 * time.Second, Budget: -1}})
			_, err := transport(t, base, cfg).RoundTrip(get(t, t.Context(), "http://a.example"))
			require.NoError(t, err)
			for i := range most {
				d := base.times[i+1].Sub(base.times[i])
				most[i], least = max(most[i], d), min(least, d)
			}
		}
		for i, limit := range []time.Duration{1, 2, 4, 5, 5, 5} {
			require.LessOrEqual(t, most[i], limit*time.Second)
			require.Greater(t, most[i], limit*time.Second*9/10)
		}
		require.Less(t, least, 50*time.Millisecond)
	})
}

func TestToldDelayIsNeverUndercut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(answer(503, "busy", "Retry-After", "7"), 200)
		// Others are answered, so that the delay is this call's alone.
		rt := transport(t, tripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/other" {
				return answer(200, "fine"), nil
			}
			return base.RoundTrip(req)
		}), comity.Config{})
		for range 10 {
			_, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/other"))
			require.NoError(t, err)
		}
		res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
		require.GreaterOrEqual(t, base.times[1].Sub(base.times[0]), 7*time.Second)
	})
}

func TestRetryThatCannotEndInTimeIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		base := replies(answer(408, "slow", "Retry-After", "6"), 200)
		res, err := transport(t, base, comity.Config{}).RoundTrip(get(t, ctx, "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, 408, res.StatusCode)
		require.Zero(t, time.Since(start))
		require.Equal(t, "slow", text(t, res))
	})
}

func TestCancelEndsTheWaitForARetryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		start := time.Now()
		base := replies(answer(408, "slow", "Retry-After", "60"), 200)
		res, err := transport(t, base, comity.Config{}).RoundTrip(get(t, ctx, "http://a.example"))
		require.Nil(t, res)
		require.Equal(t, cause, err)
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, 1, base.count())
	})
}

func TestRefusedRetryEndsInTheAnswerBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused []comity.Reason
		gate := &switchGate{}
		base := replies(errReset, answer(503, "again"), 200)
		rt := transport(t, base, comity.Config{
			Policies: map[string]comity.Policy{"": {Guards: []comity.Guard{gate}, Retry: comity.Retry{Max: 9}}},
			Trace: &comity.Trace{
				Retry:   func(a *comity.Attempt, _ time.Duration) { gate.closed = a.N == 2 },
				Refused: func(_ *comity.Attempt, err *comity.ThrottledError) { refused = append(refused, err.Reason) },
			},
		})
		res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, 503, res.StatusCode)
		require.Equal(t, "again", text(t, res))
		require.Equal(t, []comity.Reason{comity.ReasonGuard}, refused)
		require.Equal(t, 2, base.count())
		require.Equal(t, 2, gate.left())
	})
}

// switchGate is a Guard and its Gate.
type switchGate struct {
	closed bool
	leaves atomic.Int32
}

func (g *switchGate) NewGate(string) comity.Gate { return g }
func (g *switchGate) String() string             { return "switch" }
func (g *switchGate) Enter(*comity.Attempt) error {
	if g.closed {
		return errors.New("closed")
	}
	return nil
}
func (g *switchGate) Leave(*comity.Attempt) { g.leaves.Add(1) }
func (g *switchGate) left() int             { return int(g.leaves.Load()) }

func TestBodyThatCannotBeHadAgainIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, change := range map[string]func(*http.Request){
			"no GetBody":    func(r *http.Request) { r.GetBody = nil },
			"GetBody fails": func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") } },
		} {
			base := replies(answer(503, "busy"), 200)
			req := request(t, t.Context(), http.MethodPut, "http://a.example", "payload")
			change(req)
			res, err := transport(t, base, every(comity.Policy{MaxInFlight: 1})).RoundTrip(req)
			require.NoError(t, err, name)
			require.Equal(t, 503, res.StatusCode, name)
			require.Equal(t, "busy", text(t, res), name)
			require.Equal(t, 1, base.count(), name)
		}
	})
}

func TestRetryTimeoutEndsATryButNotItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		base := tripper(func(req *http.Request) (*http.Response, error) {
			if n++; n == 1 {
				<-req.Context().Done()
				return nil, context.Cause(req.Context())
			}
			res := answer(200, "")
			r, w := io.Pipe()
			context.AfterFunc(req.Context(), func() { w.CloseWithError(context.Cause(req.Context())) })
			go func() {
				time.Sleep(time.Minute)
				_, _ = io.WriteString(w, "late but whole")
				w.Close()
			}()
			res.Body, res.ContentLength = r, -1
			return res, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rt := transport(t, base, every(comity.Policy{Retry: comity.Retry{Timeout: 5 * time.Second}}))
		res, err := rt.RoundTrip(get(t, ctx, "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, "late but whole", text(t, res))
		require.Equal(t, 2, n)

		// A POST is not sent again, and its error says what ended it.
		n = 0
		_, err = rt.RoundTrip(request(t, ctx, http.MethodPost, "http://a.example", ""))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "comity: a.example: no answer within 5s (Retry.Timeout)")
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.NotErrorIs(t, err, comity.ErrThrottled)
	})
}

func TestOnlyTheInnermostTransportRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(503)
		inner := transport(t, base, comity.Config{})
		_, err := transport(t, inner, comity.Config{}).RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, 3, base.count())

		standard := http.DefaultTransport
		defer func() { http.DefaultTransport = standard }()
		base = replies(503)
		http.DefaultTransport = transport(t, base, comity.Config{})
		_, err = new(comity.Transport).RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, 3, base.count())

		// Behind a wrapper that hides it the outer one retries too, but what it
		// sends again is not sent again by the inner one.
		base = replies(503)
		inner = transport(t, base, comity.Config{})
		outer := transport(t, tripper(inner.RoundTrip), comity.Config{})
		_, err = outer.RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, 5, base.count())
	})
}

func TestConnectAndUpgradeAreNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(503)
		req := get(t, t.Context(), "http://a.example")
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "websocket")
		_, err := transport(t, base, comity.Config{}).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 1, base.count())

		base = replies(503)
		_, err = transport(t, base, comity.Config{}).RoundTrip(request(t, t.Context(), http.MethodConnect, "http://a.example", ""))
		require.NoError(t, err)
		require.Equal(t, 1, base.count())
	})
}

func TestRetryLeavesTheRequestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(503, 200)
		req := request(t, t.Context(), http.MethodPut, "http://a.example/x", "payload")
		req.Trailer = http.Header{"X-Sum": nil}
		before, body := *req, req.Body
		res, err := transport(t, base, comity.Config{}).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, before.URL, req.URL)
		require.True(t, body == req.Body)
		require.Equal(t, 2, base.count())
		again := base.seen[1]
		require.False(t, again == req)
		require.True(t, again.URL == req.URL, "a shallow copy")
		again.Trailer.Set("X-Sum", "1")
		require.Equal(t, "1", req.Trailer.Get("X-Sum"), "trailers filled in late reach both")
		require.Nil(t, res.Request)
	})
}

func text(t testing.TB, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return strings.TrimSpace(string(b))
}
