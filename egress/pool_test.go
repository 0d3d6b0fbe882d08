package egress_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/egress"
)

// fill takes n places.
func fill(t *testing.T, g comity.Gate, n int, c comity.Criticality) {
	for range n {
		require.NoError(t, g.Enter(attempt(context.Background(), c)))
	}
}

func name(g comity.Gate) string { return g.(fmt.Stringer).String() }

func TestBulkheadIsOneCapForAllDestinations(t *testing.T) {
	b := &egress.Bulkhead{Max: 3}
	x, y := b.NewGate("x"), b.NewGate("y")
	require.Equal(t, "bulkhead 3", name(x))
	fill(t, x, 2, 0)
	fill(t, y, 1, 0)
	require.EqualError(t, x.Enter(attempt(context.Background(), 0)), "full")
	require.EqualError(t, y.Enter(attempt(context.Background(), comity.CriticalPlus)), "full")
	x.Leave(attempt(context.Background(), 0))
	fill(t, y, 1, 0)
}

// What one destination fills up, the others do not miss: with bulkheads of their
// own, and with a cap of their own in front of a bulkhead they share.
func TestASlowDependencyTakesNoPlaceOfAnother(t *testing.T) {
	shared := &egress.Bulkhead{Max: 30}
	adaptive := egress.Concurrency{Initial: 10, Max: 10, Target: time.Second}
	for name, guards := range map[string]func() []comity.Guard{
		"bulkheads":   func() []comity.Guard { return []comity.Guard{&egress.Bulkhead{Max: 10}} },
		"concurrency": func() []comity.Guard { return []comity.Guard{adaptive} },
		"both":        func() []comity.Guard { return []comity.Guard{adaptive, shared} },
	} {
		t.Run(name, func(t *testing.T) {
			enter := func(dest string) func() error {
				var gates []comity.Gate
				for _, guard := range guards() {
					gates = append(gates, guard.NewGate(dest))
				}
				return func() error {
					for _, g := range gates {
						if err := g.Enter(attempt(context.Background(), 0)); err != nil {
							return err
						}
					}
					return nil
				}
			}
			slow, fast := enter("slow"), enter("fast")
			for range 1000 { // none of which ever ends
				_ = slow()
			}
			for range 10 {
				require.NoError(t, fast())
			}
		})
	}
}

func TestSharesKeepPlacesForMoreCriticalCalls(t *testing.T) {
	shares := egress.Shares{comity.Sheddable: 0.5, comity.SheddablePlus: 0.8}
	for _, g := range []comity.Gate{
		(&egress.Bulkhead{Max: 10, Shares: shares}).NewGate("x"),
		egress.Concurrency{Target: time.Second, Shares: shares}.NewGate("x"),
	} {
		ctx := context.Background()
		fill(t, g, 5, comity.Sheddable)
		require.Error(t, g.Enter(attempt(ctx, comity.Sheddable)))
		fill(t, g, 3, comity.SheddablePlus)
		require.Error(t, g.Enter(attempt(ctx, comity.SheddablePlus)))
		fill(t, g, 1, 0)
		fill(t, g, 1, comity.CriticalPlus)
		require.Error(t, g.Enter(attempt(ctx, comity.CriticalPlus)))
	}
}

// A small cap leaves every class that has a part at all one place.
func TestASmallShareIsOnePlace(t *testing.T) {
	b := &egress.Bulkhead{Max: 3, Shares: egress.Shares{comity.Sheddable: 0.1, comity.SheddablePlus: 0}}
	g := b.NewGate("x")
	require.Error(t, g.Enter(attempt(context.Background(), comity.SheddablePlus)))
	fill(t, g, 1, comity.Sheddable)
	require.Error(t, g.Enter(attempt(context.Background(), comity.Sheddable)))
}

