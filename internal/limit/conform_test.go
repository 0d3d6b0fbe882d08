package limit_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity/internal/limit"
)

// epoch is a whole second of the wall clock, where windows begin.
var epoch = time.Unix(1_700_000_000, 0)

func at(d time.Duration) time.Time { return epoch.Add(d) }

func take(t testing.TB, l limit.Limiter, now time.Duration, n int) time.Duration {
	t.Helper()
	d, err := l.Take(at(now), n)
	require.NoError(t, err)
	return d
}

// admits returns how many of tries calls of one unit pass at now.
func admits(t testing.TB, l limit.Limiter, now time.Duration, tries int) (n int) {
	t.Helper()
	for range tries {
		if take(t, l, now, 1) == 0 {
			n++
		}
	}
	return n
}

const ms = time.Millisecond

func TestBucketSpacesCallsWithoutBurst(t *testing.T) {
	l := limit.NewBucket(&limit.Rule{N: 10, Per: time.Second})
	require.Equal(t, 1, admits(t, l, 0, 3))
	require.Equal(t, 100*ms, take(t, l, 0, 1))
	require.Equal(t, time.Duration(1), take(t, l, 100*ms-1, 1))
	require.Zero(t, take(t, l, 100*ms, 5), "a cost above 1 passes an idle limit")
	require.Equal(t, 500*ms, take(t, l, 100*ms, 1), "and is paid off before the next call")
	require.Equal(t, limit.Forever, take(t, l, 100*ms, 11))
	require.Equal(t, time.Duration(0), take(t, l, 600*ms, 10))
}

func TestBucketHoldsBurst(t *testing.T) {
	l := limit.NewBucket(&limit.Rule{N: 10, Per: time.Second, Burst: 4})
	require.Equal(t, limit.Forever, take(t, l, 0, 5))
	require.Equal(t, 4, admits(t, l, 0, 9))
	require.Equal(t, 300*ms, take(t, l, 0, 3))
	l.Adjust(at(0), -3)
	require.Zero(t, take(t, l, 0, 3))
	l.Adjust(at(0), 20)
	require.Equal(t, 2100*ms, take(t, l, 0, 1))
	require.Zero(t, l.Free(at(2*time.Second)))
	require.InDelta(t, 1, l.Free(at(2100*ms)), 1e-9)
	require.False(t, l.Full(at(2400*ms-1)))
	require.True(t, l.Full(at(2400*ms)))
}

func TestLogRemembersEachCall(t *testing.T) {
	l := limit.NewLog(&limit.Rule{N: 3, Per: time.Second})
	require.Zero(t, take(t, l, 0, 1))
	require.Zero(t, take(t, l, 400*ms, 2))
	require.Equal(t, 500*ms, take(t, l, 500*ms, 1))
	require.Equal(t, 900*ms, take(t, l, 500*ms, 2))
	require.Equal(t, limit.Forever, take(t, l, 500*ms, 4))
	require.Zero(t, take(t, l, 1000*ms, 1))
	require.Equal(t, 3, l.Spent(at(1000*ms)))
	l.Adjust(at(1000*ms), -1)
	require.Equal(t, 400*ms, take(t, l, 1000*ms, 2))
	require.Equal(t, 401*ms, take(t, l, 999*ms, 2), "an earlier time is not credited")
	require.True(t, l.Full(at(1400*ms)))
}

// The figures below are those of the literature on each algorithm.

func TestSlidingWindowEstimate(t *testing.T) {
	l := limit.NewWindow(&limit.Rule{N: 10, Per: time.Second})
	require.Equal(t, 10, admits(t, l, 900*ms, 12))
	require.Equal(t, 1, admits(t, l, 1100*ms, 12))
	require.Equal(t, 4, admits(t, l, 1500*ms, 12))
	require.Equal(t, 10, admits(t, l, 3200*ms, 12))
}

func TestSlidingWindowSolvesItsWait(t *testing.T) {
	l := limit.NewWindow(&limit.Rule{N: 10, Per: time.Second})
	require.Equal(t, 10, admits(t, l, 900*ms, 10))
	require.Equal(t, 200*ms, take(t, l, 900*ms, 1), "a tenth of the next window")
	require.Equal(t, 1100*ms, take(t, l, 900*ms, 10))
	require.Equal(t, limit.Forever, take(t, l, 900*ms, 11))
	l.Adjust(at(1050*ms), -3) // given back in the window after
	require.Equal(t, 3, admits(t, l, 1050*ms, 9))
}

func TestGCRABurst(t *testing.T) {
	l := limit.NewGCRA(&limit.Rule{N: 5, Per: time.Second, Burst: 5})
	require.Equal(t, 5, admits(t, l, 0, 7))
	require.Equal(t, 200*ms, take(t, l, 0, 1))
	require.Equal(t, 1, admits(t, l, 200*ms, 3))
}

