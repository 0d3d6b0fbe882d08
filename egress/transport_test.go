package egress_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/egress"
)

// stream is a body that may be written to, as that of an upgraded connection.
type stream struct{ io.ReadCloser }

func (stream) Write(p []byte) (int, error) { return len(p), nil }

// chaos is a base that answers late, refuses, fails, panics and upgrades.
type chaos struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

func (c *chaos) draw(n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rnd.Int64N(n)
}

func (c *chaos) RoundTrip(req *http.Request) (*http.Response, error) {
	sleep := time.NewTimer(time.Duration(c.draw(int64(4 * time.Millisecond))))
	defer sleep.Stop()
	select {
	case <-sleep.C:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	res := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader("some body")), ContentLength: -1, Request: req}
	switch c.draw(10) {
	case 0:
		panic("the base")
	case 1:
		return nil, errors.New("connection lost")
	case 2:
		res.StatusCode = http.StatusServiceUnavailable
	case 3:
		res.StatusCode = http.StatusSwitchingProtocols
		res.Body = stream{res.Body}
	case 4:
		res.Body = http.NoBody
	}
	return res, nil
}

// counted is a Guard whose gates count who is in.
type counted struct {
	comity.Guard
	in *atomic.Int64
}

func (c counted) NewGate(dest string) comity.Gate {
	return countedGate{c.Guard.NewGate(dest), c.in}
}

type countedGate struct {
	comity.Gate
	in *atomic.Int64
}

func (g countedGate) Enter(a *comity.Attempt) error {
	err := g.Gate.Enter(a)
	if err == nil {
		g.in.Add(1)
	}
	return err
}

func (g countedGate) Leave(a *comity.Attempt) {
	g.in.Add(-1)
	g.Gate.Leave(a)
}

// However calls end, each gives its places back, in the gates and in the pacer.
func TestNoPlaceLeaksBehindATransport(t *testing.T) {
	ops := 20_000
	if os.Getenv("COMITY_LONG") != "" {
		ops = 100_000
	}
	synctest.Test(t, func(t *testing.T) {
		var adaptive, fixed atomic.Int64
		bulkhead := &egress.Bulkhead{Max: 10, Wait: 5 * time.Millisecond, Shares: egress.Shares{comity.Sheddable: 0.5}}
		policy := comity.Policy{
			Guards: []comity.Guard{
				counted{egress.Concurrency{Initial: 6, Target: 2 * time.Millisecond, Wait: 5 * time.Millisecond}, &adaptive},
				counted{bulkhead, &fixed},
			},
			MaxInFlight: 50,
			Adaptive:    comity.Adaptive{K: -1},
			Retry:       comity.Retry{Base: time.Millisecond, Cap: 5 * time.Millisecond},
		}
		rt, err := comity.New(&chaos{rnd: rand.New(rand.NewPCG(1, 2))},
			comity.Config{Policies: map[string]comity.Policy{"*.example": policy}})
		require.NoError(t, err)
		var wg sync.WaitGroup
		const workers = 40
		for w := range uint64(workers) {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(w, 3))
				for range ops / workers {
					careless(t, rt, rnd)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		for _, d := range rt.Destinations() {
			require.Zero(t, d.InFlight, d.Key)
			require.Zero(t, d.Waiting, d.Key)
		}
		require.Zero(t, adaptive.Load())
		require.Zero(t, fixed.Load())
		fill(t, bulkhead.NewGate("z"), 10, 0)
		require.Error(t, bulkhead.NewGate("z").Enter(attempt(t.Context(), 0)))
	})
}

// careless makes one call and ends it in one of the ways that callers do.
func careless(t *testing.T, rt http.RoundTripper, rnd *rand.Rand) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.Int64N(int64(60*time.Millisecond))))
	defer cancel()
	ctx = comity.WithCall(ctx, comity.Call{Criticality: comity.Criticality(rnd.IntN(5) - 2), Stream: rnd.IntN(20) == 0})
	host := []string{"a", "b", "c"}[rnd.IntN(3)]
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+".example/", nil)
	require.NoError(t, err)
	defer func() { _ = recover() }()
	res, err := rt.RoundTrip(req)
	if err != nil {
		return
	}
	switch rnd.IntN(4) {
	case 0: // unread and not closed: its context ends
	case 1: // closed unread, and once more
		res.Body.Close()
		res.Body.Close()
	case 2: // read, and not closed
		_, _ = io.Copy(io.Discard, res.Body)
	default:
		time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Millisecond))))
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// A service whose calls never end fills its own cap; calls to another, which share
// a bulkhead with it, go on as if nothing was.
func TestAHangingServiceLeavesOthersTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "hangs.example" {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return always(req)
		})
		shared := &egress.Bulkhead{Max: 20}
		rt, err := comity.New(base, comity.Config{Policies: map[string]comity.Policy{"*.example": {
			Guards: []comity.Guard{egress.Concurrency{Initial: 10, Max: 10, Target: time.Second, Wait: time.Second}, shared},
		}}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		call := func(host string) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
			require.NoError(t, err)
			_, err = rt.RoundTrip(req)
			return err
		}
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() { _ = call("hangs.example") })
		}
		synctest.Wait()
		for range 100 {
			start := time.Now()
			require.NoError(t, call("works.example"))
			require.Zero(t, time.Since(start))
		}
		cancel()
		wg.Wait()
	})
}
