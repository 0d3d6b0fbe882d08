package limit_test

import (
	"testing"
	"time"

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