func TestWaitersGoFirstInFirstOutWithinTheirCriticality(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := (&egress.Bulkhead{Max: 1, Wait: time.Minute}).NewGate("x")
		fill(t, g, 1, 0)
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for i, c := range []comity.Criticality{comity.Sheddable, comity.Critical, 0, comity.CriticalPlus, comity.Sheddable} {
			wg.Go(func() {
				a := attempt(t.Context(), c)
				require.NoError(t, g.Enter(a))
				mu.Lock()
				order = append(order, fmt.Sprint(i))
				mu.Unlock()
				g.Leave(ended(a, time.Millisecond, comity.Accepted))
			})
			synctest.Wait()
		}
		g.Leave(attempt(context.Background(), 0))
		wg.Wait()
		require.Equal(t, []string{"3", "1", "2", "0", "4"}, order)
	})
}

func TestWaitEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := (&egress.Bulkhead{Max: 1, Wait: 2 * time.Second}).NewGate("x")
		fill(t, g, 1, 0)
		start := time.Now()
		require.EqualError(t, g.Enter(attempt(t.Context(), 0)), "full for 2s")
		require.Equal(t, 2*time.Second, time.Since(start))

		// Given up just before its context ends, so that net/http says nothing.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		err := g.Enter(attempt(ctx, 0))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 999*time.Millisecond, time.Since(start))
		require.NoError(t, ctx.Err())

		boom := errors.New("boom")
		canceled, give := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { give(boom) })
		start = time.Now()
		require.ErrorIs(t, g.Enter(attempt(canceled, 0)), boom)
		require.Equal(t, time.Second, time.Since(start))

		g.Leave(attempt(context.Background(), 0))
		fill(t, g, 1, 0) // those who gave up have left nothing behind
	})
}

func TestGrowingLimitLetsWaitersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := egress.Concurrency{Initial: 1, Target: time.Second, Wait: time.Minute}.NewGate("x")
		first := attempt(t.Context(), 0)
		require.NoError(t, g.Enter(first))
		var in atomic.Int64
		for range 3 {
			go func() {
				if g.Enter(attempt(t.Context(), 0)) == nil {
					in.Add(1)
				}
			}()
		}
		synctest.Wait()
		g.Leave(ended(first, time.Millisecond, comity.Accepted))
		synctest.Wait()
		require.Equal(t, int64(2), in.Load(), "one for the place, one for the limit that is 2 now")
		time.Sleep(time.Hour)
	})
}

func TestShadowCountsAndRefusesNothing(t *testing.T) {
	b := &egress.Bulkhead{Max: 1, Shadow: true}
	g := b.NewGate("x")
	fill(t, g, 4, 0)
	require.Equal(t, "bulkhead 1 (shadow, 3 refused)", name(g))
	c := egress.Concurrency{Initial: 2, Target: time.Second, Shadow: true}.NewGate("x")
	fill(t, c, 4, 0)
	require.Equal(t, "concurrency 2 (shadow, 2 refused)", name(c))
}

func TestInvalidGuardsRefuseAndSayWhy(t *testing.T) {
	for _, c := range []struct {
		guard comity.Guard
		want  string
	}{
		{&egress.Bulkhead{}, "egress: Bulkhead: Max: 0 is not above 0"},
		{&egress.Bulkhead{Max: 1, Shares: egress.Shares{comity.Critical: 2}}, "egress: Bulkhead: Shares: 2 of critical is not a part of 1"},
		{egress.Concurrency{}, "egress: Concurrency: Target: 0s is not above 0"},
		{egress.Concurrency{Target: 1, Min: 5, Max: 4}, "egress: Concurrency: Initial, Min, Max: 4, 5, 4 are not 1 <= Min <= Initial <= Max"},
		{egress.Concurrency{Target: 1, Max: -1}, "egress: Concurrency: Initial, Min, Max: -1, -1, -1 are not 1 <= Min <= Initial <= Max"},
	} {
		require.EqualError(t, c.guard.NewGate("x").Enter(attempt(context.Background(), 0)), c.want)
	}
}

