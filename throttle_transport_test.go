package comity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// drive sends n calls to a.example, one after the other.
func drive(t *testing.T, rt http.RoundTripper, n int) {
	for range n {
		if res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/")); err == nil {
			res.Body.Close()
		}
	}
}

// only returns the one destination there is.
func only(t *testing.T, rt *comity.Transport) comity.Destination {
	t.Helper()
	all := rt.Destinations()
	require.Len(t, all, 1)
	return all[0]
}

// 14. A thousand calls that their callers cancel change no count.
func TestProperty14CallersCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var i int
		var hang atomic.Bool
		base := tripper(func(req *http.Request) (*http.Response, error) {
			if hang.Load() {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			if i++; i%5 == 0 {
				return answer(200, ""), nil
			}
			return answer(503, ""), nil
		})
		rt := transport(t, base, every(comity.Policy{MaxInFlight: 2000, Retry: comity.Retry{Max: -1}}))
		drive(t, rt, 100)
		hang.Store(true)
		time.Sleep(5 * time.Second) // time for a token or two
		before := only(t, rt)
		require.Positive(t, before.RejectRate)

		var sent, refused atomic.Int64
		for range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			_, err := rt.RoundTrip(get(t, ctx, "http://a.example/"))
			if errors.Is(err, context.Canceled) {
				sent.Add(1)
			} else {
				refused.Add(1)
			}
		}
		require.Zero(t, refused.Load(), "one at a time, each gives its token to the next")
		after := only(t, rt)
		require.Equal(t, before.Requests, after.Requests)
		require.Equal(t, before.Accepts, after.Accepts)
		require.Equal(t, before.RejectRate, after.RejectRate)
		require.Zero(t, after.InFlight)
	})
}

// 15. What each answer counts as: accepted, refused, or nowhere.
func TestProperty15Classification(t *testing.T) {
	const accepted, refused, nowhere = "accepted", "refused", "nowhere"
	for _, c := range []struct {
		name string
		ends any
		want string
	}{
		{"200", 200, accepted},
		{"301", 301, accepted},
		{"404", 404, accepted},
		{"409", 409, accepted},
		{"418", 418, accepted},
		{"418 with Retry-After", answer(418, "", "Retry-After", "1"), nowhere},
		{"429", 429, nowhere},
		{"429 with Retry-After", answer(429, "", "Retry-After", "1"), nowhere},
		{"500", 500, accepted},
		{"501", 501, accepted},
		{"502", 502, refused},
		{"503", 503, refused},
		{"503 with Retry-After", answer(503, "", "Retry-After", "1"), refused},
		{"504", 504, refused},
		{"529", 529, refused},
		{"403", 403, accepted},
		{"403 with Retry-After", answer(403, "", "Retry-After", "1"), nowhere},
		{"unknown host", errNoHost, nowhere},
		{"bad certificate", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, nowhere},
		{"dial error", errRefusedDial, refused},
		{"reset", errReset, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { require.Equal(t, c.want, countedAs(t, replies(c.ends), t.Context(), 0)) })
		})
	}
	slow := tripper(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	t.Run("attempt timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { require.Equal(t, refused, countedAs(t, slow, t.Context(), time.Second)) })
	})
	t.Run("caller cancel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			require.Equal(t, nowhere, countedAs(t, slow, ctx, 0))
		})
	})
}

// countedAs returns what the throttle took the end of a call for.
func countedAs(t *testing.T, base http.RoundTripper, ctx context.Context, timeout time.Duration) string {
	rt := transport(t, base, every(comity.Policy{Retry: comity.Retry{Max: -1, Timeout: timeout}, MaxWait: -1}))
	res, err := rt.RoundTrip(get(t, ctx, "http://a.example/"))
	if err == nil {
		res.Body.Close()
	}
	switch d := only(t, rt); {
	case d.Requests == 0:
		return "nowhere"
	case d.Requests == d.Accepts:
		return "accepted"
	}
	return "refused"
}

