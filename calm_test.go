package comity

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// window is a base with a fixed window of 10 s from its first call, which says how
// much of it is left.
type window10 struct {
	limit int

	mu      sync.Mutex
	began   time.Time
	spent   int
	calls   int
	refused int
	break9  int // this call is refused, whatever is left
}

func (w *window10) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond)
	w.mu.Lock()
	now := time.Now()
	if w.began.IsZero() || now.Sub(w.began) >= 10*time.Second {
		w.began, w.spent = now, 0
	}
	w.calls++
	res := &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody}
	rest := w.began.Add(10 * time.Second).Sub(now)
	switch {
	case w.calls == w.break9 || w.spent >= w.limit:
		w.refused++
		res.StatusCode = 429
		res.Header.Set("Retry-After", fmt.Sprint(int((rest+time.Second-1)/time.Second)))
	default:
		w.spent++
	}
	res.Header.Set("RateLimit", fmt.Sprintf(`"w";r=%d;t=%d`, w.limit-w.spent, (rest+time.Second-1)/time.Second))
	res.Header.Set("RateLimit-Policy", fmt.Sprintf(`"w";q=%d;w=10`, w.limit))
	w.mu.Unlock()
	time.Sleep(time.Millisecond)
	return res, nil
}

// run makes calls from 32 workers, and returns the pacer that they went through.
func runCalm(t *testing.T, rt *Transport, calls int) *pacer {
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range calls / 32 {
				if err := callHost(t, rt, "a.example"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	d := rt.registry.pin(destKey{name: "a.example"})
	require.NotNil(t, d)
	d.unpin()
	return &d.pacer
}

func TestBusyDestinationNeedsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, base := range []http.RoundTripper{&window10{limit: 1 << 30}, tripFunc(func(*http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Millisecond)
			return &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody}, nil
		})} {
			rt, err := New(base, Config{})
			require.NoError(t, err)
			const calls = 32 * 1000
			p := runCalm(t, rt, calls)
			require.NotNil(t, p.calm.Load())
			require.Positive(t, p.calm.Load().left.Load()+p.calm.Load().booked, "it was calm lately")
			s := rt.Destinations()[0]
			require.Zero(t, s.InFlight)
			require.Equal(t, uint64(calls), p.sends, "every call is booked once")
			require.InDelta(t, calls, s.Requests, calls/100)
			for _, q := range s.Quotas {
				require.InDelta(t, 1<<30-calls, q.Remaining, calls/10)
			}
		}
	})
}

func TestCalmStaysInsideAReportedQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &window10{limit: 20_000}
		rt, err := New(base, Config{Policies: map[string]Policy{"": {MaxWait: Forever}}})
		require.NoError(t, err)
		start := time.Now()
		runCalm(t, rt, 32*2500)
		require.LessOrEqual(t, time.Since(start), 45*time.Second, "four windows")
		require.LessOrEqual(t, base.refused, 40, "refused of 80,000")
	})
}

func TestRefusalEndsTheCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &window10{limit: 1 << 30, break9: 20_000}
		rt, err := New(base, Config{})
		require.NoError(t, err)
		start := time.Now()
		p := runCalm(t, rt, 32*1000)
		require.Equal(t, 1, base.refused)
		require.GreaterOrEqual(t, time.Since(start), 7*time.Second, "everybody heeded the Retry-After")
		require.Equal(t, uint64(32*1000+1), p.sends)
		require.Zero(t, p.inFlight)
		require.Zero(t, p.flying)
	})
}

func TestHoldEndsTheCalmAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, err := New(&window10{limit: 1 << 30}, Config{Policies: map[string]Policy{"": {MaxWait: -1}}})
		require.NoError(t, err)
		p := runCalm(t, rt, 32*500)
		require.Positive(t, p.calm.Load().left.Load())
		rt.Hold("a.example", time.Now().Add(time.Minute))
		require.ErrorIs(t, callHost(t, rt, "a.example"), ErrThrottled)
		rt.Hold("a.example", time.Time{})
		require.NoError(t, callHost(t, rt, "a.example"))

		runCalm(t, rt, 32*500)
		require.NoError(t, rt.SetPolicies(map[string]Policy{"": {MaxWait: -1, Limits: []Limit{{N: 1, Per: time.Minute}}}}))
		require.NoError(t, callHost(t, rt, "a.example"))
		require.ErrorIs(t, callHost(t, rt, "a.example"), ErrThrottled)
	})
}

// A try that is used again must not remember anything of the call before.
func TestTryUsedAgainIsClean(t *testing.T) {
	rt, err := New(instant{}, Config{})
	require.NoError(t, err)
	req, err := http.NewRequest(http.MethodGet, "http://a.example", nil)
	require.NoError(t, err)
	for range 2000 {
		_, err = rt.RoundTrip(req)
		require.NoError(t, err)
		a := tries.Get().(*try)
		require.Nil(t, a.root)
		require.Nil(t, a.turn.req)
		require.Equal(t, Attempt{N: a.N, Destination: a.Destination}, a.Attempt)
		require.False(t, a.left.Load())
		require.Zero(t, a.holds)
		require.False(t, a.marked || a.lent || a.told)
		require.Nil(t, a.again)
		require.Nil(t, a.own)
		require.Nil(t, a.value)
		require.Empty(t, a.entered)
		k := &a.turn
		require.False(t, k.bound || k.placed || k.airborne || k.ramped || k.scout || k.again)
		require.Zero(t, k.seq+k.num)
		require.Empty(t, k.charges)
		require.Empty(t, k.globals)
		require.Empty(t, k.spent)
		require.Nil(t, k.suspect)
		require.Nil(t, k.calm)
		require.Zero(t, k.waited)
		tries.Put(a)
	}
}
