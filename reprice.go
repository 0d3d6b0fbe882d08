package comity

import (
	"context"
	"slices"
	"time"
)

// repriceAll sends everybody who waits to ask anew, under the policies that hold
// now; they keep their age. Until they are back, nobody who would have gone behind
// them may go: their goroutines come in no order.
func (p *pacer) repriceAll(now time.Time) {
	if p.line == nil {
		return
	}
	for len(p.line.busy) > 0 {
		w := p.line.busy[0].head(false)
		w.k.away = true
		p.line.away = append(p.line.away, w.k)
		p.decide(w, stateReprice, now)
	}
}

// reprice has the call of k ask anew.
func (p *pacer) reprice(ctx context.Context, k *turn, now time.Time) (time.Time, error) {
	defer func() {
		if k.away { // it was given up meanwhile
			p.mu.Lock()
			p.back(k)
			p.freed(now)
			p.mu.Unlock()
		}
	}()
	if ctx.Err() != nil {
		return now, context.Cause(ctx)
	}
	k.pol = k.by.repolicy()
	k.price()
	return p.acquire(ctx, k, now)
}

// back notes that the call of k asks again.
func (p *pacer) back(k *turn) {
	k.away = false
	l := p.line
	if i := slices.Index(l.away, k); i >= 0 {
		l.away = slices.Delete(l.away, i, i+1)
	}
}

// awaits reports whether a call has to let one go first that is about to ask anew.
func (l *line) awaits(class uint8, seq uint64) bool {
	if l == nil {
		return false
	}
	for _, k := range l.away {
		c := classOf(k.crit, k.again)
		if rankOf(c) < rankOf(class) || rankOf(c) == rankOf(class) && k.seq < seq {
			return true
		}
	}
	return false
}

// unlockAfter ends a step of a call; of one that was away, others may have waited for
// its return.
func (p *pacer) unlockAfter(away bool, now time.Time) {
	if away {
		p.dispatch(now)
	}
	p.mu.Unlock()
}
