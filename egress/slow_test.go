package egress_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/egress"
)

// backend is 30 servers with one queue. A call that times out still runs.
type backend struct {
	free [30]time.Duration // when each server is
}

func (b *backend) serve(now, work time.Duration) (done time.Duration) {
	next := 0
	for i, at := range b.free {
		if at < b.free[next] {
			next = i
		}
	}
	b.free[next] = max(b.free[next], now) + work
	return b.free[next]
}

// answer is one that is due.
type answer struct {
	at      time.Duration
	a       *comity.Attempt
	latency time.Duration
	ok      bool
}

// phase is what came of the calls that were made in a part of a run.
type phase struct {
	offered, ok int
	latencies   []time.Duration
}

func (p *phase) p99() time.Duration {
	slices.Sort(p.latencies)
	return p.latencies[len(p.latencies)*99/100]
}

// simulate sends rate calls a second through g to a backend whose calls take 40 ms,
// or 120 ms in the second of three phases. Calls time out after a second.
func simulate(seed uint64, g comity.Gate, rate float64, each time.Duration) (phases [3]phase) {
	const timeout = time.Second
	rnd := rand.New(rand.NewPCG(seed, 1))
	start := time.Unix(1_700_000_000, 0)
	var b backend
	var due []answer // sorted: answers come in the order of their end
	for now := time.Duration(0); now < 3*each; now += time.Duration(rnd.ExpFloat64() / rate * float64(time.Second)) {
		for len(due) > 0 && due[0].at <= now {
			e := due[0]
			due = due[1:]
			v := comity.Accepted
			if !e.ok {
				v = comity.Overloaded
			}
			g.Leave(ended(e.a, e.latency, v))
		}
		p := &phases[now/each]
		p.offered++
		a := attempt(context.Background(), 0)
		a.Sent = start.Add(now)
		if g.Enter(a) != nil {
			continue
		}
		work := 40 * time.Millisecond
		if now/each == 1 {
			work = 120 * time.Millisecond
		}
		e := answer{at: b.serve(now, work), a: a, ok: true}
		if e.at > now+timeout {
			e.at, e.ok = now+timeout, false
		} else {
			p.ok++
			p.latencies = append(p.latencies, e.at-now)
		}
		e.latency = e.at - now
		i, _ := slices.BinarySearchFunc(due, e, func(x, y answer) int { return int(x.at - y.at) })
		due = slices.Insert(due, i, e)
	}
	return phases
}

// 19. A service that is itself slower than the target is not starved, and a healthy
// one is used in full without a queue.
func TestProperty19SlowPhase(t *testing.T) {
	const healthy, slow = 30 / 0.040, 30 / 0.120
	seeds, each := uint64(1), 15*time.Second
	if os.Getenv("COMITY_LONG") != "" {
		seeds, each = 4, time.Minute
	}
	for _, rate := range []float64{600, 1500} {
		for seed := range seeds {
			g := egress.Concurrency{Target: 100 * time.Millisecond}.NewGate("x")
			p := simulate(seed, g, rate, each)
			use := func(i int, capacity float64) float64 {
				return float64(p[i].ok) / min(float64(p[i].offered), capacity*each.Seconds())
			}
			t.Logf("%v/s: goodput %.3f, slow %.3f, then %.3f; p99 %v, %v, %v", rate,
				use(0, healthy), use(1, slow), use(2, healthy), p[0].p99(), p[1].p99(), p[2].p99())
			require.GreaterOrEqual(t, use(1, slow), 0.85)
			for _, i := range []int{0, 2} {
				require.GreaterOrEqual(t, use(i, healthy), 0.97)
				require.LessOrEqual(t, p[i].p99(), 130*time.Millisecond)
			}
		}
	}
}
