package comity

import (
	"sync/atomic"
	"testing"
	"time"
)

// Decision and record of one call, the clock read by the caller: at most 40 ns and
// nothing allocated, at two goroutines at most 1.5 times the time of one.
func BenchmarkThrottle(b *testing.B) {
	for _, c := range []struct {
		name     string
		accepted func(i int) bool
	}{
		{"state=fresh", func(int) bool { return true }},
		{"state=healthy", func(i int) bool { return i > 0 }},
		{"state=throttled", func(i int) bool { return i%3 == 0 }},
	} {
		setup := func() (*throttle, *Adaptive, time.Time) {
			th, ad := new(throttle), adaptive(0)
			now := time.Now()
			for i := range 200 {
				th.attempt(ad, now, c.accepted(i))
			}
			return th, ad, now
		}
		step := func(th *throttle, ad *Adaptive, now time.Time, i int) {
			if ok, _ := th.admit(ad, now, Critical, false); ok {
				th.sent(ad, now)
				th.done(ad, now, c.accepted(i+1), true)
			}
		}
		// Goroutines must not drift apart in time by more than real ones do.
		const span = 50_000
		b.Run(c.name+"/goroutines=1", func(b *testing.B) {
			th, ad, start := setup()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				step(th, ad, start.Add(time.Duration(i%span)*time.Microsecond), i)
			}
		})
		b.Run(c.name+"/goroutines=2", func(b *testing.B) {
			th, ad, start := setup()
			b.ReportAllocs()
			var worker atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				i := int(worker.Add(1))
				for pb.Next() {
					i++
					step(th, ad, start.Add(time.Duration(i%span)*time.Microsecond), i)
				}
			})
		})
	}
}

func BenchmarkBudget(b *testing.B) {
	b.Run("op=first", func(b *testing.B) {
		var bu budget
		now := time.Now()
		b.ReportAllocs()
		for b.Loop() {
			bu.first(now)
		}
	})
	b.Run("op=take", func(b *testing.B) {
		var bu budget
		now := time.Now()
		b.ReportAllocs()
		for b.Loop() {
			bu.take(now, 0.1, true)
		}
	})
}
