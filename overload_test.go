package comity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The properties of the throttle under load, on simulated clients and backends.
// Each runs with one seed and short phases, or in full with COMITY_LONG=1.

var factors = []float64{2, 1.5, 1.2}

func seeds(n uint64) []uint64 {
	s := make([]uint64, pick(1, 1, n))
	for i := range s {
		s[i] = uint64(i) + 1
	}
	return s
}

// eachK runs f as a parallel subtest for each K.
func eachK(t *testing.T, f func(t *testing.T, k float64)) {
	for _, k := range factors {
		t.Run(fmt.Sprintf("K=%v", k), func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}

// 2. A healthy backend that refuses one call in a hundred: nothing is refused here.
func TestProperty02Healthy(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var th throttle
		ad := adaptive(k)
		var now time.Duration
		for i := range pick(20_000, 100_000, 1_000_000) {
			now += time.Duration(rnd.ExpFloat64() * float64(10*time.Millisecond))
			require.True(t, th.attempt(ad, simStart.Add(now), rnd.IntN(100) > 0), "call %d", i)
		}
	})
}

// 3. A fresh client of a slow but healthy backend is never refused, nor is one that
// sends in bursts.
func TestProperty03ColdStart(t *testing.T) {
	for _, latency := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
		for _, k := range factors {
			s := newSim(1, 1000, 0.3)
			s.latency = latency
			s.add(1, 100, adaptive(k))
			s.run(time.Minute)
			require.Zero(t, s.clients[0].total.local, "K=%v, latency %v", k, latency)
		}
	}
	for _, k := range factors {
		var th throttle
		ad := adaptive(k)
		for burst := range 6 {
			start := simStart.Add(time.Duration(burst) * 10 * time.Second)
			for range 100 {
				ok, _ := th.admit(ad, start, Critical, false)
				require.True(t, ok)
				th.sent(ad, start)
			}
			for range 100 {
				th.done(ad, start.Add(2*time.Second), true, true)
			}
		}
	}
}

// 5. In overload K calls are sent per call accepted, whatever the overload, and the
// backend does what its refusals leave it; just below its capacity nothing happens.
func TestProperty05OverloadBound(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		const cost = 0.3
		for factor, bound := range map[float64]float64{0.9: 0, 2: 1.03, 5: 1.08, 10: 1.17} {
			for _, seed := range seeds(5) {
				clients := pick(4, 20, 40)
				s := newSim(seed, 10*float64(clients), cost)
				s.add(clients, factor*10, adaptive(k))
				from, to := 60*time.Second, pick(90*time.Second, 2*time.Minute, 5*time.Minute)
				s.run(to)
				if factor < 1 {
					require.Zero(t, s.between(0, to).local)
					continue
				}
				sum := s.between(from, to)
				ratio := float64(sum.sent) / float64(sum.ok) / k
				goodput := s.goodput(from, to) * (1 + cost*(k-1))
				t.Logf("%vx: sent:accepted %.3f K, goodput %.3f of what refusals leave", factor, ratio, goodput)
				require.LessOrEqual(t, ratio, bound, "sent:accepted at %vx", factor)
				require.GreaterOrEqual(t, goodput, 0.93, "goodput at %vx", factor)
			}
		}
	})
}

// 6. The ratio hardly grows with the overload; equal clients get equal shares, and a
// newcomer no more than its own.
func TestProperty06Fairness(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		ratio := func(factor float64) float64 {
			clients := pick(4, 40, 40)
			s := newSim(1, 10*float64(clients), 0.3)
			s.add(clients, factor*10, adaptive(k))
			s.run(120 * time.Second)
			sum := s.between(60*time.Second, 120*time.Second)
			return float64(sum.sent) / float64(sum.ok)
		}
		require.LessOrEqual(t, ratio(10), 1.25*ratio(2))

		for _, seed := range seeds(3) {
			clients := pick(10, 20, 40)
			s := newSim(seed, 10*float64(clients), 0.3)
			s.add(clients, 50, adaptive(k))
			end := pick(4*time.Minute, 6*time.Minute, 30*time.Minute)
			s.run(end - min(end/2, 5*time.Minute))
			before := s.accepted()
			s.run(end)
			got := s.accepted()
			for i := range got {
				got[i] -= before[i]
			}
			m, least := mean(got)
			t.Logf("Jain %.3f, least %.2f of the mean", jain(got), least/m)
			require.GreaterOrEqual(t, jain(got), 0.90)
			require.GreaterOrEqual(t, least/m, 0.4)
		}
	})
}

