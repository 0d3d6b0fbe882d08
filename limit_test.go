package comity_test

import (
	"encoding/json"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

func TestLimitTextForm(t *testing.T) {
	for text, want := range map[string]comity.Limit{
		"100/s":                     comity.PerSecond(100),
		"500/m":                     comity.PerMinute(500),
		"5000/h burst 50":           {N: 5000, Per: time.Hour, Burst: 50},
		"10/m sliding-log":          {N: 10, Per: time.Minute, Algorithm: comity.SlidingLog},
		"1/2s burst 30":             {N: 1, Per: 2 * time.Second, Burst: 30},
		"1/250ms":                   comity.Every(250 * time.Millisecond),
		"7/10m":                     {N: 7, Per: 10 * time.Minute},
		"7/24h gcra":                {N: 7, Per: 24 * time.Hour, Algorithm: comity.GCRA},
		"7/1h30m":                   {N: 7, Per: 90 * time.Minute},
		"7/1m0.5s fixed-window":     {N: 7, Per: time.Minute + time.Second/2, Algorithm: comity.FixedWindow},
		"200000/m unit tokens":      {N: 200_000, Per: time.Minute, Unit: "tokens"},
		`10/s name "to pay" shadow`: {N: 10, Per: time.Second, Name: "to pay", Shadow: true},
	} {
		t.Run(text, func(t *testing.T) {
			var got comity.Limit
			require.NoError(t, got.UnmarshalText([]byte(text)))
			require.Equal(t, want, got)
			require.Equal(t, text, want.String())
			out, err := want.MarshalText()
			require.NoError(t, err)
			require.Equal(t, text, string(out))
		})
	}
}

func TestLimitTextFormIsReadInEveryOrderAndUnit(t *testing.T) {
	for text, want := range map[string]string{
		"10/1m sliding-log":          "10/m sliding-log",
		"10/60s":                     "10/m",
		" 10/s\tgcra   burst 5 ":     "10/s burst 5 gcra",
		"10/s shadow unit x burst 0": "10/s unit x shadow",
		`10/s name "x"`:              "10/s name x",
		"010/s token-bucket":         "10/s",
	} {
		var l comity.Limit
		require.NoError(t, l.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, l.String())
	}
}

func TestLimitTextFormRefuses(t *testing.T) {
	for _, text := range []string{
		"", "10", "/s", "10/", "0/s", "-1/s", "+1/s", "1.5/s", "1e3/s", "10/0s", "10/-1s", "10/d", "10/parsec",
		"99999999999999999999/s", "10/s burst", "10/s burst -1", "10/s burst x", "10/s gcra gcra", "10/s gcra sliding-log",
		"10/s burst 1 burst 2", "10/s unit", `10/s unit ""`, "10/s banana", "10 /s", "10/s Shadow",
	} {
		was := comity.PerHour(3)
		l := was
		require.Error(t, l.UnmarshalText([]byte(text)), text)
		require.Equal(t, was, l, "changed by %q", text)
	}
}

func TestLimitTextFormNeverDropsAFunction(t *testing.T) {
	l := comity.PerSecond(1)
	l.For = func(*http.Request) bool { return true }
	require.Equal(t, "1/s", l.String())
	_, err := l.MarshalText()
	require.EqualError(t, err, "comity: limit 1/s: For is a function, which has no text form")
	_, err = comity.Limit{}.MarshalText()
	require.Error(t, err)
}

func TestLimitDecodesFromJSON(t *testing.T) {
	var cfg struct{ Limits []comity.Limit }
	require.NoError(t, json.Unmarshal([]byte(`{"Limits": ["100/s", "10/1m sliding-log"]}`), &cfg))
	require.Equal(t, []comity.Limit{comity.PerSecond(100), {N: 10, Per: time.Minute, Algorithm: comity.SlidingLog}}, cfg.Limits)
}

func TestAlgorithmText(t *testing.T) {
	for a := comity.TokenBucket; a <= comity.SlidingWindow; a++ {
		text, err := a.MarshalText()
		require.NoError(t, err)
		require.Equal(t, a.String(), string(text))
		var b comity.Algorithm
		require.NoError(t, b.UnmarshalText(text))
		require.Equal(t, a, b)
	}
	bad := comity.SlidingWindow + 1
	require.Equal(t, "Algorithm(6)", bad.String())
	_, err := bad.MarshalText()
	require.Error(t, err)
	require.Error(t, bad.UnmarshalText([]byte("leaky")))
}

// FuzzLimitText: what is read can be written, and reads back as the same.
func FuzzLimitText(f *testing.F) {
	for _, s := range []string{
		"100/s", "5000/h burst 50", "10/1m sliding-log", "1/2s burst 30", `1/s name "a b" unit "\xff"`,
		"9223372036854775807/9223372036854775807ns shadow", "1/1h0m0.000000001s", `1/s unit 'x'`, "1/s name burst",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var a, b comity.Limit
		if a.UnmarshalText([]byte(s)) != nil {
			return
		}
		text, err := a.MarshalText()
		require.NoError(t, err)
		require.NoError(t, b.UnmarshalText(text), "%q", text)
		require.Equal(t, a, b)
		_, err = comity.NewLimiter(a)
		require.NoError(t, err)
	})
}

