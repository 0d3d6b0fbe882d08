package egress_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/egress"
)

// attempt returns one that a gate can be asked about.
func attempt(ctx context.Context, c comity.Criticality) *comity.Attempt {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://backend.example/", nil)
	if err != nil {
		panic(err)
	}
	return &comity.Attempt{Request: req, Destination: "backend.example", Call: comity.Call{Criticality: c}, N: 1}
}

// ended is a, answered with v after d.
func ended(a *comity.Attempt, d time.Duration, v comity.Verdict) *comity.Attempt {
	a.Latency, a.Verdict = d, v
	return a
}

// limit reads the limit of a gate off its name.
func limit(t *testing.T, g comity.Gate) (n int) {
	_, err := fmt.Sscanf(g.(fmt.Stringer).String(), "concurrency %d", &n)
	require.NoError(t, err)
	return n
}

// round has n calls arrive at once, and all that get in end at once: each capacity
// of them takes 40 ms.
func round(g comity.Gate, n, capacity int) {
	var in []*comity.Attempt
	for range n {
		if a := attempt(context.Background(), 0); g.Enter(a) == nil {
			in = append(in, a)
		}
	}
	latency := time.Duration((len(in)+capacity-1)/capacity) * 40 * time.Millisecond
	for _, a := range in {
		g.Leave(ended(a, latency, comity.Accepted))
	}
}

// 19. The limit follows the capacity of the backend, and does not drift without load.
func TestProperty19Reference(t *testing.T) {
	g := egress.Concurrency{Initial: 10, Min: 5, Max: 200, Target: 100 * time.Millisecond}.NewGate("x")
	for _, phase := range []struct{ rounds, capacity, want int }{{60, 30, 55}, {30, 10, 21}, {60, 30, 54}} {
		for range phase.rounds {
			round(g, 100, phase.capacity)
		}
		require.Equal(t, phase.want, limit(t, g), "at capacity %d", phase.capacity)
	}
}

func TestProperty19NoDrift(t *testing.T) {
	g := egress.Concurrency{Target: 100 * time.Millisecond}.NewGate("x")
	for range 2000 {
		round(g, 8, 30)
	}
	require.LessOrEqual(t, limit(t, g), 17)
}

// 20. A burst of slow answers cuts once.
func TestProperty20CutRate(t *testing.T) {
	g := egress.Concurrency{Initial: 100, Target: 100 * time.Millisecond}.NewGate("x")
	for range 150 {
		a := attempt(context.Background(), 0)
		require.NoError(t, g.Enter(a))
		g.Leave(ended(a, time.Second, comity.Accepted))
	}
	require.Equal(t, 90, limit(t, g))
	for range 40 {
		a := attempt(context.Background(), 0)
		require.NoError(t, g.Enter(a))
		g.Leave(ended(a, time.Second, comity.Accepted))
	}
	require.Equal(t, 81, limit(t, g))
}