func TestProperty06Newcomer(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		for _, seed := range seeds(5) {
			clients := pick(8, 20, 40)
			s := newSim(seed, 10*float64(clients), 0.3)
			s.add(clients, 50, adaptive(k))
			start := pick(100*time.Second, 200*time.Second, 200*time.Second)
			newcomer := s.clients[clients-1]
			newcomer.rate = func(now time.Duration) float64 {
				if now < start {
					return 0
				}
				return 50
			}
			s.run(start + 100*time.Second)
			before := s.accepted()
			s.run(start + pick(250*time.Second, 400*time.Second, 400*time.Second))
			got := s.accepted()
			for i := range got {
				got[i] -= before[i]
			}
			others, _ := mean(got[:clients-1])
			share := got[clients-1] / others
			t.Logf("newcomer %.2f of the mean", share)
			require.LessOrEqual(t, share, 1.75)
		}
	})
}

// The share refused is the share of the formula.
func TestProperty06ShareRefused(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		capacity := pick(80., 200., 200.)
		s := newSim(1, capacity, 0.3)
		s.add(8, 5*capacity/8, adaptive(k))
		s.run(60 * time.Second)
		var p float64
		n := 0
		end := pick(90*time.Second, 4*time.Minute, 4*time.Minute)
		for ; s.now < end; s.run(s.now + time.Second) {
			for _, c := range s.clients {
				_, _, q := c.th.snapshot(c.ad, s.time())
				p += q
				n++
			}
		}
		sum := s.between(60*time.Second, end)
		refused := float64(sum.local) / float64(sum.offered)
		t.Logf("p %.3f, refused %.3f", p/float64(n), refused)
		require.InDelta(t, p/float64(n), refused, 0.02)
	})
}

// 7. In a total outage clients fall silent but for probes.
func TestProperty07OutageOnset(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		s := newSim(1, 400, 0.3)
		s.add(40, 8, adaptive(k))
		s.server.down = func(now time.Duration) bool { return now >= time.Minute }
		end := 80*time.Second + pick(time.Minute, time.Minute, 5*time.Minute)
		s.run(end)
		sent := float64(s.between(80*time.Second, end).sent) / 40 / (end - 80*time.Second).Seconds()
		t.Logf("%.3f sends a second", sent)
		require.LessOrEqual(t, sent, 0.2)
	})
}

// 8. After an outage of five minutes calls succeed again within seconds, at every
// rate, and no later than after one of a minute.
func TestProperty08Recovery(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		rates := []float64{1, 8, 80}
		n := pick(1, 3, 20)
		recovery := func(rate float64, latency, outage time.Duration) (median time.Duration) {
			var all []time.Duration
			for seed := range uint64(n) {
				clients := 40
				if rate > 10 {
					clients = 8 // enough calls to measure by
				}
				s := newSim(seed, float64(clients)*rate/0.8, 0.3)
				s.latency = latency
				s.add(clients, rate, adaptive(k))
				start := 30 * time.Second
				s.server.down = func(now time.Duration) bool { return now >= start && now < start+outage }
				s.run(start + outage + 40*time.Second)
				d := s.recovered(start+outage, 5*time.Second, 0.95)
				require.GreaterOrEqual(t, d, time.Duration(0), "never recovered")
				all = append(all, d)
			}
			slices.Sort(all)
			t.Logf("%v a second, latency %v, outage %v: median %v, worst %v", rate, latency, outage, all[n/2], all[n-1])
			return all[n/2]
		}
		if !long() {
			require.LessOrEqual(t, recovery(8, 50*time.Millisecond, 2*time.Minute), 12*time.Second)
			return
		}
		for _, rate := range rates {
			d := recovery(rate, 50*time.Millisecond, 5*time.Minute)
			require.LessOrEqual(t, d, 12*time.Second)
			require.LessOrEqual(t, d, recovery(rate, 50*time.Millisecond, time.Minute)+3*time.Second)
		}
		require.LessOrEqual(t, recovery(8, 500*time.Millisecond, 5*time.Minute), 20*time.Second)
	})
}

