package comity

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 1. The share is the book's formula, and zero below ten calls.
func TestProperty01Formula(t *testing.T) {
	for _, c := range []struct {
		ended, accepted int
		k, want         float64
	}{
		{100, 50, 2, 0},
		{100, 40, 2, 20. / 101},
		{100, 0, 2, 100. / 101},
		{100, 90, 1.1, 1. / 101},
		{9, 0, 2, 0},
		{10, 0, 2, 10. / 11},
	} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("R=%d,A=%d,K=%v,plain=%v", c.ended, c.accepted, c.k, plain), func(t *testing.T) {
				var th throttle
				ad := adaptive(c.k)
				ad.Plain = plain
				for i := range c.ended {
					th.done(ad, at(0), i < c.accepted, true)
				}
				requests, accepts, p := th.snapshot(ad, at(0))
				require.Equal(t, float64(c.ended), requests)
				require.Equal(t, float64(c.accepted), accepts)
				require.InDelta(t, c.want, p, 1e-9)
			})
		}
	}
}

// 4. A fresh throttle whose first nine attempts all fail refuses none of the
// first ten.
func TestProperty04FirstFailures(t *testing.T) {
	for _, gap := range []time.Duration{0, 10 * time.Millisecond, time.Second} {
		var th throttle
		ad := adaptive(0)
		for i := range 10 {
			require.True(t, th.attempt(ad, at(time.Duration(i)*gap), false), "attempt %d, %v apart", i, gap)
		}
	}
}

// 10. What was refused is forgotten after the window, whether anybody called or not.
func TestProperty10Forgetting(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	for range 1000 {
		th.done(ad, at(0), false, true)
	}
	_, _, p := th.snapshot(ad, at(time.Second))
	require.Greater(t, p, 0.99)
	require.False(t, th.idle(ad, at(time.Second)))
	now := at(121 * time.Second)
	_, _, p = th.snapshot(ad, now)
	require.Zero(t, p)
	require.True(t, th.idle(ad, now))
	for range 10 {
		require.True(t, th.attempt(ad, now, false))
	}
}

// 14. A thousand caller's cancels leave the counts and the share as they are.
func TestProperty14NeutralEnds(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	for i := range 100 {
		th.done(ad, at(0), i < 30, true)
	}
	require.True(t, th.throttling(ad, at(0)))
	requests, accepts, p := th.snapshot(ad, at(0))
	ok, _ := th.admit(ad, at(5*time.Second), Critical, false)
	require.True(t, ok, "some tokens have come by time")
	th.done(ad, at(5*time.Second), false, false)
	for range 1000 {
		ok, _ := th.admit(ad, at(5*time.Second), Critical, false)
		require.True(t, ok, "the token of a cancelled call comes back")
		th.sent(ad, at(5*time.Second))
		th.done(ad, at(5*time.Second), false, false)
	}
	r, a, q := th.snapshot(ad, at(5*time.Second))
	require.Equal(t, []float64{requests, accepts, p}, []float64{r, a, q})
}

// 22. A clock that steps back or jumps neither panics nor keeps a share from before.
func TestProperty22Clock(t *testing.T) {
	for _, step := range []time.Duration{-5 * time.Second, -time.Hour, time.Hour, -100 * 365 * 24 * time.Hour, 200 * 365 * 24 * time.Hour} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("step=%v,plain=%v", step, plain), func(t *testing.T) {
				var th throttle
				var bu budget
				ad := adaptive(0)
				ad.Plain = plain
				for i := range 3000 {
					now := at(time.Duration(i) * 10 * time.Millisecond)
					bu.first(now)
					bu.take(now, 0.1, false)
					th.attempt(ad, now, i%10 == 0)
				}
				_, _, p := th.snapshot(ad, at(30*time.Second))
				require.Positive(t, p)
				after := 30*time.Second + step
				if step.Abs() >= time.Hour {
					_, _, p = th.snapshot(ad, at(after))
					require.Zero(t, p, "the share is from before the step")
				}
				// A healthy backend from now on: after the lookback nothing is refused.
				refused := 0
				for i := range 8_000 {
					now := at(after + time.Duration(i)*20*time.Millisecond)
					bu.first(now)
					bu.tokens(now, 0.1, false)
					bu.take(now, 0.1, false)
					bu.giveBack(now)
					if !th.attempt(ad, now, true) && i > 7_500 && (!plain || step.Abs() >= time.Hour) { // the book's rule needs minutes
						refused++
					}
				}
				require.Zero(t, refused)
			})
		}
	}
}

// 21. Eight goroutines end calls, ask and recompute together: the sums are exact.
func TestProperty21Concurrency(t *testing.T) {
	workers, each := 8, 100_000
	if testing.Short() {
		each = 10_000
	}
	var th throttle
	ad := adaptive(0)
	th.done(ad, at(0), false, true)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				now := at(time.Duration(i) * time.Microsecond)
				th.done(ad, now, (i+w)%4 == 0, true)
				if i%256 == 0 {
					th.snapshot(ad, now)
				}
			}
		})
	}
	wg.Wait()
	requests, accepts, _ := th.snapshot(ad, at(time.Second))
	require.Equal(t, float64(workers*each+1), requests)
	require.Equal(t, float64(workers*each/4), accepts)
}
