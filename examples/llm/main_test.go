package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity/comitytest"
)

// do runs a batch in fake time, without a network.
func do(t *testing.T, b *batch) (r result, m *model, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		m = newModel()
		client, err := newClient(&comitytest.API{Handler: m})
		require.NoError(t, err)
		b.client, b.url = client, "http://model.example"
		start := time.Now()
		r = b.run(t.Context())
		took = time.Since(start)
	})
	return r, m, took
}

func TestBatchUsesTheWholeAllowance(t *testing.T) {
	r, m, took := do(t, newBatch(300, 16, true))
	require.Zero(t, r.failed)
	require.Zero(t, m.refused())
	t.Logf("%v: %d tokens, %.1f %% of the allowance", took, r.used, 100*share(r.used, took))
	require.Greater(t, share(r.used, took), 0.9)
}

func TestBatchWithoutSettlingTakesLonger(t *testing.T) {
	r, m, took := do(t, newBatch(300, 16, false))
	require.Zero(t, r.failed)
	require.Zero(t, m.refused())
	t.Logf("%v: %d tokens, %.1f %% of the allowance", took, r.used, 100*share(r.used, took))
	require.Less(t, share(r.used, took), 0.7)
}

func TestProgressSaysWhenItWillBeDone(t *testing.T) {
	b := newBatch(100, 1, true)
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "0 of 100 answered, 0 tokens", b.progress(now))
	b.done = result{answered: 20, estimated: 16_000, used: 8000}
	require.Equal(t, "20 of 100 answered, 8000 tokens, done at 12:00:08 (in 8s)", b.progress(now))
}
