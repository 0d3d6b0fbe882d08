package comity_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// A turn that comes just when the time to wait is up is taken.
func TestTurnAtTheEndOfMaxWaitIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(ok)
		rt := transport(t, s, every(comity.Policy{Limits: []comity.Limit{comity.PerSecond(1)}, MaxWait: time.Second}))
		accepted(t, rt, "/")
		time.Sleep(980 * time.Millisecond)
		accepted(t, rt, "/")
		require.NoError(t, rt.SetPolicies(map[string]comity.Policy{"": {Limits: []comity.Limit{comity.PerSecond(1)}, MaxWait: 980 * time.Millisecond}}))
		accepted(t, rt, "/")
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, s.times())
	})
}

// A wait that is known to end within the last millisecond before the deadline does
// not outlive it; one that ends later is refused at once.
func TestTurnInTheLastMillisecondBeforeTheDeadline(t *testing.T) {
	for _, c := range []struct {
		deadline time.Duration
		goes     bool
	}{
		{999900 * time.Microsecond, false},
		{1000100 * time.Microsecond, true},
		{1000900 * time.Microsecond, true},
		{1010 * time.Millisecond, true},
	} {
		t.Run(c.deadline.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(ok)
				s.trip = 0
				rt := transport(t, s, every(anyTime(comity.PerSecond(1))))
				accepted(t, rt, "/")
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				start := time.Now()
				_, err := call(t, rt, ctx, "/")
				if c.goes {
					require.NoError(t, err)
					require.Equal(t, time.Second, time.Since(start))
					return
				}
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.True(t, throttled(t, err).Timeout())
				require.Zero(t, time.Since(start))
			})
		})
	}
}

// Next answers for a call behind those that wait, also for one that is cheaper than
// they are.
func TestNextStandsBehindThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport(t, serve(ok), every(anyTime(comity.Limit{N: 10, Per: 10 * time.Second, Burst: 10})))
		for range 5 {
			accepted(t, rt, "/")
		}
		done := make(chan error, 1)
		go func() {
			ctx := comity.WithCall(context.Background(), comity.Call{Cost: comity.Cost{"requests": 10}})
			_, err := call(t, rt, ctx, "/")
			done <- err
		}()
		synctest.Wait()
		r := rt.Next(get(t, t.Context(), "http://a.example/"))
		require.Equal(t, comity.ReasonLimit, r.Reason)
		require.InDelta(t, 6, time.Until(r.At).Seconds(), 0.2) // 5 units for the 10, and one
		require.NoError(t, <-done)
	})
}

// Those who wait keep their order when policies change, whoever is first to ask
// under the new ones.
func TestSetPoliciesKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := comity.Limit{N: 1, Per: time.Hour, Algorithm: comity.SlidingLog}
		s := serve(ok)
		s.trip = 0
		rt := transport(t, s, every(anyTime(limit)))
		accepted(t, rt, "/0")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { _, _ = call(t, rt, context.Background(), fmt.Sprintf("/%d", i+1)) })
			synctest.Wait()
		}
		for n := 2; n <= 21; n++ {
			limit.N = n
			require.NoError(t, rt.SetPolicies(map[string]comity.Policy{"": anyTime(limit)}))
			synctest.Wait()
		}
		wg.Wait()
		for i, path := range s.seen() {
			require.Equal(t, fmt.Sprintf("/%d", i), path)
		}
	})
}

// Asking when a call could go in an hour's time changes nothing now.
func TestPacerNextLooksAheadWithoutChangingAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := comity.NewPacer(mustLimiter(t, comity.PerMinute(1)))
		require.NoError(t, p.Wait(t.Context(), 1))
		now := time.Now()
		p.Hold(now.Add(10 * time.Minute))
		require.Equal(t, now.Add(time.Hour), p.Next(now.Add(time.Hour), 1).At)
		r := p.Next(now, 1)
		require.Equal(t, now.Add(10*time.Minute), r.At)
		require.Equal(t, comity.ReasonHeld, r.Reason)
		p.Hold(time.Time{})
		require.Equal(t, now.Add(time.Minute), p.Next(now, 1).At)
	})
}

func mustLimiter(t testing.TB, l comity.Limit) comity.Limiter {
	t.Helper()
	lim, err := comity.NewLimiter(l)
	require.NoError(t, err)
	return lim
}

// A refusal that is about one call holds back that call and nobody else, and in the
// end its caller gets it.
func TestCallRefusedForItsOwnSakeStopsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(_ int, r *http.Request) *http.Response {
			if r.URL.Path == "/bad" {
				return answer(429, "", "Retry-After", "20")
			}
			return answer(200, "")
		})
		rt := transport(t, s, every(anyTime()))
		bad := make(chan int, 1)
		go func() {
			code, _ := call(t, rt, context.Background(), "/bad")
			bad <- code
		}()
		time.Sleep(time.Second)
		var mu sync.Mutex
		began, ended := []time.Duration(nil), []time.Duration(nil)
		var wg sync.WaitGroup
		for range 150 {
			for range 3 {
				wg.Go(func() {
					start := time.Now()
					accepted(t, rt, "/good")
					mu.Lock()
					began, ended = append(began, start.Sub(s.start)), append(ended, time.Since(s.start))
					mu.Unlock()
				})
				synctest.Wait()
			}
			time.Sleep(time.Second)
		}
		wg.Wait()
		require.Equal(t, 429, <-bad)
		var at []time.Duration
		for i, p := range s.seen() {
			if p == "/bad" {
				at = append(at, s.times()[i])
			}
		}
		require.Greater(t, len(at), 3)
		require.LessOrEqual(t, len(at), 7)
		// By the fourth refusal it is plain whom it is about. (What those before taught of
		// a rate may still slow the others down.)
		for i, d := range began {
			if d > at[3]+s.trip {
				require.Less(t, ended[i]-d, 10*time.Second, "begun at %s", d)
			}
		}
	})
}
