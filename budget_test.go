package comity

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBudgetAllowsAFewRetriesAtFirst(t *testing.T) {
	var b budget
	require.True(t, b.idle(at(0)))
	require.InDelta(t, 10, b.tokens(at(0), 0.1, false), 1e-6)
	for range 10 {
		require.True(t, b.take(at(0), 0.1, false))
	}
	require.False(t, b.take(at(0), 0.1, false))
	b.giveBack(at(0))
	require.True(t, b.take(at(0), 0.1, false))
	require.False(t, b.idle(at(0)))
	require.False(t, b.take(at(10*time.Second), 0.1, false))
	require.True(t, b.take(at(12*time.Second), 0.1, false), "the window forgets")
}

func TestBudgetIsAShareOfFirstAttempts(t *testing.T) {
	var b budget
	for i := range 100 {
		b.first(at(time.Duration(i) * 10 * time.Millisecond))
	}
	require.InDelta(t, 10, b.tokens(at(time.Second), 0.1, true), 1e-6)
	for range 10 {
		require.True(t, b.take(at(time.Second), 0.1, true))
	}
	require.False(t, b.take(at(time.Second), 0.1, true))
	require.InDelta(t, 10, b.tokens(at(time.Second), 0.1, false), 1e-6)
}

func TestNoBudgetLimitsNothing(t *testing.T) {
	var b budget
	for range 1000 {
		require.True(t, b.take(at(0), -1, true))
	}
}

// Whatever comes when: the retries taken in the ten seconds before any of them are
// at most their share of the first attempts in that time, and the few on top.
func TestBudgetHoldsInEverySpan(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		var b budget
		var firsts, retries []time.Duration
		within := func(at []time.Duration, now time.Duration) (n int) {
			for i := len(at) - 1; i >= 0 && at[i] > now-10*time.Second; i-- {
				n++
			}
			return n
		}
		now := time.Duration(rnd.Int64N(int64(time.Minute)))
		b.take(at(now), 0, true) // allocates the ring, so that it counts exactly
		for range 5000 {
			now += time.Duration(rnd.ExpFloat64() * float64(10*time.Millisecond))
			if rnd.IntN(1000) == 0 {
				now += time.Duration(rnd.Int64N(int64(15 * time.Second)))
			}
			firsts = append(firsts, now)
			b.first(at(now))
			if b.take(at(now), 0.1, true) {
				retries = append(retries, now)
				require.LessOrEqual(t, float64(within(retries, now)), 0.1*float64(within(firsts, now)))
			}
		}
		require.NotEmpty(t, retries)
	}
}
