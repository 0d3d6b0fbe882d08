package comity_test

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// resender is a base that sends a request n times by itself, as net/http does when
// an HTTP/2 server breaks its stream off with PROTOCOL_ERROR.
type resender struct {
	n     int
	major int
	times []time.Time
	wires int // sends
}

func (r *resender) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	for range r.n {
		if err := context.Cause(req.Context()); err != nil {
			return nil, err
		}
		if trace != nil && trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{})
		}
		if req.Context().Err() != nil {
			break
		}
		r.wires++
		r.times = append(r.times, time.Now())
	}
	if err := context.Cause(req.Context()); err != nil {
		return nil, err
	}
	res := answer(200, "fine")
	res.ProtoMajor = r.major
	return res, nil
}

func TestResendsOfNetHTTPAreBraked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &resender{n: 1 << 30, major: 2}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var verdict comity.Verdict
		rt := transport(t, base, comity.Config{Trace: &comity.Trace{Done: func(a *comity.Attempt) { verdict = a.Verdict }}})
		_, err := rt.RoundTrip(request(t, ctx, http.MethodPost, "https://a.example", "x"))
		require.ErrorContains(t, err, "11 sends")
		require.Equal(t, comity.Overloaded, verdict)
		require.Equal(t, 11, base.wires)
		for i, ms := range []int{100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000} {
			require.Equal(t, time.Duration(ms)*time.Millisecond, base.times[i+1].Sub(base.times[i]))
		}
	})
}

func TestResendTakesAUnitOfEveryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &resender{n: 4, major: 2}
		rt := transport(t, base, every(comity.Policy{Limits: []comity.Limit{{N: 1, Per: 10 * time.Second}}}))
		res, err := rt.RoundTrip(get(t, t.Context(), "https://a.example"))
		require.NoError(t, err)
		require.Equal(t, "fine", text(t, res))
		for i := range 3 {
			require.GreaterOrEqual(t, base.times[i+1].Sub(base.times[i]), 9*time.Second)
		}
	})
}

func TestCancelEndsTheBrake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := transport(t, &resender{n: 1 << 30, major: 2}, comity.Config{}).RoundTrip(get(t, ctx, "https://a.example"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 150*time.Millisecond, time.Since(start))
	})
}

// The hook costs something, so it is there only where it may be needed, and it
// leaves the caller's own hooks alone.
func TestBrakeIsOnlyWhereHTTP2MayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for major, braked := range map[int][]bool{1: {true, false, false}, 2: {true, true, true}} {
			var got []bool
			rt := transport(t, tripper(func(req *http.Request) (*http.Response, error) {
				got = append(got, httptrace.ContextClientTrace(req.Context()) != nil)
				res := answer(200, "")
				res.ProtoMajor = major
				return res, nil
			}), comity.Config{})
			for range 3 {
				_, err := rt.RoundTrip(get(t, t.Context(), "https://a.example"))
				require.NoError(t, err)
			}
			require.Equal(t, braked, got, major)
		}

		own := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { own++ }})
		n := 0
		rt := transport(t, tripper(func(req *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{})
			if n++; n < 3 {
				return nil, errReset
			}
			return answer(200, ""), nil
		}), comity.Config{})
		_, err := rt.RoundTrip(get(t, ctx, "https://a.example"))
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.Equal(t, 3, own, "once for each try")
	})
}
