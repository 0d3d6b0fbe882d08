package comity

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// at is an instant of the tests' own clock, which has no monotonic part.
func at(d time.Duration) time.Time { return simStart.Add(d) }

func adaptive(k float64) *Adaptive {
	ad := Adaptive{K: k}.withDefaults()
	return &ad
}

// attempt asks for a call at now and, if it may go, ends it at once.
func (t *throttle) attempt(ad *Adaptive, now time.Time, accepted bool) bool {
	ok, _ := t.admit(ad, now, Critical, false)
	if ok {
		t.sent(ad, now)
		t.done(ad, now, accepted, true)
	}
	return ok
}

// A client that is refused as one, and asks for nothing meanwhile, may still probe.
func TestFloorLetsOneGoAndCountsFromWhatWasSent(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	for range 100 {
		th.done(ad, at(0), false, true)
	}
	ask := func(d time.Duration) bool {
		ok, wait := th.admit(ad, at(d), Critical, false)
		if !ok {
			require.Positive(t, wait)
			require.LessOrEqual(t, wait, 10*time.Second)
		}
		return ok
	}
	drain := func(d time.Duration) {
		for ask(d) {
		}
	}
	drain(0) // when throttling starts
	drain(9900 * time.Millisecond)
	require.True(t, ask(10*time.Second))
	require.False(t, ask(10*time.Second), "one at a time")
	th.unsend(ad, at(10*time.Second))
	require.True(t, ask(10*time.Second), "the first was not sent")
	th.sent(ad, at(12*time.Second))
	drain(21900 * time.Millisecond)
	require.True(t, ask(22*time.Second), "ten seconds after it was sent")
}

func TestUnsendGivesTheTokenBack(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	for i := range 100 {
		th.done(ad, at(0), i < 40, true)
	}
	now := at(5 * time.Second)
	got := 0
	for ok := true; ok; got++ {
		ok, _ = th.admit(ad, now, Critical, false)
	}
	require.Greater(t, got, 1)
	th.unsend(ad, now)
	ok, _ := th.admit(ad, now, Critical, false)
	require.True(t, ok)
	ok, _ = th.admit(ad, now, Critical, false)
	require.False(t, ok)
}

// In shadow every call is sent and counts when it ends, so a refusal must not
// count as well.
func TestShadowCountsEachCallOnce(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	ad.Shadow = true
	refused := 0
	for i := range 6000 {
		now := at(time.Duration(i) * 10 * time.Millisecond)
		if ok, _ := th.admit(ad, now, Critical, false); !ok && i >= 3000 {
			refused++
		}
		th.sent(ad, now)
		th.done(ad, now, i%5 == 0, true)
	}
	requests, accepts, p := th.snapshot(ad, at(time.Minute))
	require.Equal(t, 6000., requests)
	require.Equal(t, 1200., accepts)
	require.InDelta(t, 0.6, p, 0.01)
	require.InDelta(t, 1800, refused, 90)
}

// A window that a new policy changes keeps what was counted.
func TestNewWindowKeepsCounts(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	for i := range 100 {
		th.done(ad, at(0), i >= 80, true) // a refusal first: accepts before it are known less exactly
	}
	for _, window := range []time.Duration{30 * time.Second, time.Hour, 5 * time.Second, 2 * time.Minute} {
		ad.Window = window
		require.NotNil(t, th.regrow(th.meter(), window, ticks(at(0))))
		requests, accepts, _ := th.snapshot(ad, at(0))
		require.Equal(t, 100., requests, window)
		require.Equal(t, 20., accepts, window)
	}
}

// Accepts counted before the first refusal weigh against it.
func TestFirstRefusalIsSeededWithTheAcceptsBefore(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	for i := range 1500 {
		th.done(ad, at(time.Duration(i)*10*time.Millisecond), true, true)
	}
	now := at(15 * time.Second)
	for range 200 {
		th.done(ad, now, false, true)
	}
	_, accepts, p := th.snapshot(ad, now)
	require.Greater(t, accepts, 1000.)
	require.Zero(t, p)
}

// What was accepted is known for the whole window before anything is refused, and
// weighs against the first refusals.
func TestAcceptsOfTheWholeWindowAreKnown(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	second := func(n int) time.Time { return at(time.Duration(n) * time.Second) }
	for i := range 300 {
		th.done(ad, second(i), true, true)
		requests, accepts, _ := th.snapshot(ad, second(i))
		require.Equal(t, requests, accepts)
		require.InDelta(t, min(i, 120), accepts, 30)
	}
	for range 30 {
		th.done(ad, second(300), false, true)
	}
	_, accepts, p := th.snapshot(ad, second(300))
	require.InDelta(t, 120, accepts, 20)
	require.Zero(t, p, "of the last hundred calls 70 were accepted")
	_, accepts, _ = th.snapshot(ad, second(421))
	require.Zero(t, accepts)
}

