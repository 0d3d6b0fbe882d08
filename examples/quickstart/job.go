package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// tally is what became of a job so far.
type tally struct {
	done    int    // answered 200
	failed  int    // anything else, as the caller sees it
	refused int    // answered 429, as the partner sees it
	first   string // the first failure
	start   time.Time
	took    time.Duration
}

// job is one client's work: calls calls by workers workers.
type job struct {
	name   string
	url    string
	client *http.Client
	wire   *wire
	over   chan struct{} // closed at the end

	mu  sync.Mutex // guards what follows
	t   tally
	end time.Time
}

func newJob(name, url string, wrap func(http.RoundTripper) http.RoundTripper) *job {
	w := &wire{base: &http.Transport{MaxIdleConnsPerHost: workers}}
	return &job{
		name: name, url: url, wire: w, over: make(chan struct{}),
		client: &http.Client{Transport: wrap(w)},
	}
}

// wire sends, and counts the refusals that come back.
type wire struct {
	base    http.RoundTripper
	refused atomic.Int64
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := w.base.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusTooManyRequests {
		w.refused.Add(1)
	}
	return res, err
}

func (j *job) run(ctx context.Context) {
	defer close(j.over)
	j.mu.Lock()
	j.t.start = time.Now()
	j.mu.Unlock()

	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for next.Add(1) <= calls {
				j.count(j.call(ctx))
			}
		})
	}
	wg.Wait()

	j.mu.Lock()
	j.end = time.Now()
	j.mu.Unlock()
}

func (j *job) call(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.url, nil)
	if err != nil {
		return err
	}
	res, err := j.client.Do(req)
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

func (j *job) count(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		j.t.done++
		return
	}
	j.t.failed++
	if j.t.first == "" {
		j.t.first = err.Error()
	}
}

func (j *job) tally() tally {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.t
	t.refused = int(j.wire.refused.Load())
	switch {
	case !j.end.IsZero():
		t.took = j.end.Sub(t.start)
	case !t.start.IsZero():
		t.took = time.Since(t.start)
	}
	return t
}
