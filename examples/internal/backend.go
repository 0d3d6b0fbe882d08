package main

import (
	"net/http"
	"sync"
	"time"
)

// backend does one call after the other and refuses those that would wait too long.
// A refusal is work too; so it can be busy with nothing else.
type backend struct {
	arrived func() // a call came in

	mu   sync.Mutex
	busy time.Time // until then
}

const (
	queue   = 200 * time.Millisecond // what it takes on at most
	backlog = time.Second            // refusals beyond which it drops calls unread
)

// ServeHTTP implements [http.Handler].
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.arrived()
	done, ok := b.take(time.Now())
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	timer := time.NewTimer(time.Until(done))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done(): // the work is done all the same
	}
}

// take returns when a call that comes now is done, or false if it is refused.
func (b *backend) take(now time.Time) (done time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy.Before(now) {
		b.busy = now
	}
	switch waiting := b.busy.Sub(now); {
	case waiting <= queue:
		b.busy = b.busy.Add(seconds(1 / capacity))
		return b.busy, true
	case waiting < backlog:
		b.busy = b.busy.Add(seconds(refusal / capacity))
	}
	return time.Time{}, false
}

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
