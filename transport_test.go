package comity_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

func TestZeroTransportIsReady(t *testing.T) {
	standard := http.DefaultTransport
	defer func() { http.DefaultTransport = standard }()
	base := replies(200)
	http.DefaultTransport = base // looked up at each call, not before

	var rt comity.Transport
	require.Empty(t, rt.Destinations())
	require.Equal(t, comity.Reason(""), rt.Next(get(t, t.Context(), "http://a.example")).Reason)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
			if err != nil || res.StatusCode != 200 {
				t.Error(res, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, rt.Destinations(), 1)
	require.Equal(t, http.RoundTripper(base), rt.Unwrap())

	// The default itself: it must not call itself for ever.
	http.DefaultTransport = &rt
	require.Equal(t, standard, rt.Unwrap())
}

func TestFaultyRequestIsRefusedWithItsBodyClosed(t *testing.T) {
	base := replies(200)
	rt := transport(t, base, comity.Config{})
	canceled, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the user left")
	cancel(cause)
	for text, change := range map[string]func(*http.Request) *http.Request{
		"comity: nil Request.URL":        func(r *http.Request) *http.Request { r.URL = nil; return r },
		"comity: nil Request.Header":     func(r *http.Request) *http.Request { r.Header = nil; return r },
		"comity: no Host in request URL": func(r *http.Request) *http.Request { r.URL.Host = ""; return r },
		"the user left":                  func(r *http.Request) *http.Request { return r.WithContext(canceled) },
	} {
		body := &watchedBody{Reader: strings.NewReader("x")}
		req := request(t, t.Context(), http.MethodPost, "http://a.example", "")
		req.Body = body
		res, err := rt.RoundTrip(change(req))
		require.Nil(t, res)
		require.EqualError(t, err, text)
		require.Equal(t, 1, body.closes, text)
	}
	require.Zero(t, base.count())
}

func TestRefusedRequestIsClosedOnceAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(200)
		rt := transport(t, base, every(comity.Policy{MaxWait: -1, Limits: []comity.Limit{{N: 1, Per: time.Minute}}}))
		client := &http.Client{Transport: rt}
		_, err := client.Get("http://a.example/secret?token=x")
		require.NoError(t, err)

		body := &watchedBody{Reader: strings.NewReader("x")}
		req := request(t, t.Context(), http.MethodPost, "http://a.example", "")
		req.Body = body
		_, err = client.Do(req)
		require.ErrorIs(t, err, comity.ErrThrottled)
		var refused *comity.ThrottledError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, comity.ReasonLimit, refused.Reason)
		require.Equal(t, "a.example", refused.Destination)
		require.Equal(t, time.Minute, refused.RetryAfter)
		require.NotContains(t, refused.Error(), "http")
		var wrapped *url.Error
		require.ErrorAs(t, err, &wrapped)
		require.False(t, wrapped.Timeout())
		require.Equal(t, 1, body.closes)
		require.Equal(t, 1, base.count())
	})
}

func TestDeadlineTooNearFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport(t, replies(200), every(comity.Policy{Limits: []comity.Limit{{N: 1, Per: time.Minute}}}))
		client := &http.Client{Transport: rt, Timeout: time.Second}
		res, err := client.Get("http://a.example")
		require.NoError(t, err)
		res.Body.Close()
		start := time.Now()
		_, err = client.Get("http://a.example")
		require.ErrorIs(t, err, comity.ErrThrottled)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var wrapped *url.Error
		require.ErrorAs(t, err, &wrapped)
		require.True(t, wrapped.Timeout())
		require.Zero(t, time.Since(start))
	})
}

func TestGuardRefusalNamesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := &switchGate{}, &switchGate{closed: true}
		base := replies(200)
		rt := transport(t, base, every(comity.Policy{MaxInFlight: 1, Guards: []comity.Guard{outer, inner}}))
		body := &watchedBody{Reader: strings.NewReader("x")}
		req := request(t, t.Context(), http.MethodPost, "http://a.example", "")
		req.Body = body
		_, err := rt.RoundTrip(req)
		require.EqualError(t, err, `comity: a.example: gate "switch": closed`)
		var refused *comity.ThrottledError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, comity.ReasonGuard, refused.Reason)
		require.Equal(t, "switch", refused.Limit)
		require.Equal(t, 1, outer.left(), "the gates before it are left")
		require.Zero(t, inner.left())
		require.Zero(t, inFlight(t, rt), "the place is given back")
		require.Equal(t, 1, body.closes)
		require.Zero(t, base.count())
		require.Equal(t, []string{"switch", "switch"}, rt.Destinations()[0].Gates)
	})
}

func TestCancelInAGateIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		rt := transport(t, replies(200), every(comity.Policy{Guards: []comity.Guard{waitGate{}}}))
		_, err := rt.RoundTrip(get(t, ctx, "http://a.example"))
		require.Equal(t, cause, err)
	})
}

// waitGate waits for as long as it may.
type waitGate struct{}

func (waitGate) NewGate(string) comity.Gate { return waitGate{} }
func (waitGate) Leave(*comity.Attempt)      {}
func (waitGate) Enter(a *comity.Attempt) error {
	<-a.Request.Context().Done()
	return a.Request.Context().Err()
}

func TestBaseThatBreaksItsContractIsMadeGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &watchedBody{Reader: strings.NewReader("x")}
		both := answer(200, "")
		both.Body = body
		lost := errors.New("lost")
		post := func(base http.RoundTripper) (*http.Response, error) {
			return transport(t, base, comity.Config{}).RoundTrip(request(t, t.Context(), http.MethodPost, "http://a.example", ""))
		}
		res, err := post(tripper(func(*http.Request) (*http.Response, error) { return both, lost }))
		require.Nil(t, res)
		require.Equal(t, lost, err)
		require.Equal(t, 1, body.closes)

		res, err = post(tripper(func(*http.Request) (*http.Response, error) { return nil, nil }))
		require.Nil(t, res)
		require.Error(t, err)
	})
}

type idleCloser struct {
	http.RoundTripper
	closes int
}

func (c *idleCloser) CloseIdleConnections() { c.closes++ }

func TestCloseIdleConnectionsReachesTheBase(t *testing.T) {
	base := &idleCloser{RoundTripper: replies(200)}
	(&http.Client{Transport: transport(t, base, comity.Config{})}).CloseIdleConnections()
	require.Equal(t, 1, base.closes)
	transport(t, replies(200), comity.Config{}).CloseIdleConnections()
}

func TestCriticalCallsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(200)
		rt := transport(t, base, every(comity.Policy{Limits: []comity.Limit{{N: 1, Per: time.Second}}}))
		var wg sync.WaitGroup
		for _, c := range []comity.Criticality{comity.Critical, comity.Sheddable, comity.SheddablePlus, 0, comity.CriticalPlus} {
			wg.Go(func() {
				ctx := comity.WithCall(t.Context(), comity.Call{Criticality: c})
				_, err := rt.RoundTrip(get(t, ctx, "http://a.example/"+c.String()))
				require.NoError(t, err)
			})
			synctest.Wait()
		}
		wg.Wait()
		var order []string
		for _, r := range base.seen {
			order = append(order, r.URL.Path)
		}
		require.Equal(t, []string{"/critical", "/critical-plus", "/", "/sheddable-plus", "/sheddable"}, order)
	})
}

func TestOptionsOfHTTPArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(503, 200)
		req := request(t, t.Context(), http.MethodPut, "http://a.example", "payload")
		req.Host, req.Close, req.TransferEncoding = "b.example", true, []string{"chunked"}
		done := make(chan struct{})
		req.Cancel = done //lint:ignore SA1019 net/http's Client still sets it
		_, err := transport(t, base, comity.Config{}).RoundTrip(req)
		require.NoError(t, err)
		for _, r := range base.seen {
			require.Equal(t, "b.example", r.Host)
			require.True(t, r.Close)
			require.Equal(t, []string{"chunked"}, r.TransferEncoding)
			require.Equal(t, int64(7), r.ContentLength)
			require.Equal(t, (<-chan struct{})(done), r.Cancel) //lint:ignore SA1019 as above
		}
	})
}

func TestResponseNamesTheCallersRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		base := tripper(func(req *http.Request) (*http.Response, error) {
			n++
			res := answer(503, "x")
			if n == 2 {
				res = answer(200, "x")
			}
			res.Request = req
			return res, nil
		})
		req := get(t, t.Context(), "http://a.example")
		res, err := transport(t, base, comity.Config{}).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.True(t, res.Request == req)
		_, _ = io.Copy(io.Discard, res.Body)
	})
}
