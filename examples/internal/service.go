package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/comity/comity"
)

// fleetRun is one fleet, its backend, and what became of its calls.
type fleetRun struct {
	fleet
	url     string
	base    http.RoundTripper
	backend backend
	start   time.Time

	mu        sync.Mutex // guards what follows
	series    [theEnd/time.Second + 1]second
	latencies []time.Duration // of the calls that succeeded in the overload
	classes   map[comity.Criticality]*share
}

// second is what happened in one second, by when it happened.
type second struct{ asked, wire, ok int }

// share is how many users of a class asked in the overload, and how many of those
// were served.
type share struct{ asked, ok int }

// mix is how critical the users' calls are. The backend does not know.
var mix = []struct {
	class comity.Criticality
	part  float64
}{{comity.CriticalPlus, 0.1}, {comity.Critical, 0.4}, {comity.SheddablePlus, 0.2}, {comity.Sheddable, 0.3}}

func newRun(f fleet) *fleetRun {
	r := &fleetRun{fleet: f, classes: map[comity.Criticality]*share{}}
	for _, m := range mix {
		r.classes[m.class] = &share{}
	}
	r.backend.arrived = func() { r.count(func(s *second) { s.wire++ }) }
	return r
}

// count changes what happened in this second.
func (r *fleetRun) count(change func(*second)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := time.Since(r.start); at < theEnd {
		change(&r.series[at/time.Second])
	}
}

// play runs all fleets at once, to the end or until ctx ends.
func play(ctx context.Context, runs []*fleetRun, shown *shown) {
	start := time.Now()
	var wg sync.WaitGroup
	for _, r := range runs {
		r.start = start
		for i := range uint64(instances) {
			wg.Go(func() { r.instance(ctx, rand.New(rand.NewPCG(i, 1))) })
		}
	}
	shown.begin(start)
	wg.Wait()
	shown.end()
}

// instance is one process of the service: it calls the backend for users who come
// at random.
func (r *fleetRun) instance(ctx context.Context, rnd *rand.Rand) {
	client := &http.Client{Transport: r.wrap(r.base), Timeout: patience}
	var wg sync.WaitGroup
	defer wg.Wait()
	next := r.start
	for ctx.Err() == nil {
		// A rate that changes: users come as at the peak, and some stay away.
		next = next.Add(seconds(rnd.ExpFloat64() * instances / capacity / loadDuring))
		if next.Sub(r.start) >= theEnd {
			return
		}
		if rnd.Float64() >= load(next.Sub(r.start))/loadDuring {
			continue
		}
		class := pick(rnd.Float64())
		sleep(ctx, time.Until(next))
		wg.Go(func() { r.call(ctx, client, class) })
	}
}

func pick(f float64) comity.Criticality {
	for _, m := range mix {
		if f -= m.part; f < 0 {
			return m.class
		}
	}
	return comity.Critical
}

// call serves one user.
func (r *fleetRun) call(ctx context.Context, client *http.Client, class comity.Criticality) {
	begun := time.Now()
	r.count(func(s *second) { s.asked++ })
	ok := get(comity.WithCall(ctx, comity.Call{Criticality: class}), client, r.url)
	if ok {
		r.count(func(s *second) { s.ok++ })
	}
	if at := begun.Sub(r.start); at < overloadAt || at >= recoverAt {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.classes[class]
	s.asked++
	if ok {
		s.ok++
		r.latencies = append(r.latencies, time.Since(begun))
	}
}

// get reports whether a call was answered with 200.
func get(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

// sum adds up seconds.
func (r *fleetRun) sum(from, to time.Duration) (sum second) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.series[from/time.Second : to/time.Second] {
		sum.asked += s.asked
		sum.wire += s.wire
		sum.ok += s.ok
	}
	return sum
}

// p99 returns the latency that all but one in a hundred of the calls served in the
// overload stayed under.
func (r *fleetRun) p99() time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	slices.Sort(r.latencies)
	return r.latencies[len(r.latencies)*99/100]
}

// retrier is the loop that is written in an afternoon: three tries, with backoff.
type retrier struct{ base http.RoundTripper }

func (r retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	for backoff := 100 * time.Millisecond; ; backoff *= 2 {
		res, err := r.base.RoundTrip(req)
		if err == nil && res.StatusCode < 500 || backoff > 200*time.Millisecond || req.Context().Err() != nil {
			return res, err
		}
		if res != nil {
			res.Body.Close()
		}
		sleep(req.Context(), backoff/2+rand.N(backoff/2))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
