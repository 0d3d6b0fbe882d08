package limit_test

import (
	"testing"
	"time"

	"github.com/comity/comity/internal/limit"
)

// BenchmarkTake: a call that passes costs no allocation and stays well below a
// microsecond with every algorithm.
func BenchmarkTake(b *testing.B) {
	for _, a := range algorithms {
		b.Run("algorithm="+a.name, func(b *testing.B) {
			l, now := a.new(&limit.Rule{N: 1000, Per: time.Second}), epoch
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				l.Take(now, 1)
			}
		})
	}
}
