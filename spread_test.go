package comity_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// spreadGaps makes a call every half second for four windows of 60 a minute, and
// returns the longest time between two calls that were sent, in each window's two
// halves together, and how many were refused.
func spreadGaps(t *testing.T, spread float64) (longest time.Duration, firstHalf, refused int) {
	synctest.Test(t, func(t *testing.T) {
		api := &comitytest.API{Dialect: comity.IETF,
			Limits: []comity.Limit{{N: 60, Per: time.Minute, Algorithm: comity.FixedWindow}}}
		rt := transport(t, api, every(comity.Policy{MaxWait: comity.Forever, Spread: spread}))
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var wg sync.WaitGroup
		for range 480 {
			wg.Go(func() { _, _ = call(t, rt, ctx, "/") })
			time.Sleep(500 * time.Millisecond)
		}
		cancel()
		wg.Wait()
		last := time.Duration(0)
		for _, h := range api.Hits() {
			at := h.At.Sub(start)
			longest, last = max(longest, at-last), at
			if at >= time.Minute && at < 90*time.Second {
				firstHalf++
			}
		}
		refused = len(api.Over())
		require.InDelta(t, 240, len(api.Hits()), 3, "all of the quota is used")
	})
	return longest, firstHalf, refused
}

func TestSpreadSpacesTheLastUnitsOfAQuota(t *testing.T) {
	for _, c := range []struct {
		name      string
		spread    float64
		longest   time.Duration
		firstHalf int // calls in the first half of the second window
	}{
		{"none: it is used freely, and then waited for", 0, time.Minute, 60},
		{"half: the first 30 go freely", 0.5, 2 * time.Second, 45},
		{"all: no wait is longer than window/limit", 1, time.Second + 20*time.Millisecond, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			longest, half, refused := spreadGaps(t, c.spread)
			t.Log(longest, half, refused)
			require.LessOrEqual(t, longest, c.longest)
			require.InDelta(t, c.firstHalf, half, 6)
			require.LessOrEqual(t, refused, 4)
			if c.spread == 0 {
				require.Greater(t, longest, 20*time.Second)
			}
		})
	}
}

// A call that does not want to wait for its share is told how much is left.
func TestSpreadSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &comitytest.API{Dialect: comity.XRateLimit,
			Limits: []comity.Limit{{N: 60, Per: time.Minute, Algorithm: comity.FixedWindow}}}
		rt := transport(t, api, every(comity.Policy{MaxWait: -1, Spread: 1}))
		accepted(t, rt, "/")
		_, err := call(t, rt, t.Context(), "/")
		require.Equal(t, "comity: a.example: quota (59 of 60 left): next call in 1s, MaxWait allows no wait", throttled(t, err).Error())
		time.Sleep(30 * time.Second)
		accepted(t, rt, "/") // what was not used is spread over what is left
		time.Sleep(520 * time.Millisecond)
		accepted(t, rt, "/")
	})
}
