package comitytest_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// limits are promises of every kind.
var limits = []comity.Limit{
	comity.PerSecond(10),
	{N: 7, Per: time.Second, Burst: 3},
	{N: 1, Per: time.Hour, Burst: 5},
	{N: 200_000, Per: time.Minute, Burst: 10_000},
	{N: 5, Per: time.Second, Burst: 5, Algorithm: comity.GCRA},
	{N: 999, Per: time.Minute, Algorithm: comity.GCRA},
	{N: 10, Per: time.Second, Burst: 10, Algorithm: comity.LeakyBucket},
	{N: 10, Per: time.Second, Algorithm: comity.FixedWindow},
	{N: 5000, Per: time.Hour, Algorithm: comity.FixedWindow},
	{N: 10, Per: time.Second, Algorithm: comity.SlidingLog},
	{N: 1, Per: time.Minute, Algorithm: comity.SlidingLog},
	{N: 10, Per: time.Second, Algorithm: comity.SlidingWindow},
	{N: 1000, Per: time.Minute, Algorithm: comity.SlidingWindow},
}

func TestLimitersKeepTheirPromise(t *testing.T) {
	for _, l := range limits {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			comitytest.TestLimiter(t, l, func() comity.Limiter { return limiter(l) })
		})
	}
}

func limiter(l comity.Limit) comity.Limiter {
	m, err := comity.NewLimiter(l)
	if err != nil {
		panic(err)
	}
	return m
}

// faulty is a limiter with something wrong.
type faulty struct {
	comity.Limiter
	take   func(l comity.Limiter, now time.Time, n int) (time.Duration, error)
	adjust func(l comity.Limiter, now time.Time, n int)
}

func (f faulty) Take(now time.Time, n int) (time.Duration, error) {
	if f.take == nil {
		return f.Limiter.Take(now, n)
	}
	return f.take(f.Limiter, now, n)
}

func (f faulty) Adjust(now time.Time, n int) {
	if f.adjust == nil {
		f.Limiter.Adjust(now, n)
		return
	}
	f.adjust(f.Limiter, now, n)
}

// promised returns limiters of another rule than the one that is promised.
func promised(l comity.Limit) func(comity.Limit) func() comity.Limiter {
	return func(comity.Limit) func() comity.Limiter {
		return func() comity.Limiter { return limiter(l) }
	}
}

// asked returns limiters of the rule that answer through f.
func asked(f faulty) func(comity.Limit) func() comity.Limiter {
	return func(l comity.Limit) func() comity.Limiter {
		return func() comity.Limiter {
			f := f
			f.Limiter = limiter(l)
			return f
		}
	}
}

var (
	bucket = comity.Limit{N: 10, Per: time.Second, Burst: 5}
	span   = comity.Limit{N: 10, Per: time.Second, Algorithm: comity.SlidingLog}
)

