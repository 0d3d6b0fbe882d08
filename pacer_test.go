package comity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// testPolicy returns a policy made ready with limits.
func testPolicy(p Policy) *policy {
	pol := newPolicy(p, "x", nil)
	return pol
}

// testTurn returns a turn for one call under pol.
func testTurn(pol *policy) *turn {
	k := &turn{by: waits{}, pol: pol, crit: Critical, maxWait: pol.MaxWait}
	k.price()
	return k
}

func TestCancelledWaitersCostNothing(t *testing.T) {
	for _, alg := range []Algorithm{TokenBucket, SlidingLog} {
		t.Run(alg.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := NewPacer(must(NewLimiter(Limit{N: 1, Per: time.Second, Algorithm: alg})))
				require.NoError(t, p.Wait(context.Background(), 1))
				ctx, cancel := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				for range 1000 {
					wg.Go(func() {
						if err := p.Wait(ctx, 1); !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				cancel()
				wg.Wait()
				start := time.Now()
				require.NoError(t, p.Wait(context.Background(), 1))
				require.Equal(t, time.Second, time.Since(start))
			})
		})
	}
}

func TestWaitFailsAtOnceBeyondDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPacer(must(NewLimiter(PerMinute(1))))
		require.NoError(t, p.Wait(context.Background(), 1))
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := p.Wait(ctx, 1)
		require.ErrorIs(t, err, ErrThrottled)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, time.Since(start))
		require.Equal(t, `comity: limiter 0: next call in 1m0s, context ends in 1s`, err.Error())
	})
}

func TestHoldRefusesThoseWhoCannotWaitForItWhenItIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPacer(must(NewLimiter(PerSecond(1))))
		require.NoError(t, p.Wait(context.Background(), 1))
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		errs := make(chan error, 1)
		go func() { errs <- p.Wait(ctx, 1) }()
		synctest.Wait()
		start := time.Now()
		p.Hold(start.Add(5 * time.Second))
		err := <-errs
		require.Zero(t, time.Since(start))
		var te *ThrottledError
		require.ErrorAs(t, err, &te)
		require.Equal(t, ReasonHeld, te.Reason)
		require.Equal(t, 5*time.Second, te.RetryAfter)
		p.Hold(time.Time{})
		require.Equal(t, start.Add(time.Second), p.Next(start, 1).At)
	})
}

func TestRampDoublesInARoundTripAfterAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pol := testPolicy(Policy{MaxWait: Forever})
		p := &pacer{name: "x"}
		k := testTurn(pol)
		_, err := p.acquire(context.Background(), k, time.Now())
		require.NoError(t, err)
		start := time.Now()
		r := p.learn(k, &answer{sent: start, now: start, verdict: Limited, status: 429, advice: &Advice{RetryAfter: 3 * time.Second}})
		p.leave(k, k.pol.Delay, start)
		require.True(t, r.held)
		require.True(t, r.back)
		var mu sync.Mutex
		var at []time.Duration
		flying, peak := 0, map[int]int{}
		for range 500 {
			go func() {
				k := testTurn(pol)
				now, err := p.acquire(context.Background(), k, time.Now())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				at = append(at, now.Sub(start))
				flying++
				rt := int(now.Sub(at0(start, r.until.from(now))) / (100 * time.Millisecond))
				peak[rt] = max(peak[rt], flying)
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				flying--
				mu.Unlock()
				p.learn(k, &answer{sent: now, now: time.Now(), verdict: Accepted, status: 200, advice: &Advice{RetryAfter: -1}})
				p.leave(k, k.pol.Delay, time.Now())
			}()
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, at, 500)
		for _, d := range at {
			require.GreaterOrEqual(t, d, 3*time.Second)
		}
		for i := 1; i < 8; i++ {
			require.LessOrEqual(t, peak[i], 2*max(peak[i-1], 1), "round trip %d: %v", i, peak)
		}
		require.Equal(t, 1, peak[0])
	})
}

func at0(start, until time.Time) time.Time { return until }

func TestARaisedRateReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, fast := testPolicy(Policy{MaxWait: Forever, Limits: []Limit{PerHour(1)}}), testPolicy(Policy{MaxWait: Forever, Limits: []Limit{PerSecond(100)}})
		p := &pacer{name: "x"}
		k := testTurn(slow)
		_, err := p.acquire(context.Background(), k, time.Now())
		require.NoError(t, err)
		start := time.Now()
		done := make(chan time.Duration, 1)
		go func() {
			k := testTurn(slow)
			k.by = switched{fast}
			if _, err := p.acquire(context.Background(), k, time.Now()); err != nil {
				t.Error(err)
			}
			done <- time.Since(start)
		}()
		synctest.Wait()
		p.setRules(time.Now(), []*policy{fast})
		require.LessOrEqual(t, <-done, 10*time.Millisecond)
	})
}

type switched struct{ pol *policy }

func (switched) waiting(time.Duration, Reason) {}
func (s switched) repolicy() *policy           { return s.pol }

func TestManyDestinationsShareTheLimitsOfAConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cm := newCommons([]Limit{PerSecond(200)})
		const dests = 100
		counts := make([]int, dests)
		worst := make([]time.Duration, dests)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for d := range dests {
			p := &pacer{name: fmt.Sprint(d)}
			pol := newPolicy(Policy{MaxWait: Forever}, fmt.Sprint(d), cm)
			var mu sync.Mutex
			for range 4 {
				wg.Go(func() {
					for {
						k := testTurn(pol)
						start := time.Now()
						now, err := p.acquire(ctx, k, start)
						if err != nil {
							return
						}
						mu.Lock()
						counts[d]++
						worst[d] = max(worst[d], now.Sub(start))
						mu.Unlock()
						p.learn(k, &answer{sent: now, now: now, verdict: Accepted, status: 200, advice: &Advice{RetryAfter: -1}})
						p.leave(k, k.pol.Delay, now)
					}
				})
			}
		}
		time.Sleep(20 * time.Second)
		cancel()
		wg.Wait()
		sum := 0
		for d := range dests {
			sum += counts[d]
			require.InDelta(t, 40, counts[d], 8, "destination %d", d)
		}
		require.InDelta(t, 4000, sum, 2)
		t.Logf("asks %d grants %d", cm.asks, cm.grants)
		require.LessOrEqual(t, float64(cm.asks)/float64(cm.grants), 2.05)
		// Four callers take turns at each destination: a fair turn is 0.5 s, four of them 2 s.
		for d := range dests {
			require.LessOrEqual(t, worst[d], 4*500*time.Millisecond*3/2, "destination %d", d)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
