package comity

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A call that was refused for its own sake waits alone: nobody stands behind it, and
// what it waits for is kept from nobody.
func TestCallRefusedForItsOwnSakeWaitsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pol := testPolicy(Policy{MaxWait: Forever, MaxInFlight: 1})
		p := &pacer{name: "x"}
		start := time.Now()
		first := testTurn(pol)
		_, err := p.acquire(context.Background(), first, start)
		require.NoError(t, err)
		p.tell()
		bad := testTurn(pol)
		bad.again, bad.refusals, bad.suspect = true, 3, &suspect{n: 3, until: start.Add(time.Minute)}
		went := make(chan time.Duration, 2)
		for _, k := range []*turn{bad, testTurn(pol)} {
			go func() {
				now, err := p.acquire(context.Background(), k, time.Now())
				if err != nil {
					t.Error(err)
				}
				went <- now.Sub(start)
				p.leave(k, Delay{}, now)
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		p.leave(first, Delay{}, time.Now())
		require.Equal(t, time.Second, <-went)
		require.Equal(t, time.Minute, <-went)
	})
}

// Where calls are refused again and again, those that were refused before are not
// passed over for ever.
func TestFreshCallsDoNotStarveTheRefused(t *testing.T) {
	h := &told{hold: hold{ramp: ramp{places: 1}}}
	l := &line{}
	old := &turn{refusals: 1, pol: testPolicy(Policy{})}
	l.add(l.queueOf(old, 0), &waiter{k: old, class: 2})
	now := time.Now()
	for range rampFresh {
		require.True(t, h.wantsFresh(now))
		h.overtakes(l, &turn{})
	}
	require.False(t, h.wantsFresh(now))
	h.overtakes(l, old)
	require.True(t, h.wantsFresh(now))
}
