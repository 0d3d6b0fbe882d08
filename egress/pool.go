package egress

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// pool hands out places. Who finds none waits behind those of its own class, and
// behind all of more critical ones. Its zero value has no place.
type pool struct {
	mu       sync.Mutex
	caps     [ranks]int // places that all calls together may take before one of the rank gets none
	inflight int
	peak     int // highest inflight since it was last set
	refused  int // would-be refusals in shadow
	waiting  [ranks]list.List
}

// waiter is a call that waits for a place.
type waiter struct {
	granted chan struct{} // closed when it has got one
	in      *list.Element // nil once it has
}

// enter takes a place, waiting for it at most wait and as long as ctx lasts. In
// shadow it takes one whether there is one or not.
func (p *pool) enter(ctx context.Context, rank int, wait time.Duration, shadow bool) error {
	p.mu.Lock()
	// Nobody waits who could have a place, so this overtakes nobody of its rank.
	if p.inflight < p.caps[rank] || shadow {
		if p.inflight >= p.caps[rank] {
			p.refused++
		}
		p.take()
		p.mu.Unlock()
		return nil
	}
	wait, late := patience(ctx, wait)
	if wait <= 0 {
		p.mu.Unlock()
		return late
	}
	w := &waiter{granted: make(chan struct{})}
	w.in = p.waiting[rank].PushBack(w)
	p.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.granted:
		return nil
	case <-timer.C:
		return p.giveUp(w, rank, late, false)
	case <-ctx.Done():
		return p.giveUp(w, rank, context.Cause(ctx), true)
	}
}

// giveUp ends the waiting of w with err. One that has got a place meanwhile keeps
// it, unless nobody has a use for it.
func (p *pool) giveUp(w *waiter, rank int, err error, useless bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.in != nil {
		p.waiting[rank].Remove(w.in)
		return err
	}
	if useless {
		p.free()
		return err
	}
	return nil
}

// leave gives a place back.
func (p *pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free()
}

func (p *pool) take() {
	p.inflight++
	p.peak = max(p.peak, p.inflight)
}

func (p *pool) free() {
	p.inflight--
	p.grant()
}

// resize sets how many places there are for each rank.
func (p *pool) resize(caps [ranks]int) {
	p.caps = caps
	p.grant()
}

// grant gives the places that are free to those who wait.
func (p *pool) grant() {
	for r := range p.waiting {
		for p.inflight < p.caps[r] {
			first := p.waiting[r].Front()
			if first == nil {
				break
			}
			w := p.waiting[r].Remove(first).(*waiter)
			w.in = nil
			p.take()
			close(w.granted)
		}
	}
}