// 9. Somebody asks every ten seconds of an outage, and hardly anybody else.
func TestProperty09Probe(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		var th throttle
		ad := adaptive(k)
		var sent []time.Duration
		seconds := pick(600, 600, 3600)
		for i := range seconds {
			now := time.Duration(i) * time.Second
			if th.attempt(ad, simStart.Add(now), false) {
				sent = append(sent, now)
			}
		}
		first := slices.IndexFunc(sent, func(d time.Duration) bool { return d >= 20*time.Second })
		probes := sent[first:]
		for i := 1; i < len(probes); i++ {
			require.LessOrEqual(t, probes[i]-probes[i-1], 11*time.Second)
			if i > 1 {
				require.GreaterOrEqual(t, probes[i]-probes[i-2], 10*time.Second, "at most two in ten seconds")
			}
		}
		require.LessOrEqual(t, float64(len(probes)), 0.11*float64(seconds))
		require.Greater(t, probes[len(probes)-1], time.Duration(seconds-12)*time.Second)
	})
}

// 11. Where there is little traffic a few refusals mean nothing.
func TestProperty11LowTraffic(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		for _, rate := range []float64{1, 0.1} {
			for _, seed := range seeds(20) {
				rnd := rand.New(rand.NewPCG(seed, 3))
				var th throttle
				ad := adaptive(k)
				refused, n := 0, 0
				for now := time.Duration(0); now < time.Hour; n++ {
					now += time.Duration(rnd.ExpFloat64() / rate * float64(time.Second))
					if !th.attempt(ad, simStart.Add(now), rnd.IntN(20) > 0) {
						refused++
					}
				}
				require.LessOrEqual(t, float64(refused), 0.0001*float64(n), "rate %v, seed %d", rate, seed)
			}
		}
	})
}

// 12. A fleet of small clients does not drown the backend with probes.
func TestProperty12Fleet(t *testing.T) {
	least := map[float64]float64{2: 0.70, 1.5: 0.78, 1.2: 0.83}
	eachK(t, func(t *testing.T, k float64) {
		for _, seed := range seeds(2) {
			clients := pick(150, 1000, 2000)
			s := newSim(seed, float64(clients)/5, 0.3)
			s.add(clients, 1, adaptive(k))
			from, to := 120*time.Second, pick(3*time.Minute, 3*time.Minute, 400*time.Second)
			s.run(to)
			t.Logf("goodput %.3f", s.goodput(from, to))
			require.GreaterOrEqual(t, s.goodput(from, to), least[k])
		}
	})
	t.Run("without", func(t *testing.T) {
		s := newSim(1, 40, 0.3)
		s.add(200, 1, nil)
		s.run(60 * time.Second)
		require.Less(t, s.goodput(30*time.Second, 60*time.Second), 0.05)
	})
}

// 13. A backend that sees no classes: the client sheds the least critical first.
func TestProperty13Classes(t *testing.T) {
	eachK(t, func(t *testing.T, k float64) {
		classes := []Criticality{CriticalPlus, Critical, SheddablePlus, Sheddable}
		for _, seed := range seeds(5) {
			s := newSim(seed, 200, 0.3)
			s.add(8, 125, adaptive(k))
			for _, c := range s.clients {
				c.class = func(rnd *rand.Rand) Criticality {
					switch f := rnd.Float64(); {
					case f < 0.1:
						return CriticalPlus
					case f < 0.5:
						return Critical
					case f < 0.7:
						return SheddablePlus
					}
					return Sheddable
				}
			}
			s.run(30 * time.Second)
			asked, refused, ok := map[Criticality]float64{}, map[Criticality]float64{}, map[Criticality]float64{}
			s.watch = func(_ *simClient, e event) {
				asked[e.class]++
				switch {
				case e.kind != ending:
					refused[e.class]++
				case e.ok:
					ok[e.class]++
				}
			}
			end := pick(60*time.Second, 90*time.Second, 330*time.Second)
			s.run(end)
			sum := s.between(30*time.Second, end)
			ratio := float64(sum.sent) / float64(sum.ok) / k
			for i, c := range classes {
				t.Logf("%v: refused %.3f, success %.3f", c, refused[c]/asked[c], ok[c]/asked[c])
				if i > 0 {
					above := classes[i-1]
					require.LessOrEqual(t, ok[c]/asked[c], ok[above]/asked[above], "%v and %v", c, above)
				}
			}
			t.Logf("sent:accepted %.3f K", ratio)
			require.LessOrEqual(t, ratio, 1.1)
			require.LessOrEqual(t, refused[CriticalPlus]/asked[CriticalPlus], 0.05)
			require.GreaterOrEqual(t, refused[Sheddable]/asked[Sheddable], 0.95)
		}
	})
}
