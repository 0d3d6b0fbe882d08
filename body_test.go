package comity_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// inFlight returns the calls open to the only destination.
func inFlight(t *testing.T, rt *comity.Transport) int {
	t.Helper()
	ds := rt.Destinations()
	require.Len(t, ds, 1)
	return ds[0].InFlight
}

func TestPlaceIsFreeAtTheFirstEndOfTheBody(t *testing.T) {
	for name, end := range map[string]func(res *http.Response, cancel func()){
		"EOF":   func(res *http.Response, _ func()) { _, _ = io.ReadAll(res.Body) },
		"Close": func(res *http.Response, _ func()) { res.Body.Close(); res.Body.Close() },
		"context": func(_ *http.Response, cancel func()) {
			cancel()
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := &switchGate{}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				rt := transport(t, replies(200), every(comity.Policy{MaxInFlight: 1, Guards: []comity.Guard{gate}}))
				res, err := rt.RoundTrip(get(t, ctx, "http://a.example"))
				require.NoError(t, err)
				require.Equal(t, 1, inFlight(t, rt))
				require.Zero(t, gate.left())
				end(res, cancel)
				require.Zero(t, inFlight(t, rt))
				require.Equal(t, 1, gate.left())
				res.Body.Close()
				require.Equal(t, 1, gate.left())
			})
		})
	}
}

func TestReadErrorFreesThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := withBody(io.NopCloser(io.MultiReader(strings.NewReader("x"), broken{})))
		res.StatusCode = 200
		rt := transport(t, replies(res), every(comity.Policy{MaxInFlight: 1}))
		got, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		_, err = io.ReadAll(got.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Zero(t, inFlight(t, rt))
	})
}

func TestAnswerWithoutABodyFreesThePlaceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h2 := answer(200, "x")
		h2.ProtoMajor, h2.ContentLength = 2, 0
		upgraded := answer(101, "x")
		for name, c := range map[string]struct {
			method string
			res    *http.Response
			err    error
		}{
			"HEAD":     {http.MethodHead, answer(200, "x"), nil},
			"204":      {http.MethodGet, answer(204, "x"), nil},
			"304":      {http.MethodGet, answer(304, "x"), nil},
			"NoBody":   {http.MethodGet, answer(200, ""), nil},
			"nil":      {http.MethodGet, &http.Response{StatusCode: 200, Header: http.Header{}}, nil},
			"length 0": {http.MethodGet, h2, nil},
			"101":      {http.MethodGet, upgraded, nil},
			"error":    {http.MethodPost, nil, errors.New("lost")},
		} {
			var body io.ReadCloser
			if c.res != nil {
				body = c.res.Body
			}
			gate := &switchGate{}
			rt := transport(t, tripper(func(*http.Request) (*http.Response, error) { return c.res, c.err }),
				every(comity.Policy{MaxInFlight: 1, Guards: []comity.Guard{gate}, Retry: comity.Retry{Timeout: time.Minute}}))
			res, err := rt.RoundTrip(request(t, t.Context(), c.method, "http://a.example", ""))
			require.Equal(t, c.err, err, name)
			require.Zero(t, inFlight(t, rt), name)
			require.Equal(t, 1, gate.left(), name)
			if res != nil {
				require.True(t, body == res.Body, "%s: handed over as it is", name)
			}
		}
	})
}

func TestBodyThatNothingWaitsForIsHandedOverAsItIs(t *testing.T) {
	base := replies(200)
	var given io.ReadCloser
	rt := transport(t, tripper(func(req *http.Request) (*http.Response, error) {
		res, err := base.RoundTrip(req)
		given = res.Body
		return res, err
	}), comity.Config{})
	for range 2 {
		res, err := rt.RoundTrip(get(t, context.Background(), "http://a.example"))
		require.NoError(t, err)
		require.True(t, given == res.Body)
	}
}

func TestStreamFreesItsPlaceAtTheHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport(t, replies(200), every(comity.Policy{MaxInFlight: 1, Retry: comity.Retry{Timeout: time.Second}}))
		ctx, cancel := context.WithCancel(comity.WithCall(t.Context(), comity.Call{Stream: true}))
		defer cancel()
		res, err := rt.RoundTrip(get(t, ctx, "http://a.example"))
		require.NoError(t, err)
		require.Zero(t, inFlight(t, rt))
		time.Sleep(time.Minute)
		require.Equal(t, "body", text(t, res))
	})
}

func TestCloseWhileReadIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := withBody(newStalling("x"))
		res.StatusCode = 200
		rt := transport(t, replies(res), every(comity.Policy{MaxInFlight: 1}))
		got, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			_, err := io.ReadAll(got.Body)
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, got.Body.Close())
		require.Error(t, <-done)
		require.Zero(t, inFlight(t, rt))
	})
}

func TestPanicLeavesNothingTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, where := range []string{"base", "gate", "hook", "cost"} {
			gate := &panicGate{panics: where == "gate"}
			base := tripper(func(*http.Request) (*http.Response, error) {
				if where == "base" {
					panic(where)
				}
				return answer(200, "x"), nil
			})
			cfg := every(comity.Policy{MaxInFlight: 1, Guards: []comity.Guard{gate}, Limits: []comity.Limit{{
				N: 1, Per: time.Second, Cost: func(*http.Request) int {
					if where == "cost" {
						panic(where)
					}
					return 1
				}}}})
			cfg.Trace = &comity.Trace{Sent: func(*comity.Attempt) {
				if where == "hook" {
					panic(where)
				}
			}}
			rt := transport(t, base, cfg)
			require.PanicsWithValue(t, where, func() { _, _ = rt.RoundTrip(get(t, t.Context(), "http://a.example")) })
			require.Zero(t, inFlight(t, rt), where)
			require.Equal(t, gate.entered, gate.left, where)
			was := where
			where, gate.panics = "", false
			res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
			require.NoError(t, err, was)
			require.Equal(t, 200, res.StatusCode)
			res.Body.Close()
		}
	})
}

type panicGate struct {
	panics        bool
	entered, left int
}

func (g *panicGate) NewGate(string) comity.Gate { return g }
func (g *panicGate) Leave(*comity.Attempt)      { g.left++ }
func (g *panicGate) Enter(*comity.Attempt) error {
	if g.panics {
		panic("gate")
	}
	g.entered++
	return nil
}