func TestFixedWindowAcrossAnEdge(t *testing.T) {
	l := limit.NewFixed(&limit.Rule{N: 5, Per: time.Second})
	require.Equal(t, 5, admits(t, l, 850*ms, 6))
	require.Equal(t, 150*ms, take(t, l, 850*ms, 1))
	require.Equal(t, 5, admits(t, l, 1150*ms, 6))
}

func TestSlidingAlgorithmsAcrossAnEdge(t *testing.T) {
	for _, l := range []limit.Limiter{
		limit.NewLog(&limit.Rule{N: 5, Per: time.Second}), limit.NewWindow(&limit.Rule{N: 5, Per: time.Second}),
	} {
		n := admits(t, l, 850*ms, 6) + admits(t, l, 1150*ms, 6)
		require.Equal(t, 5, n, "%T", l)
	}
}

func TestLeakyBucketSpacesWhateverTheBurst(t *testing.T) {
	l := limit.NewLeaky(&limit.Rule{N: 10, Per: time.Second, Burst: 10})
	require.Equal(t, 1, admits(t, l, 0, 5))
	require.Equal(t, 100*ms, take(t, l, 0, 1))
	require.Zero(t, take(t, l, 100*ms, 3))
	require.Equal(t, 300*ms, take(t, l, 100*ms, 1))
}

func TestLeakyBucketOfAServerQueues(t *testing.T) {
	q := limit.NewQueue(&limit.Rule{N: 10, Per: time.Second, Burst: 3})
	for i := range 4 {
		leaves, room := q.Enter(epoch, 1)
		require.Zero(t, room)
		require.Equal(t, time.Duration(i)*100*ms, leaves)
	}
	_, room := q.Enter(epoch, 1)
	require.Equal(t, 100*ms, room)
	_, room = q.Enter(epoch, 5)
	require.Equal(t, limit.Forever, room)
	leaves, room := q.Enter(at(250*ms), 2)
	require.Zero(t, room)
	require.Equal(t, 250*ms, leaves, "when the second of them leaves")
}

// TestWindowsOfTheClock: a wall clock that is set does not move a window that
// has begun.
func TestWindowsOfTheClock(t *testing.T) {
	start := time.Now() // has a monotonic reading
	start = start.Add(-time.Duration(start.UnixNano() % int64(time.Hour)))
	for name, l := range map[string]limit.Limiter{
		"fixed":  limit.NewFixed(&limit.Rule{N: 1, Per: time.Hour}),
		"window": limit.NewWindow(&limit.Rule{N: 1, Per: time.Hour}),
	} {
		w, _ := l.Take(start.Add(20*time.Minute), 1)
		require.Zero(t, w, name)
		w, _ = l.Take(start.Add(40*time.Minute), 1)
		require.GreaterOrEqual(t, w, 20*time.Minute, name)
		require.True(t, l.Full(start.Add(3*time.Hour)), name)
	}
}

func TestTimesMayStartAtZero(t *testing.T) {
	for _, a := range algorithms {
		l := a.new(&limit.Rule{N: 2, Per: time.Second, Burst: 2})
		var now time.Time
		for range 5 {
			var w time.Duration
			for w == 0 {
				w, _ = l.Take(now, 1)
			}
			require.LessOrEqual(t, w, 2*time.Second, a.name)
			now = now.Add(w)
			w, _ = l.Take(now, 1)
			require.Zero(t, w, a.name)
		}
	}
}

func TestMarginWidensSpacing(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			l := a.new(&limit.Rule{N: 100, Per: time.Second})
			require.Equal(t, 1.0, l.Margin())
			now, n := at(0), 0
			l.SetMargin(now, 1.25)
			require.Equal(t, 1.25, l.Margin())
			for now.Before(at(100 * time.Second)) {
				w, _ := l.Take(now, 1)
				now = now.Add(w)
				if w == 0 {
					n++
				}
			}
			require.InDelta(t, 8000, n, 100)
			l.SetMargin(now, 0.5)
			require.Equal(t, 1.0, l.Margin())
			l.SetMargin(now, 99)
			require.Equal(t, 2.0, l.Margin())
			// What the rule allows at once passes still, if nothing is spent.
			w, _ := l.Take(now.Add(time.Hour), 100)
			require.Zero(t, w)
		})
	}
}

func TestReconfigureKeepsWhatIsSpent(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			l := a.new(&limit.Rule{N: 10, Per: time.Minute, Burst: 10})
			if a.spaced {
				require.Equal(t, 1, admits(t, l, 0, 10))
				l.Reconfigure(at(0), &limit.Rule{N: 100, Per: time.Second})
				require.Equal(t, 10*ms, take(t, l, 0, 1))
				return
			}
			require.Equal(t, 6, admits(t, l, 0, 6))
			require.Equal(t, 6, l.Spent(at(0)))
			l.Reconfigure(at(0), &limit.Rule{N: 20, Per: time.Second, Burst: 20})
			require.Equal(t, 14, admits(t, l, 0, 30))
			l.Reconfigure(at(0), &limit.Rule{N: 20, Per: time.Second, Burst: 19})
			require.Positive(t, take(t, l, 0, 1))
			l.Reconfigure(at(0), &limit.Rule{N: 21, Per: time.Second, Burst: 21})
			require.Equal(t, 1, admits(t, l, 0, 30))
		})
	}
}

