package comity_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
	"github.com/comity/comity/internal/limit"
)

// A job is work against a server that limits: calls made by workers of some
// clients that know nothing of each other, over a network that takes its time.
type job struct {
	server  comity.Limit
	dialect *comity.Dialect // how the server reports its limit; nil is a bare 429
	counts  bool            // the server counts refused calls too

	clients, workers, calls int // workers of each client, calls of all together
	trip, jitter            time.Duration
	seed                    uint64

	// wrap makes the transport of one client. It is called in the bubble.
	wrap func(base http.RoundTripper) http.RoundTripper
}

// outcome is how a job went.
type outcome struct {
	took    time.Duration
	ideal   time.Duration // the least that the server allows, without a network
	refused int           // calls that the server refused
	blind   int           // of those, sent before the first answer was here (without jitter)
	failed  int           // calls that ended with anything but 200
	even    float64       // rate of the slowest client by that of the fastest
}

// use returns the share of the ideal that was reached.
func (o outcome) use() float64 { return o.ideal.Seconds() / o.took.Seconds() }

func (o outcome) String() string {
	return fmt.Sprintf("%5.1f %% of ideal, %4d refused, %d failed", 100*o.use(), o.refused, o.failed)
}

// newJob returns the job that pacing is measured by: 2,000 calls, 16 workers, each way
// 15 ms give or take 7.
func newJob(server comity.Limit, seed uint64) job {
	return job{
		server: server, dialect: comitytest.RetryAfterOnly,
		clients: 1, workers: 16, calls: 2000, trip: 15 * time.Millisecond, jitter: 7 * time.Millisecond, seed: seed,
	}
}

// jobServers are the servers that allow 10 calls a second in the long run.
var jobServers = []comity.Limit{
	{Name: "fixed window", N: 100, Per: 10 * time.Second, Algorithm: comity.FixedWindow},
	{Name: "sliding log", N: 100, Per: 10 * time.Second, Algorithm: comity.SlidingLog},
	{Name: "sliding window", N: 100, Per: 10 * time.Second, Algorithm: comity.SlidingWindow},
	{Name: "bucket of 100", N: 100, Per: 10 * time.Second, Burst: 100},
	{Name: "bucket of 10", N: 10, Per: time.Second, Burst: 10},
	{Name: "queue of 10", N: 10, Per: time.Second, Burst: 10, Algorithm: comity.LeakyBucket},
	{Name: "gcra, burst 5", N: 10, Per: time.Second, Burst: 5, Algorithm: comity.GCRA},
	{Name: "gcra, burst 1", N: 10, Per: time.Second, Burst: 1, Algorithm: comity.GCRA},
}

// run does the job in fake time.
func (j job) run(t *testing.T) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(j.seed, 11))
		time.Sleep(time.Duration(rnd.Int64N(int64(j.server.Per)))) // anywhere in a window
		api := &comitytest.API{Limits: []comity.Limit{j.server}, Dialect: j.dialect, CountsAll: j.counts}
		net := &network{base: api, trip: j.trip, jitter: j.jitter, rnd: rnd}
		start := time.Now()
		o.ideal = j.least(start)
		rates := make([]float64, j.clients)
		var failed atomic.Int64
		var wg sync.WaitGroup
		for c := range j.clients {
			wg.Go(func() {
				calls := j.calls / j.clients
				failed.Add(j.work(&http.Client{Transport: j.wrap(net)}, calls))
				rates[c] = float64(calls) / time.Since(start).Seconds()
			})
		}
		wg.Wait()
		o.took = time.Since(start)
		o.failed = int(failed.Load())
		o.refused = len(api.Over())
		for _, h := range api.Over() {
			if h.At.Sub(start) < 3*j.trip {
				o.blind++
			}
		}
		o.even = slices.Min(rates) / slices.Max(rates)
	})
	return o
}

