package comity_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// The pacing clauses of the contract, P1 to P9. Those about any round tripper are
// in comitytest.TestRoundTripper.

func TestFullPolicyKeepsTheContract(t *testing.T) {
	comitytest.TestRoundTripper(t, func(base http.RoundTripper) http.RoundTripper {
		return transport(t, base, comity.Config{
			Policies: map[string]comity.Policy{"": {
				Limits: []comity.Limit{
					{N: 1000, Per: time.Second, Burst: 1000},
					{Name: "keyed", N: 900, Per: time.Second, Burst: 900, Algorithm: comity.GCRA,
						Key: func(r *http.Request) string { return r.Method }},
					{N: 5000, Per: time.Minute, Algorithm: comity.SlidingLog},
				},
				MaxInFlight: 8,
				MaxWaiting:  100,
				Delay:       comity.Delay{Min: 100 * time.Microsecond, Max: time.Millisecond, Factor: 0.1, Jitter: 0.5},
				Spread:      0.5,
				Retry:       comity.Retry{Max: 3, Base: 200 * time.Millisecond, Timeout: time.Minute},
				Guards:      []comity.Guard{comity.Adaptive{K: 3}, placesGuard(8)},
			}},
			Limits: []comity.Limit{{N: 2000, Per: time.Second, Burst: 2000}},
			Trace:  &comity.Trace{Sent: func(*comity.Attempt) {}, Done: func(*comity.Attempt) {}},
		})
	})
}

// placesGuard is a gate of so many places, as a user may write one.
type placesGuard int

func (n placesGuard) NewGate(string) comity.Gate { return make(places, int(n)) }

type places chan struct{}

func (p places) Enter(a *comity.Attempt) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-a.Request.Context().Done():
		return a.Request.Context().Err()
	}
}

func (p places) Leave(*comity.Attempt) { <-p }

// ok200 is a base that records when it was called and what for.
type ok200 struct {
	mu    sync.Mutex
	at    []time.Time
	paths []string
}

func (b *ok200) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = append(b.at, time.Now())
	b.paths = append(b.paths, r.URL.Path)
	if r.Body != nil {
		r.Body.Close()
	}
	return answer(200, ""), nil
}

// order returns the paths in the order of their calls.
func (b *ok200) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.paths)
}

func (b *ok200) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.at)
}

// crowd sends n calls at once, in the order of their numbers, and waits for them.
func crowd(t *testing.T, rt http.RoundTripper, n int, url string) (failed int) {
	t.Helper()
	var mu sync.Mutex
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			res, err := rt.RoundTrip(get(t, t.Context(), fmt.Sprintf("%s/%d", url, i)))
			if err != nil {
				mu.Lock()
				failed++
				mu.Unlock()
				return
			}
			res.Body.Close()
		})
		synctest.Wait()
	}
	callers.Wait()
	return failed
}

func TestP1SendsInAnyWindow(t *testing.T) {
	for _, l := range []comity.Limit{
		{N: 10, Per: time.Second},
		{N: 10, Per: time.Second, Burst: 5},
		{N: 10, Per: time.Second, Burst: 5, Algorithm: comity.GCRA},
		{N: 10, Per: time.Second, Algorithm: comity.LeakyBucket},
		{N: 7, Per: time.Second, Burst: 1}, // no whole number of nanoseconds apart
		{N: 3, Per: 10 * time.Millisecond, Burst: 2, Algorithm: comity.GCRA},
	} {
		t.Run(l.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &ok200{}
				require.Zero(t, crowd(t, transport(t, base, every(comity.Policy{Limits: []comity.Limit{l}})), 60, "http://a.example"))
				burst, gap := max(l.Burst, 1), l.Per/time.Duration(l.N)
				for i, from := range base.at {
					for j := i; j < len(base.at); j++ {
						if most := burst + int(base.at[j].Sub(from)/gap); j-i+1 > most {
							t.Fatalf("%d calls within %s, at most %d are allowed", j-i+1, base.at[j].Sub(from), most)
						}
					}
				}
				// Nor is it slower than the limit: each wait ends with its unit.
				ideal := time.Duration(60-burst) * l.Per / time.Duration(l.N)
				require.InDelta(t, ideal.Seconds(), base.at[59].Sub(base.at[0]).Seconds(), ideal.Seconds()/1000+1e-6)
			})
		})
	}
	for _, algorithm := range []comity.Algorithm{comity.FixedWindow, comity.SlidingLog, comity.SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &ok200{}
				l := comity.Limit{N: 10, Per: time.Second, Algorithm: algorithm}
				require.Zero(t, crowd(t, transport(t, base, every(comity.Policy{Limits: []comity.Limit{l}})), 60, "http://a.example"))
				for i, from := range base.at {
					n := 0
					for _, at := range base.at[i:] {
						same := at.Sub(from) < time.Second
						if algorithm == comity.FixedWindow {
							same = at.Truncate(time.Second).Equal(from.Truncate(time.Second))
						}
						if same {
							n++
						}
					}
					if most := 10; n > most && algorithm != comity.SlidingWindow || n > 2*most {
						t.Fatalf("%d calls in the window from %s", n, from)
					}
				}
			})
		})
	}
}

func TestP2CancelReturnsAtOnceAndIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &ok200{}
		rt := transport(t, base, every(comity.Policy{Limits: []comity.Limit{comity.Every(time.Minute)}}))
		require.Zero(t, crowd(t, rt, 1, "http://a.example"))
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(cause) })
		began := time.Now()
		_, err := rt.RoundTrip(get(t, ctx, "http://a.example/"))
		require.ErrorIs(t, err, cause)
		require.NotErrorIs(t, err, comity.ErrThrottled)
		require.Equal(t, 5*time.Second, time.Since(began))
		time.Sleep(time.Hour)
		require.Equal(t, 1, base.count())
	})
}

func TestP3TooLittleTimeFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &ok200{}
		rt := transport(t, base, every(comity.Policy{Limits: []comity.Limit{comity.Every(time.Minute)}}))
		require.Zero(t, crowd(t, rt, 1, "http://a.example"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := rt.RoundTrip(get(t, ctx, "http://a.example/"))
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, comity.ErrThrottled)
		var refused *comity.ThrottledError
		require.ErrorAs(t, err, &refused)
		require.True(t, refused.Timeout())
		require.Equal(t, comity.ReasonLimit, refused.Reason)
		require.Equal(t, time.Minute, refused.RetryAfter)
		// Nothing was spent: the next one goes when the first would have gone.
		require.Zero(t, crowd(t, rt, 1, "http://a.example"))
		require.Equal(t, time.Minute, base.at[1].Sub(base.at[0]))
	})
}

// Told at once that it can go just in time, a call does go: the last of those
// that MaxWait admits is not refused after all at the end of its wait.
func TestP3CallWhoseTurnIsTheEndOfItsWaitGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &ok200{}
		rt := transport(t, base, every(comity.Policy{Limits: []comity.Limit{comity.PerSecond(10)}, MaxWait: 2 * time.Second}))
		began := time.Now()
		require.Equal(t, 40-21, crowd(t, rt, 40, "http://a.example"))
		require.Equal(t, 21, base.count())
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

func TestP4WhoGivesUpGivesTheTurnBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &ok200{}
		rt := transport(t, base, every(comity.Policy{Limits: []comity.Limit{comity.PerSecond(1)}}))
		require.Zero(t, crowd(t, rt, 1, "http://a.example"))
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 30 {
			callers.Go(func() {
				_, err := rt.RoundTrip(get(t, ctx, "http://a.example/given-up"))
				require.ErrorIs(t, err, context.Canceled)
			})
			synctest.Wait()
		}
		last := make(chan time.Duration)
		began := time.Now()
		go func() {
			res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/last"))
			require.NoError(t, err)
			res.Body.Close()
			last <- time.Since(began)
		}()
		synctest.Wait()
		cancel()
		require.LessOrEqual(t, <-last, time.Second)
		callers.Wait()
		require.Equal(t, 2, base.count())
	})
}

func TestP5FirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &ok200{}
		rt := transport(t, base, every(comity.Policy{Limits: []comity.Limit{comity.PerSecond(10)}}))
		go func() { // newcomers at the very instants a unit becomes free
			for i := range 40 {
				time.Sleep(100 * time.Millisecond)
				go func() {
					res, err := rt.RoundTrip(get(t, t.Context(), fmt.Sprintf("http://a.example/%d", 100+i)))
					if err == nil {
						res.Body.Close()
					}
				}()
			}
		}()
		require.Zero(t, crowd(t, rt, 50, "http://a.example"))
		want := make([]string, 50)
		for i := range want {
			want[i] = fmt.Sprintf("/%d", i)
		}
		require.Equal(t, want, base.order()[:50])
		time.Sleep(time.Minute)
		newcomers := base.order()[50:]
		require.Len(t, newcomers, 40)
		require.True(t, slices.IsSorted(newcomers), newcomers)
	})
}

func TestP6OneBudgetWhateverTheSpelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &ok200{}
		rt := transport(t, base, every(comity.Policy{Limits: []comity.Limit{comity.Every(time.Second)}}))
		spellings := []string{"http://a.example/1", "http://A.EXAMPLE/2", "http://a.example:80/3", "http://a.example./4", "http://user@a.example/5"}
		for _, url := range spellings {
			res, err := rt.RoundTrip(get(t, t.Context(), url))
			require.NoError(t, err)
			res.Body.Close()
		}
		require.Equal(t, time.Duration(len(spellings)-1)*time.Second, base.at[len(spellings)-1].Sub(base.at[0]))
		began := time.Now()
		for _, url := range []string{"http://b.example/", "http://a.example:8080/", "http://a.example.org/", "http://sub.a.example/"} {
			res, err := rt.RoundTrip(get(t, t.Context(), url))
			require.NoError(t, err)
			res.Body.Close()
		}
		require.Zero(t, time.Since(began), "hosts are apart")
		require.Len(t, rt.Destinations(), 5)
	})
}