func TestNewLimiterNamesEveryInvalidField(t *testing.T) {
	_, err := comity.NewLimiter(comity.Limit{N: -1, Burst: -2, Algorithm: 77})
	require.EqualError(t, err, `comity: limit -1/0s burst -2 Algorithm(77): N is -1, must be at least 1
comity: limit -1/0s burst -2 Algorithm(77): Per is 0s, must be above 0
comity: limit -1/0s burst -2 Algorithm(77): Burst is -2, must not be negative
comity: limit -1/0s burst -2 Algorithm(77): Algorithm is 77, there is none of that number`)
}

func TestNewLimiterAsksNew(t *testing.T) {
	want := comity.RateLimiter(rate.NewLimiter(1, 1))
	got, err := comity.NewLimiter(comity.Limit{New: func(string, string) comity.Limiter { return want }})
	require.NoError(t, err)
	require.Same(t, want, got)
	_, err = comity.NewLimiter(comity.Limit{New: func(string, string) comity.Limiter { return nil }})
	require.Error(t, err)
}

func TestRateLimiterKeepsItsPromise(t *testing.T) {
	comitytest.TestLimiter(t, comity.Limit{N: 10, Per: time.Second, Burst: 7}, func() comity.Limiter {
		return comity.RateLimiter(rate.NewLimiter(10, 7))
	})
}

func TestRateLimiter(t *testing.T) {
	now := time.Now()
	take := func(l comity.Limiter, now time.Time, n int) time.Duration {
		d, err := l.Take(now, n)
		require.NoError(t, err)
		return d
	}
	x := rate.NewLimiter(10, 3)
	l := comity.RateLimiter(x)
	require.Zero(t, take(l, now, 3))
	for range 100 { // asking in vain pushes nothing away
		require.Equal(t, 100*time.Millisecond, take(l, now, 1))
	}
	require.Equal(t, 150*time.Millisecond, take(l, now.Add(-50*time.Millisecond), 1))
	require.Equal(t, 100*time.Millisecond, take(l, now, 1), "the clock went back and forth")
	l.Adjust(now, -2)
	require.Zero(t, take(l, now, 2))
	l.Adjust(now, -100)
	require.Equal(t, comity.Forever, take(l, now, 4))
	require.Zero(t, take(l, now, 3), "given back above full")
	l.Adjust(now, 17)
	require.Equal(t, 1800*time.Millisecond, take(l, now, 1))
	require.Equal(t, 3, x.Burst())
	require.Zero(t, take(l, now, 0))

	require.Equal(t, comity.Forever, take(comity.RateLimiter(nil), now, 1))
	require.Equal(t, comity.Forever, take(comity.RateLimiter(new(rate.Limiter)), now, 1))
	free := comity.RateLimiter(rate.NewLimiter(rate.Inf, 0))
	free.Adjust(now, math.MaxInt)
	require.Zero(t, take(free, now, math.MaxInt))
}
