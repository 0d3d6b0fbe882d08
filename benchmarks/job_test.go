package benchmarks

import (
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// TestQuotaJob gives every peer the same job on fake time: 200 calls by 8 workers
// to a partner that allows 20 in any 2 s and says so in its headers, 15 +-7 ms away.
// It prints the table of the README; it fails only if comity failed a call.
func TestQuotaJob(t *testing.T) {
	const calls, workers = 200, 8
	ideal := time.Duration((calls-1)/allowed) * window
	t.Logf("%-24s %6s %8s %7s %9s", "", "done", "refused", "failed", "of ideal")
	for _, p := range peers {
		synctest.Test(t, func(t *testing.T) {
			jitter := rand.New(rand.NewPCG(1, 2))
			var mu sync.Mutex
			api := &comitytest.API{
				Limits:  []comity.Limit{{N: allowed, Per: window, Algorithm: comity.SlidingLog}},
				Dialect: comity.IETF,
				Latency: func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return 2*15*time.Millisecond + time.Duration(jitter.Int64N(int64(28*time.Millisecond))) - 14*time.Millisecond
				},
			}
			client := &http.Client{Transport: p.wrap(api)}
			var done, failed, next atomic.Int64
			var wg sync.WaitGroup
			start := time.Now()
			for range workers {
				wg.Go(func() {
					for next.Add(1) <= calls {
						if get(client) {
							done.Add(1)
						} else {
							failed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			refused := 0
			for _, hit := range api.Hits() {
				if hit.Status == http.StatusTooManyRequests {
					refused++
				}
			}
			t.Logf("%-24s %6d %8d %7d %9.3f", p.name, done.Load(), refused, failed.Load(), float64(time.Since(start))/float64(ideal))
			if p.name == "comity" && failed.Load() > 0 {
				t.Errorf("comity failed %d calls", failed.Load())
			}
		})
	}
}

func get(client *http.Client) bool {
	res, err := client.Get("http://api.example/v1/items")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}
