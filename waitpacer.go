package comity

import (
	"context"
	"fmt"
	"time"
)

// A Pacer decides when the next call may go, from its limiters and from what
// the server has said. Calls that wait do so first in, first out within their
// criticality. It works without HTTP.
//
// The zero Pacer has no limiters: it obeys what it learns. A Pacer is safe for
// concurrent use and must not be copied.
type Pacer struct {
	p     pacer
	rules []*limitRule
	pol   policy
}

// NewPacer returns a Pacer that obeys every one of limiters.
func NewPacer(limiters ...Limiter) *Pacer {
	p := &Pacer{}
	p.pol.Retry = p.pol.Retry.withDefaults()
	now := time.Now()
	for i, l := range limiters {
		r := &limitRule{id: fmt.Sprint("#", i), label: fmt.Sprint("limiter ", i), unit: unitRequests}
		p.rules = append(p.rules, r)
		p.p.led.add(&charge{rule: r}, l, now)
	}
	return p
}

// turn returns a turn of n units.
func (p *Pacer) turn(ctx context.Context, n int) *turn {
	k := &turn{by: waits{}, pol: &p.pol, crit: CallFrom(ctx).Criticality, maxWait: Forever}
	for i := range p.rules {
		k.charges = append(k.charges, charge{rule: p.rules[i], n: max(n, 0)})
	}
	return k
}

// waits is the caller of a Pacer: it has no hooks.
type waits struct{}

func (waits) waiting(time.Duration, Reason) {}
func (waits) repolicy() *policy             { return nil }

// Wait blocks until n units may be used. It fails at once, spending nothing,
// if ctx would end first: then with a [*ThrottledError] that wraps
// [context.DeadlineExceeded]. If ctx is canceled it fails with the cause. The
// criticality is that of the [Call] in ctx.
func (p *Pacer) Wait(ctx context.Context, n int) error {
	now := time.Now()
	k := p.turn(ctx, n)
	_, err := p.p.acquire(ctx, k, now)
	if err != nil {
		return err
	}
	p.p.mu.Lock()
	defer p.p.mu.Unlock()
	// There is no body whose end would come: a Pacer has no places.
	k.placed = false
	p.p.inFlight--
	return nil
}

// Next reports when n units could be used, spending nothing.
func (p *Pacer) Next(now time.Time, n int) Readiness {
	return p.p.next(p.turn(context.Background(), n), now)
}

// Hold stops all calls until the given time; the zero time ends a hold.
func (p *Pacer) Hold(until time.Time) { p.p.holdFor(time.Now(), until) }

// Learn takes in the end, at now, of a call that Wait let go at sent, and what
// the server said. Call it once for each such call; one that got no answer
// passes its Verdict and an Advice whose RetryAfter is -1.
func (p *Pacer) Learn(sent, now time.Time, v Verdict, a Advice) {
	p.p.learnOf(&p.pol, sent, now, v, &a)
}
