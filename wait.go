package comity

import (
	"context"
	"time"
)

// bound is when a call that waits has to leave: at the end of MaxWait, or just
// before its context ends.
type bound struct {
	maxWait  time.Time // zero: it may wait as long as its context
	deadline time.Time // zero: its context has none
}

// leaveEarly is how long before the end of its context a waiting call is given
// up: net/http would put its own error in place of ours otherwise.
const leaveEarly = time.Millisecond

func boundOf(ctx context.Context, k *turn, now time.Time) bound {
	var b bound
	if k.maxWait != Forever {
		b.maxWait = now.Add(max(k.maxWait-k.waited, 0))
	}
	if d, ok := ctx.Deadline(); ok {
		b.deadline = d
	}
	return b
}

// at is when a call whose turn did not come leaves.
func (b bound) at() time.Time {
	at := b.maxWait
	if !b.deadline.IsZero() {
		if d := b.deadline.Add(-leaveEarly); at.IsZero() || d.Before(at) {
			at = d
		}
	}
	return at
}

// before reports whether the call has to leave before est; an est that is not
// known is not.
func (b bound) before(est time.Time) bool {
	return !est.IsZero() && (!b.maxWait.IsZero() && b.maxWait.Before(est) ||
		!b.deadline.IsZero() && !est.Before(b.deadline))
}

// byDeadline reports whether the context, and not MaxWait, ends the wait.
func (b bound) byDeadline() bool {
	return !b.deadline.IsZero() && (b.maxWait.IsZero() || b.deadline.Before(b.maxWait))
}

// timeUp reports whether w has to leave now. The head of a queue whose turn is known
// to come in the last moment before its deadline stays for it.
func (p *pacer) timeUp(w *waiter, now time.Time) bool {
	if w.until.IsZero() || now.Before(w.until) {
		return false
	}
	return !w.inTime(w.due) || !w.due.After(now) || w.q.head(p.told.wantsFresh(now)) != w
}

// wait blocks until w is decided.
func (p *pacer) wait(ctx context.Context, w *waiter) (time.Time, error) {
	k := w.k
	for {
		select {
		case <-w.wake:
		case <-w.timer.C:
		case <-ctx.Done():
		}
		now := time.Now()
		p.mu.Lock()
		p.wallStep(now)
		if w.state == stateWaiting && ctx.Err() == nil {
			w.armed = time.Time{}
			p.dispatch(now) // first: its turn may come just when its time is up
			if w.state == stateWaiting && p.timeUp(w, now) {
				p.turnAway(w, now)
				p.dispatch(now)
			}
		}
		state := w.state
		switch {
		case state == stateWaiting && ctx.Err() == nil:
			p.mu.Unlock()
			continue
		case state == stateGranted && ctx.Err() != nil:
			p.putBack(k, now)
		case state == stateWaiting:
			p.leaveLine(w, now)
			p.freed(now)
		}
		k.waited = addDuration(k.waited, now.Sub(w.since))
		p.mu.Unlock()
		w.timer.Stop()
		switch {
		case ctx.Err() != nil && state != stateRefused && state != stateReprice:
			return now, context.Cause(ctx)
		case state == stateRefused:
			return now, w.err
		case state == stateReprice:
			return p.reprice(ctx, k, now)
		}
		return now, nil
	}
}
