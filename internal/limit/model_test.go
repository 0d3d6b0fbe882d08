package limit_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity/internal/limit"
	"github.com/comity/comity/internal/limit/exact"
)

type algorithm struct {
	name    string
	promise exact.Promise
	spaced  bool          // whatever the Burst
	slack   time.Duration // what floating point may cost or give
	new     func(r *limit.Rule) limit.Limiter
}

var algorithms = []algorithm{
	{"token-bucket", exact.Bucket, false, 1, func(r *limit.Rule) limit.Limiter { return limit.NewBucket(r) }},
	{"gcra", exact.Bucket, false, 0, func(r *limit.Rule) limit.Limiter { return limit.NewGCRA(r) }},
	{"leaky-bucket", exact.Bucket, true, 0, func(r *limit.Rule) limit.Limiter { return limit.NewLeaky(r) }},
	{"fixed-window", exact.Clock, false, 0, func(r *limit.Rule) limit.Limiter { return limit.NewFixed(r) }},
	{"sliding-log", exact.Span, false, 0, func(r *limit.Rule) limit.Limiter { return limit.NewLog(r) }},
	{"sliding-window", exact.Counter, false, 0, func(r *limit.Rule) limit.Limiter { return limit.NewWindow(r) }},
}

func (a algorithm) log(r *limit.Rule) *exact.Log {
	l := &exact.Log{Promise: a.promise, N: r.N, Per: r.Per, Burst: r.Burst}
	if a.spaced {
		l.Burst = 0
	}
	return l
}

// each runs f for every algorithm and many random rules and seeds.
func each(t *testing.T, f func(t *testing.T, a algorithm, r *limit.Rule, rnd *rand.Rand)) {
	seeds := uint64(60)
	if os.Getenv("COMITY_LONG") != "" {
		seeds = 2000
	}
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				rnd := rand.New(rand.NewPCG(seed, 7))
				r := &limit.Rule{
					N:   1 + rnd.IntN([]int{1, 3, 10, 1000}[rnd.IntN(4)]),
					Per: time.Duration(1 + rnd.Int64N([]int64{1000, 1e9, 3600e9}[rnd.IntN(3)])),
				}
				if rnd.IntN(2) == 0 {
					r.Per = []time.Duration{time.Second, time.Minute, time.Hour}[rnd.IntN(3)]
				}
				if rnd.IntN(2) == 0 {
					r.Burst = 1 + rnd.IntN(2*r.N)
				}
				f(t, a, r, rnd)
				if t.Failed() {
					t.Fatalf("seed %d, rule %+v", seed, *r)
				}
			}
		})
	}
}

// TestModel: nothing is granted beyond the promise, nothing is refused within
// it, and the wait answered is the shortest, to the nanosecond.
func TestModel(t *testing.T) {
	each(t, func(t *testing.T, a algorithm, r *limit.Rule, rnd *rand.Rand) {
		l, log := a.new(r), a.log(r)
		now := epoch.Add(time.Duration(rnd.Int64N(1e12)))
		last := time.Duration(0) // the wait answered last
		for range 150 {
			now = now.Add(step(r, last, rnd))
			n := cost(r, rnd)
			switch rnd.IntN(12) {
			case 0: // a debt
				l.Adjust(now, n)
				log.Spend(now, n)
				continue
			case 1: // spent and given back
				if w := l.Wait(now, n); w == 0 {
					take(t, l, now.Sub(epoch), n)
					l.Adjust(now, -n)
				}
			}
			w := take(t, l, now.Sub(epoch), n)
			last = w
			if err := judge(log, now, n, w, a.slack); err != nil {
				t.Fatal(err)
			}
			if w > 0 {
				require.Equal(t, w, l.Wait(now, n), "a refusal has changed something")
				continue
			}
			log.Spend(now, n)
			if rnd.IntN(8) == 0 { // and part of it given back
				back := 1 + rnd.IntN(n)
				l.Adjust(now, -back)
				log.Spend(now, -back)
			}
		}
	})
}