// work makes calls and returns how many of them failed.
func (j job) work(client *http.Client, calls int) int64 {
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range j.workers {
		wg.Go(func() {
			for next.Add(1) <= int64(calls) {
				res, err := client.Get("http://api.example/things")
				if err != nil {
					failed.Add(1)
					continue
				}
				res.Body.Close()
				if res.StatusCode != http.StatusOK {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return failed.Load()
}

// least returns the time in which the server could serve all calls, asked at
// each at the first possible instant.
func (j job) least(start time.Time) time.Duration {
	now := start
	if l := j.server; l.Algorithm == comity.LeakyBucket {
		// Not only must all have room, the last must have left.
		return time.Duration(j.calls-1) * l.Per / time.Duration(l.N)
	}
	m := mirror(j.server)
	for range j.calls {
		now = now.Add(m.Wait(now, 1))
		m.Adjust(now, 1)
	}
	return now.Sub(start)
}

// network takes a random time for each way of a call.
type network struct {
	base         http.RoundTripper
	trip, jitter time.Duration

	mu  sync.Mutex
	rnd *rand.Rand
}

// draw returns the time of one way.
func (n *network) draw() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.trip + time.Duration((2*n.rnd.Float64()-1)*float64(n.jitter))
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) { return n.send(r, n.draw()) }

// send brings r there in the given time, and the answer back.
func (n *network) send(r *http.Request, there time.Duration) (*http.Response, error) {
	if err := pause(r.Context(), there); err != nil {
		return nil, err
	}
	res, err := n.base.RoundTrip(r)
	if err := pause(r.Context(), n.draw()); err != nil {
		return nil, err
	}
	return res, err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// oracle is the control: a client that always knows what the server would say. It
// does not know how long its next call will be under way, so it counts on the
// shortest time there is and never sends what might be refused.
type oracle struct {
	net *network

	mu     sync.Mutex
	server counter
}

func newOracle(server comity.Limit) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		return &oracle{net: base.(*network), server: mirror(server)}
	}
}

func (o *oracle) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		o.mu.Lock()
		soonest := time.Now().Add(o.net.trip - o.net.jitter)
		d := o.server.Wait(soonest, 1)
		if d > 0 {
			o.mu.Unlock()
			if err := pause(r.Context(), d); err != nil {
				return nil, err
			}
			continue
		}
		there := o.net.draw()
		o.server.Adjust(time.Now().Add(there), 1)
		o.mu.Unlock()
		return o.net.send(r, there)
	}
}

// counter is what a server keeps of a limit.
type counter interface {
	Wait(now time.Time, n int) time.Duration
	Adjust(now time.Time, n int)
}

func mirror(l comity.Limit) counter {
	if l.Algorithm == comity.LeakyBucket {
		return limit.NewQueue(&limit.Rule{N: l.N, Per: l.Per, Burst: l.Burst})
	}
	m, err := comity.NewLimiter(l)
	if err != nil {
		panic(err)
	}
	return m.(limit.Limiter)
}

// TestJobOracle: what the job is measured against can nearly be reached, and
// the rest is the network's: calls that must not come early come late by half of
// what a way may differ.
func TestJobOracle(t *testing.T) {
	for _, server := range jobServers {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			j := newJob(server, 1)
			j.wrap = newOracle(server)
			o := j.run(t)
			t.Log(o)
			require.Zero(t, o.refused)
			require.Zero(t, o.failed)
			require.LessOrEqual(t, o.use(), 1.0)
			if server.Burst == 1 {
				require.InDelta(t, 0.935, o.use(), 0.005)
				return
			}
			require.Greater(t, o.use(), 0.98)
		})
	}
}

// TestJobNeedsPacing: a bare client is refused nearly all the time.
func TestJobNeedsPacing(t *testing.T) {
	for _, server := range jobServers {
		j := newJob(server, 1)
		j.wrap = func(base http.RoundTripper) http.RoundTripper { return base }
		o := j.run(t)
		require.Equal(t, o.refused, o.failed)
		require.Greater(t, o.failed, j.calls/2, server.Name)
	}
}