// 14. What callers cancel teaches nothing and leaves no place taken.
func TestProperty14NeutralEndsLeaveTheLimit(t *testing.T) {
	g := egress.Concurrency{Target: 100 * time.Millisecond}.NewGate("x")
	for range 20 {
		round(g, 10, 30)
	}
	was := limit(t, g)
	for i := range 1000 {
		a := attempt(context.Background(), 0)
		require.NoError(t, g.Enter(a))
		g.Leave(ended(a, time.Second, []comity.Verdict{comity.Canceled, comity.Unsent}[i%2]))
	}
	require.Equal(t, was, limit(t, g))
	fill(t, g, was, 0)
	require.Error(t, g.Enter(attempt(context.Background(), 0)))
}

// After 100,000 calls that end in every way, from many goroutines at once, every
// place is free again, and the cap never was exceeded.
func TestNoPlaceLeaks(t *testing.T) {
	ops := 100_000
	if testing.Short() {
		ops = 10_000
	}
	synctest.Test(t, func(t *testing.T) {
		shares := egress.Shares{comity.Sheddable: 0.5}
		bulkhead := &egress.Bulkhead{Max: 12, Wait: 20 * time.Millisecond, Shares: shares}
		adaptive := egress.Concurrency{Initial: 8, Max: 8, Target: 5 * time.Millisecond, Wait: 10 * time.Millisecond, Shares: shares}
		a, b, c := adaptive.NewGate("x"), bulkhead.NewGate("x"), bulkhead.NewGate("y")
		var mu sync.Mutex
		var inA, inB int
		count := func(n *int, d int) int {
			mu.Lock()
			defer mu.Unlock()
			*n += d
			return *n
		}
		var wg sync.WaitGroup
		const workers = 40
		for w := range uint64(workers) {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(w, 7))
				for range ops / workers {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.Int64N(int64(50*time.Millisecond))))
					if rnd.IntN(4) == 0 {
						stop := time.AfterFunc(time.Duration(rnd.Int64N(int64(10*time.Millisecond))), cancel)
						defer stop.Stop()
					}
					at := attempt(ctx, comity.Criticality(rnd.IntN(5)-2))
					last, gates := b, []comity.Gate{a}
					if rnd.IntN(2) == 0 {
						last, gates = c, nil
					}
					entered := 0
					for _, g := range append(gates, last) {
						if g.Enter(at) != nil {
							break
						}
						entered++
						if g == a {
							require.LessOrEqual(t, count(&inA, 1), 8)
						} else {
							require.LessOrEqual(t, count(&inB, 1), 12)
						}
					}
					time.Sleep(time.Duration(rnd.Int64N(int64(5 * time.Millisecond))))
					ended(at, time.Duration(rnd.Int64N(int64(10*time.Millisecond))), comity.Verdict(rnd.IntN(6)))
					for i := entered - 1; i >= 0; i-- {
						g := append(gates, last)[i]
						if g == a {
							count(&inA, -1)
						} else {
							count(&inB, -1)
						}
						g.Leave(at)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		fill(t, b, 12, 0)
		require.EqualError(t, c.Enter(attempt(context.Background(), 0)), "full for 20ms")
		n := limit(t, a)
		fill(t, a, n, 0)
		require.EqualError(t, a.Enter(attempt(context.Background(), 0)), "full for 10ms")
	})
}

func TestEnterAndLeaveDoNotAllocate(t *testing.T) {
	for _, g := range []comity.Gate{
		(&egress.Bulkhead{Max: 1}).NewGate("x"), egress.Concurrency{Target: time.Second}.NewGate("x"),
	} {
		a := ended(attempt(context.Background(), 0), time.Millisecond, comity.Accepted)
		a.Sent = time.Now()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = g.Enter(a)
			g.Leave(a)
		}))
	}
}