func TestP7BodyOfWhatIsNotSentIsClosed(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	busy := func(rt *comity.Transport, p string) { rt.Hold("a.example", time.Now().Add(time.Hour)) }
	for _, c := range []struct {
		name   string
		policy comity.Policy
		before func(rt *comity.Transport, url string)
		ctx    context.Context
		reason comity.Reason
	}{
		{name: "held", policy: comity.Policy{MaxWait: time.Second}, before: busy, reason: comity.ReasonHeld},
		{name: "no wait", policy: comity.Policy{MaxWait: -1}, before: busy, reason: comity.ReasonHeld},
		{name: "queue", policy: comity.Policy{MaxWaiting: -1, MaxWait: comity.Forever}, before: busy, reason: comity.ReasonQueue},
		{name: "cost", policy: comity.Policy{Limits: []comity.Limit{{N: 1, Per: time.Second, Burst: 2, Cost: func(*http.Request) int { return 9 }}}},
			reason: comity.ReasonCost},
		{name: "guard", policy: comity.Policy{Guards: []comity.Guard{refusal{}}}, reason: comity.ReasonGuard},
		{name: "canceled", ctx: over},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &ok200{}
				rt := transport(t, base, every(c.policy))
				if c.before != nil {
					c.before(rt, "http://a.example/")
				}
				ctx := c.ctx
				if ctx == nil {
					ctx = t.Context()
				}
				for _, again := range []bool{true, false} {
					b := &watchedBody{Reader: strings.NewReader("content")}
					req := request(t, ctx, "POST", "http://a.example/", "")
					req.Body, req.ContentLength = b, 7
					if again {
						req.GetBody = func() (io.ReadCloser, error) { panic("a copy for a call that is not sent") }
					}
					_, err := rt.RoundTrip(req)
					require.Error(t, err)
					require.Equal(t, c.reason != "", errors.Is(err, comity.ErrThrottled), err)
					var refused *comity.ThrottledError
					if errors.As(err, &refused) {
						require.Equal(t, c.reason, refused.Reason)
					}
					require.Equal(t, 1, b.closes)
				}
				require.Zero(t, base.count())
				for _, d := range rt.Destinations() {
					require.Zero(t, d.InFlight)
					require.Zero(t, d.Waiting)
				}
			})
		})
	}
}

// refusal is a guard that lets nothing pass.
type refusal struct{}

func (refusal) NewGate(string) comity.Gate  { return refusal{} }
func (refusal) Enter(*comity.Attempt) error { return errors.New("full") }
func (refusal) Leave(*comity.Attempt)       { panic("left by what never entered") }

func TestP8IdleTimeSavesUpNoMoreThanTheBurst(t *testing.T) {
	for _, algorithm := range []comity.Algorithm{comity.TokenBucket, comity.GCRA} {
		for _, burst := range []int{0, 1, 5} {
			t.Run(fmt.Sprintf("%v burst %d", algorithm, burst), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					base := &ok200{}
					rt := transport(t, base, every(comity.Policy{
						Limits: []comity.Limit{{N: 10, Per: time.Second, Burst: burst, Algorithm: algorithm}},
					}))
					require.Zero(t, crowd(t, rt, 1, "http://a.example"))
					time.Sleep(30 * 24 * time.Hour)
					began := time.Now()
					require.Zero(t, crowd(t, rt, 20, "http://a.example"))
					atOnce := 0
					for _, at := range base.at[1:] {
						if at.Equal(began) {
							atOnce++
						}
					}
					require.Equal(t, max(burst, 1), atOnce)
				})
			})
		}
	}
}

// resending is a base that sends each call n times, as net/http does on HTTP/2
// without telling anyone but httptrace.
type resending struct{ n int }

func (b resending) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	for range b.n {
		if err := context.Cause(r.Context()); err != nil {
			return nil, err
		}
		if trace != nil && trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{Reused: true})
		}
	}
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	res := answer(200, "")
	res.Proto, res.ProtoMajor, res.ProtoMinor = "HTTP/2.0", 2, 0
	return res, nil
}

func TestP9ResendsOfTheBaseCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport(t, resending{5}, every(comity.Policy{Limits: []comity.Limit{comity.Every(2 * time.Second)}}))
		began := time.Now()
		for range 3 {
			res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/"))
			require.NoError(t, err)
			res.Body.Close()
		}
		// 15 sends, 2 s apart; the first at once.
		require.GreaterOrEqual(t, time.Since(began), 14*2*time.Second)
	})
}
