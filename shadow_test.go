package comity_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

func TestShadowPolicyReportsAndLetsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused, waiting []comity.Reason
		shadow := true
		base := replies(answer(429, "", "Retry-After", "60"), 200, 503)
		gate := &switchGate{closed: true}
		rt := transport(t, base, comity.Config{
			Policies: map[string]comity.Policy{"": {Shadow: true, MaxInFlight: 1, Guards: []comity.Guard{gate, waitGate{}},
				Limits: []comity.Limit{{N: 1, Per: time.Hour}}}},
			Trace: &comity.Trace{
				Waiting: func(a *comity.Attempt, _ time.Duration, why comity.Reason) {
					waiting = append(waiting, why)
					shadow = shadow && a.Shadow
				},
				Refused: func(a *comity.Attempt, err *comity.ThrottledError) {
					refused = append(refused, err.Reason)
					shadow = shadow && a.Shadow
				},
			},
		})
		start := time.Now()
		for _, want := range []int{429, 200, 503} {
			res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
			require.NoError(t, err)
			require.Equal(t, want, res.StatusCode)
		}
		require.Equal(t, start, time.Now())
		require.Equal(t, 3, base.count())
		require.True(t, shadow)
		require.Len(t, refused, 7) // three by each gate, one by the limit
		require.Contains(t, refused, comity.ReasonGuard)
		require.NotEmpty(t, waiting)
		require.Zero(t, gate.left())
	})
}

func TestShadowOfTheThrottleRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		cfg := every(comity.Policy{Adaptive: comity.Adaptive{Shadow: true}, Retry: comity.Retry{Max: -1}})
		cfg.Trace = &comity.Trace{Refused: func(a *comity.Attempt, err *comity.ThrottledError) {
			require.Equal(t, comity.ReasonAdaptive, err.Reason)
			require.True(t, a.Shadow)
			refused++
		}}
		base := replies(503)
		rt := transport(t, base, cfg)
		for range 100 {
			res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
			require.NoError(t, err)
			require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
			time.Sleep(time.Second)
		}
		require.Equal(t, 100, base.count())
		require.Greater(t, refused, 10)
	})
}

// A shadow limit holds nothing back; it says what it would have held back, as if those
// calls had waited, and what it would have refused, for which it charges nothing.
func TestShadowLimitHoldsNothingBack(t *testing.T) {
	for _, where := range []string{"policy", "config"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waits []time.Duration
				var refused []string
				shadow := comity.Limit{Name: "plan", N: 1, Per: time.Second, Shadow: true}
				cfg := every(comity.Policy{MaxWait: 3 * time.Second})
				if where == "policy" {
					cfg = every(comity.Policy{MaxWait: 3 * time.Second, Limits: []comity.Limit{shadow}})
				} else {
					cfg.Limits = []comity.Limit{shadow}
				}
				cfg.Trace = &comity.Trace{
					Waiting: func(a *comity.Attempt, d time.Duration, why comity.Reason) {
						require.True(t, a.Shadow)
						require.Equal(t, comity.ReasonLimit, why)
						waits = append(waits, d)
					},
					Refused: func(a *comity.Attempt, err *comity.ThrottledError) {
						require.True(t, a.Shadow)
						require.Equal(t, "plan", err.Limit)
						refused = append(refused, err.Error())
					},
				}
				rt := transport(t, replies(200), cfg)
				start := time.Now()
				for range 7 {
					accepted(t, rt, "/")
				}
				require.Equal(t, start, time.Now())
				require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, waits)
				require.Len(t, refused, 3)
				require.Equal(t, `comity: a.example: limit "plan" (1/s): next call in 4s, MaxWait is 3s`, refused[0])
				require.Empty(t, rt.Next(get(t, t.Context(), "http://a.example/")).Reason)
				time.Sleep(4 * time.Second)
				accepted(t, rt, "/") // the three that were refused cost nothing
				require.Len(t, waits, 3)
				require.Len(t, refused, 3)
			})
		})
	}
}