func TestRefusalSaysHowManyWereAcceptedAndWhatIsRefused(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	for i := range 120 {
		th.done(ad, at(0), i < 3, true)
	}
	err := th.refusal(ad, "x", at(time.Second), 1500*time.Millisecond)
	require.EqualError(t, err, "comity: x: 3 of its last 120 calls accepted, 19 in 20 refused now (Adaptive)")
	require.Equal(t, 1500*time.Millisecond, err.RetryAfter)
	require.Equal(t, ReasonAdaptive, err.Reason)
	require.ErrorIs(t, err, ErrThrottled)
	require.False(t, err.Timeout())
	for p, want := range map[float64]string{
		0.001: "1 in 100", 0.02: "1 in 50", 0.05: "1 in 20", 0.5: "1 in 2", 0.6: "3 in 5", 0.98: "49 in 50", 1: "99 in 100",
	} {
		require.Equal(t, want, oneIn(p), p)
	}
}

func TestAdaptiveCheckNamesTheField(t *testing.T) {
	nan := 0.
	nan /= nan
	for _, c := range []struct {
		ad   Adaptive
		want string
	}{
		{Adaptive{}, ""},
		{Adaptive{K: -1}, ""},
		{Adaptive{K: 1.01, Window: time.Second}, ""},
		{Adaptive{K: 0.5}, "K: 0.5 is not above 1"},
		{Adaptive{K: 1}, "K: 1 is not above 1"},
		{Adaptive{K: nan}, "K: NaN is not above 1"},
		{Adaptive{Window: -time.Second}, "Window: -1s is not between 1s and 1h0m0s"},
		{Adaptive{Window: 2 * time.Hour}, "Window: 2h0m0s is not between 1s and 1h0m0s"},
	} {
		err := errors.Join(c.ad.check()...)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, c.want)
	}
}

func TestOffRefusesNothing(t *testing.T) {
	var th throttle
	ad := adaptive(-1)
	for range 1000 {
		require.True(t, th.attempt(ad, at(0), false))
	}
	require.Nil(t, th.meter())
}

// The book's rule draws for each call alone, and refuses the share p of them.
func TestPlainDrawsAgainstTheShare(t *testing.T) {
	var th throttle
	rnd := rand.New(rand.NewPCG(3, 4))
	ad := &Adaptive{K: 2, Window: 2 * time.Minute, Plain: true, rand: rnd.Float64}
	for i := range 1000 {
		th.done(ad, at(0), i < 200, true)
	}
	_, _, p := th.snapshot(ad, at(0))
	require.InDelta(t, 0.6, p, 0.001)
	refused := 0
	for range 1000 {
		if ok, wait := th.admit(ad, at(time.Millisecond), Critical, false); !ok {
			require.Zero(t, wait)
			refused++
		}
	}
	require.InDelta(t, 600, refused, 60)
}

// With the book's rule too the least critical are refused first.
func TestPlainRefusesTheLeastCriticalFirst(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	ad.rand = rand.New(rand.NewPCG(5, 6)).Float64
	ad.Plain, ad.Shadow = true, true // so that the refusals do not raise the share
	for i := range 1000 {
		th.done(ad, at(0), i < 200, true)
	}
	refused := map[Criticality]int{}
	for i := range 4000 {
		c := []Criticality{CriticalPlus, Critical, SheddablePlus, Sheddable}[i%4]
		if ok, _ := th.admit(ad, at(time.Millisecond), c, false); !ok {
			refused[c]++
		}
	}
	require.Less(t, refused[CriticalPlus], 5)
	require.InDelta(t, 400, refused[Critical], 60)
	require.Greater(t, refused[SheddablePlus], 990)
	require.Greater(t, refused[Sheddable], 990)
}

// A throttle that has seen no refusal must stay small: there may be a million.
func TestThrottleIsSmallBeforeTheFirstRefusal(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(throttle{}), uintptr(64))
	require.LessOrEqual(t, unsafe.Sizeof(budget{}), uintptr(64))
	var th throttle
	ad := adaptive(0)
	for range 1000 {
		th.attempt(ad, at(0), true)
	}
	require.Nil(t, th.meter())
}

func TestThrottleAllocates(t *testing.T) {
	for name, ok := range map[string]func(i int) bool{
		"healthy":   func(int) bool { return true },
		"throttled": func(i int) bool { return i%3 == 0 },
	} {
		var th throttle
		ad := adaptive(0)
		th.attempt(ad, at(0), ok(1))
		i := 0
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			i++
			th.attempt(ad, at(time.Duration(i)*time.Millisecond), ok(i))
		}), name)
	}
	var b budget
	b.take(at(0), 0.1, false)
	i := 0
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		i++
		now := at(time.Duration(i) * time.Millisecond)
		b.first(now)
		if b.take(now, 0.1, true) {
			b.giveBack(now)
		}
	}))
}

// While nothing is throttled no class is refused, nor is a retry.
func TestNoClassIsRefusedWhileNothingIsThrottled(t *testing.T) {
	var th throttle
	ad := adaptive(0)
	for i := range 1000 {
		now := at(time.Duration(i) * 10 * time.Millisecond)
		for c := Sheddable; c <= CriticalPlus; c++ {
			ok, _ := th.admit(ad, now, c, i%2 == 0)
			require.True(t, ok)
			th.sent(ad, now)
			th.done(ad, now, i%3 > 0, true)
		}
	}
}
