package comity

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Decision and record of one call, the clock read by the caller: at most 40 ns and
// nothing allocated, at two goroutines at most 1.5 times the time of one.
func BenchmarkThrottle(b *testing.B) {
	for _, c := range []struct {
		name   string
		before int // refusals before it is measured
		every  int // of so many calls one is accepted
	}{
		{"state=fresh", 0, 1},
		{"state=healthy", 1, 1},
		{"state=throttled", 100, 3},
	} {
		for _, goroutines := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/goroutines=%d", c.name, goroutines), func(b *testing.B) {
				// 32 ms, over and over: goroutines must not drift apart in time by
				// more than real ones do.
				var times [1024]time.Time
				for i := range times {
					times[i] = time.Now().Add(time.Duration(i) * 32 * time.Microsecond)
				}
				th, ad := new(throttle), adaptive(0)
				for range c.before {
					th.done(ad, times[0], false, true)
				}
				b.ReportAllocs()
				if goroutines == 1 {
					for i := 0; b.Loop(); i++ {
						th.attempt(ad, times[i%len(times)], i%c.every == 0)
					}
					return
				}
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(goroutines))
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						th.attempt(ad, times[i%len(times)], i%c.every == 0)
					}
				})
			})
		}
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
