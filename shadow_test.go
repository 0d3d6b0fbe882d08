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
		require.Len(t, refused, 6)
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