// badLimiters are limiters that break the promise of rule, and a check that must say so.
var badLimiters = []struct {
	name, check string
	rule        comity.Limit
	new         func(comity.Limit) func() comity.Limiter
}{
	{"one too many at once", "starts full", bucket, promised(comity.Limit{N: 10, Per: time.Second, Burst: 6})},
	{"one too few at once", "starts full", bucket, promised(comity.Limit{N: 10, Per: time.Second, Burst: 4})},
	{"one in a hundred too fast", "keeps its promise", bucket, promised(comity.Limit{N: 101, Per: 10 * time.Second, Burst: 5})},
	{"one in twenty too slow", "keeps its promise", bucket, promised(comity.Limit{N: 95, Per: 10 * time.Second, Burst: 5})},
	{"a window for a log", "keeps its promise", span, promised(comity.Limit{N: 10, Per: time.Second, Algorithm: comity.FixedWindow})},
	{"a counter for a log", "keeps its promise", span, promised(comity.Limit{N: 10, Per: time.Second, Algorithm: comity.SlidingWindow})},
	{"a bucket for a log", "keeps its promise", span, promised(comity.Limit{N: 10, Per: time.Second, Burst: 10})},
	{"a log for a window", "keeps its promise", comity.Limit{N: 10, Per: time.Second, Algorithm: comity.FixedWindow}, promised(span)},
	{"a counter for a window", "keeps its promise", comity.Limit{N: 10, Per: time.Second, Algorithm: comity.FixedWindow}, promised(comity.Limit{N: 10, Per: time.Second, Algorithm: comity.SlidingWindow})},
	{"a window for a counter", "keeps its promise", comity.Limit{N: 10, Per: time.Second, Algorithm: comity.SlidingWindow}, promised(comity.Limit{N: 10, Per: time.Second, Algorithm: comity.FixedWindow})},
	{"a leaky bucket with bursts", "starts full", comity.Limit{N: 10, Per: time.Second, Burst: 5, Algorithm: comity.LeakyBucket}, promised(bucket)},
	{"spacing that refuses costs", "takes back what was not used", comity.PerSecond(10), promised(comity.Limit{N: 10, Per: time.Second, Burst: 1})},
	{"a refusal that is charged", "refuses for nothing", bucket, asked(faulty{take: func(l comity.Limiter, now time.Time, n int) (time.Duration, error) {
		w, err := l.Take(now, n)
		if w > 0 && w < comity.Forever {
			l.Adjust(now, n)
		}
		return w, err
	}})},
	{"a cost that is ignored", "keeps its promise", bucket, asked(faulty{take: func(l comity.Limiter, now time.Time, n int) (time.Duration, error) {
		if n > 1 && n <= 5 {
			n = 1
		}
		return l.Take(now, n)
	}})},
	{"a wait for what never fits", "never allows what never fits", bucket, asked(faulty{take: func(l comity.Limiter, now time.Time, n int) (time.Duration, error) {
		w, err := l.Take(now, n)
		return min(w, time.Hour), err
	}})},
	{"what never fits passes", "never allows what never fits", bucket, asked(faulty{take: func(l comity.Limiter, now time.Time, n int) (time.Duration, error) {
		return l.Take(now, min(n, 5))
	}})},
	{"a wait twice as long", "starts full", bucket, asked(faulty{take: func(l comity.Limiter, now time.Time, n int) (time.Duration, error) {
		w, err := l.Take(now, n)
		if w < time.Hour {
			w *= 2
		}
		return w, err
	}})},
	{"polling", "refuses for nothing", bucket, asked(faulty{take: func(l comity.Limiter, now time.Time, n int) (time.Duration, error) {
		w, err := l.Take(now, n)
		if w < time.Hour {
			w = min(w, time.Microsecond)
		}
		return w, err
	}})},
	{"a negative wait", "starts full", bucket, asked(faulty{take: func(l comity.Limiter, now time.Time, n int) (time.Duration, error) {
		w, err := l.Take(now, n)
		return -w, err
	}})},
	{"an error", "starts full", bucket, asked(faulty{take: func(l comity.Limiter, now time.Time, n int) (time.Duration, error) {
		return 0, errors.New("out of order")
	}})},
	{"nothing is given back", "takes back what was not used", bucket, asked(faulty{adjust: func(l comity.Limiter, now time.Time, n int) {
		l.Adjust(now, max(n, 0))
	}})},
	{"nothing is charged", "charges without asking", bucket, asked(faulty{adjust: func(l comity.Limiter, now time.Time, n int) {
		l.Adjust(now, min(n, 0))
	}})},
	{"debt is forgiven", "charges without asking", bucket, asked(faulty{adjust: func(l comity.Limiter, now time.Time, n int) {
		l.Adjust(now, min(n, 5))
	}})},
	{"fuller than full", "is never fuller than full", bucket, func(comity.Limit) func() comity.Limiter {
		return func() comity.Limiter { return &tank{level: 5, most: 50} }
	}},
	{"a pause is saved up", "is never fuller than full", bucket, func(comity.Limit) func() comity.Limiter {
		return func() comity.Limiter { return &tank{level: 5, most: 6} }
	}},
	{"time is credited twice", "credits no time twice", bucket, func(comity.Limit) func() comity.Limiter {
		return func() comity.Limiter { return &tank{level: 5, most: 5} }
	}},
	{"one limiter for all", "shares nothing", bucket, func(l comity.Limit) func() comity.Limiter {
		m := limiter(l)
		return func() comity.Limiter { return m }
	}},
}

// tank is a bucket at 10/s by one who did not think of the clock going back.
type tank struct {
	mu          sync.Mutex
	level, most float64
	at          time.Time
}

func (k *tank) fill(now time.Time) {
	if !k.at.IsZero() {
		k.level = min(k.level+max(now.Sub(k.at).Seconds(), 0)*10, k.most)
	}
	k.at = now
}

func (k *tank) Take(now time.Time, n int) (time.Duration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n > 5 {
		return comity.Forever, nil
	}
	k.fill(now)
	if k.level < float64(n)-1e-9 {
		return time.Duration((float64(n) - k.level) * 1e8), nil
	}
	k.level -= float64(n)
	return 0, nil
}

func (k *tank) Adjust(now time.Time, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fill(now)
	k.level = min(k.level-float64(n), k.most)
}

// TestFaultyLimitersAreFound: each flaw is found, by the check that says best
// what it is.
func TestFaultyLimitersAreFound(t *testing.T) {
	for _, f := range badLimiters {
		t.Run(f.name, func(t *testing.T) {
			found := comitytest.CheckLimiter(f.rule, f.new(f.rule))
			require.Error(t, found[f.check], "found: %v", found)
			t.Log(found[f.check])
		})
	}
}
