package comity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A refusal 0.2 s into a window of 2 s says 2 s, rounded up, where the first
// answer had told the reset to the millisecond: nobody waits for what is left of
// that second.
func TestRefusalInWholeSecondsKeepsAResetKnownBetter(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) stamp { return stampOf(start).Add(d) }
	known := func() *quota {
		q := &quota{limit: 20, window: 2 * time.Second, told: -1}
		q.report(at(10*time.Millisecond), at(0), 0, 1, false, &Quota{Limit: 20, Remaining: 0, Window: 2 * time.Second, Reset: 2 * time.Second})
		return q
	}
	reset := at(2010 * time.Millisecond)
	require.Equal(t, reset, known().reset())

	for _, c := range []struct {
		name string
		told time.Duration
		want stamp
	}{
		{"the same reset, rounded up", 2 * time.Second, reset},
		{"longer than the reset by more than rounding", 4 * time.Second, at(4200 * time.Millisecond)},
		{"not in whole seconds", 1900 * time.Millisecond, at(2100 * time.Millisecond)},
		{"sooner than the reset", time.Second, at(1200 * time.Millisecond)},
	} {
		q := known()
		q.refused(at(200*time.Millisecond), c.told)
		require.Equal(t, c.want, q.retryAt, c.name)
	}
}

// A call that went at the very instant of the reset is of the next window: what its
// answer says of the reset is not squeezed into the bounds of the last one.
func TestAnswerToACallAtTheResetIsOfTheNextWindow(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) stamp { return stampOf(start).Add(d) }
	q := &quota{limit: 2, window: 2 * time.Second, told: -1}
	empty := &Quota{Limit: 2, Remaining: 0, Window: 2 * time.Second, Reset: time.Second}
	q.report(at(38*time.Millisecond), at(0), 0, 1, false, empty)
	require.Equal(t, at(1038*time.Millisecond), q.reset())
	q.report(at(1067*time.Millisecond), at(1038*time.Millisecond), 0, 2, false, empty)
	require.Equal(t, at(2067*time.Millisecond), q.reset())
}
