package comity

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Eight instances of a service at half the capacity of what they call, then at five
// times of it for a minute, then at half again: the worst of all seeds.
func TestPropertyOfEightInstances(t *testing.T) {
	bars := map[float64][2][2]float64{ // K: goodput at least and wire at most, for each cost of a refusal
		2:   {{0.90, 1.86}, {0.785, 1.65}},
		1.5: {{0.94, 1.50}, {0.865, 1.40}},
		1.2: {{0.96, 1.26}, {0.915, 1.21}},
	}
	capacity := pick(250., 400., 400.)
	eachK(t, func(t *testing.T, k float64) {
		for i, cost := range []float64{0.1, 0.25} {
			goodput, wire, after, fair := math.Inf(1), 0., math.Inf(1), 1.
			for _, seed := range seeds(20) {
				from, to := 30*time.Second, 90*time.Second
				s := newSim(seed, capacity, cost)
				s.add(8, 5*capacity/8, adaptive(k))
				for _, c := range s.clients {
					c.rate = func(now time.Duration) float64 {
						if now < from || now >= to {
							return 0.5 * capacity / 8
						}
						return 5 * capacity / 8
					}
				}
				s.run(from)
				require.Zero(t, s.between(0, from).local)
				before := s.accepted()
				s.run(to)
				got := s.accepted()
				for i := range got {
					got[i] -= before[i]
				}
				s.run(to + 10*time.Second)
				during, then := s.between(from, to), s.between(to, s.now)
				goodput = min(goodput, s.goodput(from, to))
				wire = max(wire, float64(during.sent)/capacity/60)
				after = min(after, float64(then.ok)/float64(then.offered))
				fair = min(fair, jain(got))
			}
			t.Logf("cost %v: goodput %.3f, wire %.3f, success after %.3f, Jain %.3f", cost, goodput, wire, after, fair)
			require.GreaterOrEqual(t, goodput, bars[k][i][0])
			require.LessOrEqual(t, wire, bars[k][i][1])
			require.GreaterOrEqual(t, after, 0.95)
			require.GreaterOrEqual(t, fair, 0.9)
		}
	})
}

// One refusal in ten that has nothing to do with load is tolerated by every K.
func TestPropertyOfRefusalsThatAreNotLoad(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var th throttle
		ad := adaptive(k)
		refused := 0
		var now time.Duration
		for range pick(20_000, 100_000, 1_000_000) {
			now += time.Duration(rnd.ExpFloat64() * float64(time.Second/50))
			if !th.attempt(ad, simStart.Add(now), rnd.IntN(10) > 0) {
				refused++
			}
		}
		require.Zero(t, refused)
	})
}
