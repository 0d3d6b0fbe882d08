package comity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 18. After an outage of a minute at 0.85 of the capacity, with three tries a call
// and refusals that cost 0.4 of a call, the budget brings the calls back within
// seconds, with the throttle or alone. Without either they never come back: retries
// alone are more than the backend can refuse.
func TestProperty18Metastability(t *testing.T) {
	run := func(seed uint64, ad *Adaptive, budget float64) time.Duration {
		const capacity, clients = 200., 20
		s := newSim(seed, capacity, 0.4)
		s.add(clients, 0.85*capacity/clients, ad)
		for _, c := range s.clients {
			c.tries, c.budget = 3, budget
		}
		up := 90 * time.Second
		s.server.down = func(now time.Duration) bool { return now >= 30*time.Second && now < up }
		s.run(up + pick(time.Minute, time.Minute, 10*time.Minute))
		return s.recovered(up, 5*time.Second, 0.95)
	}
	for _, seed := range seeds(5) {
		for _, k := range factors {
			d := run(seed, adaptive(k), 0.1)
			t.Logf("K=%v and budget: %v", k, d)
			require.GreaterOrEqual(t, d, time.Duration(0))
			require.LessOrEqual(t, d, 12*time.Second)
		}
		d := run(seed, nil, 0.1)
		t.Logf("budget alone: %v", d)
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.LessOrEqual(t, d, 12*time.Second)
		require.Equal(t, time.Duration(-1), run(seed, nil, -1), "neither")
	}
}