// 16. A call refused here costs nothing but its own time.
func TestProperty16LocalReject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(503)
		rt := transport(t, base, every(comity.Policy{
			Limits: []comity.Limit{{N: 1000, Per: time.Hour, Burst: 1000}}, Retry: comity.Retry{Max: -1},
		}))
		drive(t, rt, 200)
		before, sent := only(t, rt), base.count()
		require.Less(t, sent, 200, "throttled by now")

		body := &watchedBody{Reader: strings.NewReader("payload")}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://a.example/", body)
		require.NoError(t, err)
		start := time.Now()
		_, err = (&http.Client{Transport: rt}).Do(req)
		require.Zero(t, time.Since(start))
		require.ErrorIs(t, err, comity.ErrThrottled)
		var wrapped *url.Error
		require.ErrorAs(t, err, &wrapped)
		require.False(t, wrapped.Timeout())
		require.False(t, wrapped.Temporary())
		var refused *comity.ThrottledError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, comity.ReasonAdaptive, refused.Reason)
		require.Positive(t, refused.RetryAfter)
		require.LessOrEqual(t, refused.RetryAfter, 10*time.Second)
		require.Regexp(t, `^comity: a\.example: 0 of its last \d+ calls accepted, \d+ in \d+ refused now \(Adaptive\)$`, refused.Error())

		require.Equal(t, 1, body.closes)
		require.Equal(t, sent, base.count())
		after := only(t, rt)
		require.Equal(t, before.RetryTokens, after.RetryTokens)
		require.Equal(t, before.Limits[0].Available, after.Limits[0].Available)
		require.Zero(t, after.InFlight)
		require.Equal(t, before.Requests+1, after.Requests)
	})
}

// 17. A dead backend, a thousand calls a second with three tries: in every ten
// seconds retries are at most a tenth of the first tries, and ten more while
// nothing was throttled.
func TestProperty17Budget(t *testing.T) {
	for _, k := range []float64{-1, 2} {
		t.Run(fmt.Sprintf("K=%v", k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type callKey struct{}
				var mu sync.Mutex
				var firsts, retries []time.Time
				taken := map[any]time.Time{} // when a call took its last retry from the budget
				cfg := every(comity.Policy{Adaptive: comity.Adaptive{K: k}, MaxWait: 10 * time.Second})
				cfg.Trace = &comity.Trace{
					Sent: func(a *comity.Attempt) {
						mu.Lock()
						defer mu.Unlock()
						if a.N == 1 {
							firsts = append(firsts, a.Sent)
							return
						}
						retries = append(retries, taken[a.Request.Context().Value(callKey{})])
					},
					Retry: func(a *comity.Attempt, _ time.Duration) {
						mu.Lock()
						defer mu.Unlock()
						taken[a.Request.Context().Value(callKey{})] = time.Now()
					},
				}
				rt := transport(t, replies(errReset), cfg)
				rnd := rand.New(rand.NewPCG(1, 1))
				var wg sync.WaitGroup
				for i := range 15_000 {
					time.Sleep(time.Duration(rnd.ExpFloat64() * float64(time.Millisecond)))
					ctx := context.WithValue(t.Context(), callKey{}, i)
					wg.Go(func() { _, _ = rt.RoundTrip(get(t, ctx, "http://a.example/")) })
				}
				wg.Wait()
				slices.SortFunc(retries, time.Time.Compare)
				within := func(all []time.Time, end time.Time) int {
					from, _ := slices.BinarySearchFunc(all, end.Add(-10*time.Second), time.Time.Compare)
					to, _ := slices.BinarySearchFunc(all, end.Add(1), time.Time.Compare)
					return to - from
				}
				if k < 0 { // a throttle may refuse them all
					require.NotEmpty(t, retries)
				}
				for _, end := range retries {
					require.LessOrEqual(t, float64(within(retries, end)), 0.1*float64(within(firsts, end))+10)
				}
				t.Logf("%d first tries, %d retries", len(firsts), len(retries))
			})
		})
	}
}

// In shadow the throttle reports what it would refuse, and everything is sent.
func TestShadowThrottleRefusesNothing(t *testing.T) {
	for name, p := range map[string]comity.Policy{
		"throttle": {Adaptive: comity.Adaptive{Shadow: true}, Retry: comity.Retry{Max: -1}},
		"policy":   {Shadow: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := replies(errReset)
				cfg := every(p)
				refused := 0
				cfg.Trace = &comity.Trace{Refused: func(a *comity.Attempt, err *comity.ThrottledError) {
					require.True(t, a.Shadow)
					require.Equal(t, comity.ReasonAdaptive, err.Reason)
					refused++
				}}
				rt := transport(t, base, cfg)
				drive(t, rt, 200)
				require.Equal(t, 200, base.count())
				require.Greater(t, refused, 150)
				require.Equal(t, 200., only(t, rt).Requests)
			})
		})
	}
}

// A throttle in a Guard's place does the same, behind the pacer.
func TestAdaptiveAsAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(errReset)
		rt := transport(t, base, every(comity.Policy{
			Adaptive: comity.Adaptive{K: -1}, Guards: []comity.Guard{comity.Adaptive{K: 1.5}}, Retry: comity.Retry{Max: -1},
		}))
		drive(t, rt, 200)
		require.Less(t, base.count(), 30)
		_, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/"))
		var refused *comity.ThrottledError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, comity.ReasonAdaptive, refused.Reason)
		require.Equal(t, "a.example", refused.Destination)
		require.Regexp(t, `^adaptive K=1.5 refusing 99\.\d%$`, only(t, rt).Gates[0])
	})
}