func TestSpentIsWhatTheLastPerSaw(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			l := a.new(&limit.Rule{N: 10, Per: time.Second})
			for now := time.Duration(0); now <= 5*time.Second; now += 100 * ms {
				take(t, l, now, 1)
			}
			require.InDelta(t, 10, l.Spent(at(5*time.Second)), 1)
			require.InDelta(t, 5, l.Spent(at(5500*ms)), 5)
			require.Zero(t, l.Spent(at(7500*ms)))
		})
	}
}

// TestHostileRules: nothing overflows into a free pass.
func TestHostileRules(t *testing.T) {
	const most = math.MaxInt
	rules := []*limit.Rule{
		{N: 1, Per: math.MaxInt64}, {N: most, Per: 1, Burst: most}, {N: 1, Per: math.MaxInt64, Burst: most},
		{N: most, Per: math.MaxInt64}, {N: most, Per: math.MaxInt64, Burst: 1}, {N: 1, Per: 1},
	}
	for _, a := range algorithms {
		for i, r := range rules {
			l := a.new(r)
			for range 3 {
				for _, n := range []int{most, 1, most / 2, -1, math.MinInt, 0} {
					for _, d := range []time.Duration{0, 1, time.Hour, math.MaxInt64, math.MinInt64} {
						w, err := l.Take(at(d), n)
						require.NoError(t, err)
						require.GreaterOrEqual(t, w, time.Duration(0))
						require.GreaterOrEqual(t, l.Free(at(d)), 0.0)
						l.Spent(at(d))
						l.Full(at(d))
					}
				}
				l.SetMargin(at(0), 1.2)
				l.Adjust(at(0), math.MinInt)
				l.Adjust(at(0), most)
				l.Adjust(at(0), most)
				l.Reconfigure(at(0), rules[(i+1)%len(rules)])
				l.Reconfigure(at(0), r)
			}
		}
		l := a.new(rules[0])
		require.Zero(t, take(t, l, 0, 1))
		require.Greater(t, take(t, l, time.Hour, 1), time.Hour, a.name)
		l.Adjust(at(time.Hour), most)
		require.Greater(t, take(t, l, time.Hour, 1), time.Hour, a.name)
	}
}

func TestLimitersAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(limit.Bucket{}), uintptr(128))
	require.LessOrEqual(t, unsafe.Sizeof(limit.GCRA{}), uintptr(64))
	require.LessOrEqual(t, unsafe.Sizeof(limit.Fixed{}), uintptr(64))
	require.LessOrEqual(t, unsafe.Sizeof(limit.Window{}), uintptr(64))
	require.LessOrEqual(t, unsafe.Sizeof(limit.Log{}), uintptr(80))
}

func TestTakeAllocatesNothing(t *testing.T) {
	for _, a := range algorithms {
		l, now := a.new(&limit.Rule{N: 10, Per: time.Second, Burst: 10}), epoch
		step := func() {
			now = now.Add(30 * ms)
			l.Take(now, 1)
			l.Take(now, 3)
			l.Adjust(now, 1)
			l.Adjust(now, -1)
		}
		for range 1000 {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(1000, step), a.name)
	}
}

func TestLimitersServeManyAtOnce(t *testing.T) {
	for _, a := range algorithms {
		l := a.new(&limit.Rule{N: 500, Per: time.Second, Burst: 500})
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 250 {
					if w, _ := l.Take(epoch, 1); w == 0 {
						granted.Add(1)
					}
					l.Wait(epoch, 1)
				}
			})
		}
		wg.Wait()
		want := int64(500)
		if a.spaced {
			want = 1
		}
		require.Equal(t, want, granted.Load(), a.name)
	}
}

func TestResetIsWhatAServerReports(t *testing.T) {
	want := map[string]time.Duration{
		"token-bucket": 200 * ms, "gcra": 200 * ms, "leaky-bucket": 0,
		"fixed-window": 200 * ms, "sliding-log": 100 * ms, "sliding-window": 200 * ms,
	}
	for _, a := range algorithms {
		l := a.new(&limit.Rule{N: 10, Per: time.Second, Burst: 10})
		take(t, l, -100*ms, 5) // of which the window now counts none
		take(t, l, 500*ms, 1)
		take(t, l, 500*ms, 4)
		require.Equal(t, want[a.name], l.Reset(at(800*ms)), a.name)
	}
}
