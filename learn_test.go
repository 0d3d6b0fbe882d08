package comity

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// refuseOnce sends a call of k and has it refused 30 ms later.
func refuseOnce(t *testing.T, p *pacer, pol *policy, a Advice) ruling {
	t.Helper()
	k := testTurn(pol)
	sent, err := p.acquire(context.Background(), k, time.Now())
	require.NoError(t, err)
	time.Sleep(30 * time.Millisecond)
	r := p.learn(k, &answer{sent: sent, now: time.Now(), verdict: Limited, status: 429, advice: &a})
	p.leave(k, Delay{}, time.Now())
	return r
}

// Who is refused again and again asks in another phase each time: at the same one of a
// server's beat, another client may take each unit that comes.
func TestHoldsOfRefusalsInARowAreJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pacer{name: "x"}
		pol := testPolicy(Policy{MaxWait: Forever})
		var ends []time.Duration
		for range 40 {
			r := refuseOnce(t, p, pol, Advice{RetryAfter: time.Second, Quotas: []Quota{{Limit: 10, Remaining: 0, Window: time.Second, Reset: time.Second}}})
			ends = append(ends, time.Until(r.until.from(time.Now())))
		}
		seen := map[time.Duration]int{}
		for _, d := range ends[2:] { // at most 20 spacings of 100 ms
			require.GreaterOrEqual(t, d, 2*time.Second)
			require.LessOrEqual(t, d, 2200*time.Millisecond)
			seen[d.Truncate(50*time.Millisecond)]++
		}
		require.Greater(t, len(seen), 2)
	})
}

// A configured limit learns its margin from a refusal although a reported quota had
// room too, for all that is known; but not from one that the quota itself erred in.
func TestLimitLearnsItsMarginBesideAReportedQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pacer{name: "x"}
		pol := testPolicy(Policy{MaxWait: Forever, Limits: []Limit{PerSecond(10)}})
		k := testTurn(pol)
		sent, err := p.acquire(context.Background(), k, time.Now())
		require.NoError(t, err)
		time.Sleep(30 * time.Millisecond)
		room := Advice{RetryAfter: -1, Quotas: []Quota{{Limit: 1000, Remaining: 900, Window: time.Hour, Reset: time.Hour}}}
		p.learn(k, &answer{sent: sent, now: time.Now(), verdict: Accepted, status: 200, advice: &room})
		p.leave(k, Delay{}, time.Now())
		require.Nil(t, k.charges[0].b.slack)
		room.RetryAfter = time.Second
		refuseOnce(t, p, pol, room)
		require.NotNil(t, k.charges[0].b.slack)
	})
}