// step returns how far time goes on: not at all, to the nanosecond before or at
// which a unit is free, a few spacings, or long.
func step(r *limit.Rule, wait time.Duration, rnd *rand.Rand) time.Duration {
	spacing := int64(r.Per)/int64(r.N) + 1
	switch rnd.IntN(6) {
	case 0:
		return 0
	case 1, 2:
		if wait < limit.Forever {
			return max(0, wait-time.Duration(rnd.IntN(2)))
		}
		return 0
	case 3:
		return time.Duration(rnd.Int64N(int64(r.Per)))
	case 4:
		return time.Duration(rnd.Int64N(3 * int64(r.Per)))
	}
	return time.Duration(rnd.Int64N(3 * spacing))
}

func cost(r *limit.Rule, rnd *rand.Rand) int {
	switch rnd.IntN(4) {
	case 0:
		return 1 + rnd.IntN(max(r.N, r.Burst)+1)
	case 1:
		return 1 + rnd.IntN(3)
	}
	return 1
}

// judge holds an answer to the log.
func judge(log *exact.Log, now time.Time, n int, w, slack time.Duration) error {
	switch {
	case !log.Ever(n):
		if w != limit.Forever {
			return fmt.Errorf("a cost of %d that never fits was answered %v", n, w)
		}
	case !log.Allows(now.Add(w+slack), n):
		return fmt.Errorf("cost %d at %v: %v is not enough", n, now, w)
	case w > slack && log.Allows(now.Add(w-1-slack), n):
		return fmt.Errorf("cost %d at %v: %v is more than needed", n, now, w)
	}
	return nil
}

// TestModelWithClockGoingBack: times in the wrong order get nobody more than was
// promised, counted by those times.
func TestModelWithClockGoingBack(t *testing.T) {
	each(t, func(t *testing.T, a algorithm, r *limit.Rule, rnd *rand.Rand) {
		l := a.new(r)
		type grant struct {
			at time.Time
			n  int
		}
		var grants []grant
		now, last := epoch.Add(time.Duration(rnd.Int64N(1e12))), time.Duration(0)
		for range 100 {
			now = now.Add(step(r, last, rnd))
			if rnd.IntN(3) == 0 {
				now = now.Add(-time.Duration(rnd.Int64N(int64(r.Per)/3 + 1)))
			}
			n := cost(r, rnd)
			if last = take(t, l, now.Sub(epoch), n); last == 0 {
				i := len(grants)
				for i > 0 && grants[i-1].at.After(now) {
					i--
				}
				grants = append(grants[:i], append([]grant{{now, n}}, grants[i:]...)...)
			}
		}
		log := a.log(r)
		for _, g := range grants {
			if !log.Allows(g.at.Add(a.slack), g.n) {
				t.Fatalf("%d at %v is more than promised", g.n, g.at)
			}
			log.Spend(g.at, g.n)
		}
	})
}

// TestBucketAndGCRAAgree: they are one rule, call for call.
func TestBucketAndGCRAAgree(t *testing.T) {
	rules := []*limit.Rule{
		{N: 5, Per: time.Second, Burst: 5}, {N: 10, Per: time.Second}, {N: 7, Per: time.Second, Burst: 3},
		{N: 1, Per: time.Hour, Burst: 2}, {N: 200_000, Per: time.Minute, Burst: 10_000}, {N: 3, Per: 10 * time.Second, Burst: 100},
		{N: 999, Per: time.Minute}, {N: 1, Per: 24 * time.Hour}, {N: 60, Per: time.Minute, Burst: 1}, {N: 1000, Per: 7 * time.Millisecond, Burst: 9},
	}
	for i, r := range rules {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		b, g := limit.NewBucket(r), limit.NewGCRA(r)
		now, wait := epoch, time.Duration(0)
		for call := range 10_000 {
			now = now.Add(step(r, wait, rnd))
			if rnd.IntN(10) == 0 {
				now = now.Add(-time.Duration(rnd.Int64N(int64(r.Per)/int64(r.N) + 1)))
			}
			n := cost(r, rnd)
			if rnd.IntN(20) == 0 {
				b.Adjust(now, n)
				g.Adjust(now, n)
			}
			was := g.Wait(now, n)
			x, y := take(t, b, now.Sub(epoch), n), take(t, g, now.Sub(epoch), n)
			if y-x > 1 || x-y > 1 || (x == 0) != (y == 0) {
				t.Fatalf("rule %+v, call %d, cost %d: %v and %v", *r, call, n, x, y)
			}
			require.Equal(t, was, y)
			wait = y
			if rnd.IntN(15) == 0 && x == 0 {
				b.Adjust(now, -n)
				g.Adjust(now, -n)
			}
		}
	}
}
