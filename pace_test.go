package comity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A rate that refusals taught is kept for as long as it holds, and no longer.
func TestLearnedRateKeepsItsDestination(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	var p pacer
	p.pace.start(start)
	for i := range 40 {
		p.pace.accept(start.Add(time.Duration(i)*time.Second), start, 0)
	}
	refused := start.Add(40 * time.Second)
	p.pace.refuse(refused, 0)
	require.False(t, p.idle(refused), "nothing was accepted since")
	now := refused.Add(2 * time.Second)
	p.pace.accept(now, refused.Add(time.Second), 0)
	require.Positive(t, p.pace.rate)
	require.False(t, p.idle(now))
	p.pace.free = 0
	p.pace.take(now)
	_, ok := p.pace.ready(now)
	require.False(t, ok)

	now = refused.Add(quietForget + time.Nanosecond)
	p.pace.take(now)
	_, ok = p.pace.ready(now)
	require.True(t, ok, "forgotten")
	require.True(t, p.idle(now))
}
