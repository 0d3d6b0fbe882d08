package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The job of every server here: more calls than it has quota for, from more
// workers than one round trip at a time would need.
const (
	jobCalls   = 300
	jobWorkers = 8

	// All servers serve burst calls at once and rate calls a second after that.
	burst = 20
	rate  = 10
)

// ideal is the least time in which a server serves calls calls.
func ideal(calls int) time.Duration {
	return time.Duration(calls-burst) * time.Second / rate
}

// tally is what became of a job.
type tally struct {
	calls   int
	done    int // answered 200
	failed  int // an error, or any other status
	sent    int // tries that reached the server
	refused int // tries that it answered 429 or 503
	took    time.Duration
	first   string // the first failure
}

// ofIdeal is how much longer than the ideal the job took.
func (t tally) ofIdeal() float64 { return float64(t.took) / float64(ideal(t.calls)) }

func (t tally) String() string {
	s := fmt.Sprintf("%d calls: %d done, %d failed, %d refused of %d sent, %.1f s, %.3f of ideal",
		t.calls, t.done, t.failed, t.refused, t.sent, t.took.Seconds(), t.ofIdeal())
	if t.first != "" {
		s += "; first failure: " + t.first
	}
	return s
}

// counter is a base transport that counts what goes over the wire.
type counter struct {
	base          http.RoundTripper
	sent, refused atomic.Int64
}

func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	res, err := c.base.RoundTrip(req)
	if err == nil && (res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable) {
		c.refused.Add(1)
	}
	return res, err
}

// run does the job against url through the client transport that wrap puts
// round a counting one.
func run(ctx context.Context, url string, calls, workers int, wrap func(http.RoundTripper) http.RoundTripper) tally {
	conns := &http.Transport{MaxIdleConnsPerHost: workers}
	defer conns.CloseIdleConnections()
	wire := &counter{base: conns}
	client := &http.Client{Transport: wrap(wire)}

	var (
		mu    sync.Mutex
		t     = tally{calls: calls}
		next  atomic.Int64
		wg    sync.WaitGroup
		start = time.Now()
	)
	for range workers {
		wg.Go(func() {
			for next.Add(1) <= int64(calls) {
				err := get(ctx, client, url)
				mu.Lock()
				if err == nil {
					t.done++
				} else {
					t.failed++
					if t.first == "" {
						t.first = err.Error()
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.took = time.Since(start)
	t.sent, t.refused = int(wire.sent.Load()), int(wire.refused.Load())
	return t
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", res.Status)
	}
	return nil
}

// slow skips t under -short: its job takes half a minute of real time.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("real servers, real time: not with -short")
	}
	t.Parallel()
}
