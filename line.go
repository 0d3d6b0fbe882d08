package comity

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// line is the calls of a pacer that wait: a queue for each set of accounts. The
// lock of the pacer guards it.
type line struct {
	queues map[queueKey]*queue
	busy   []*queue  // those that are not empty
	heads  []*waiter // scratch of dispatch
	away   []*turn   // calls that waited and are about to ask anew
	armed  *waiter   // the head whose timer stands for all
}

// queueOf returns the queue for calls with the accounts and quotas of k; a call that
// was refused for its own sake has one of its own.
func (l *line) queueOf(k *turn, quotas uint32) *queue {
	key := queueKey{quotas: quotas}
	n := 0
	for i := range k.charges {
		c := &k.charges[i]
		if c.rule.Shadow {
			continue
		}
		switch n++; n {
		case 1:
			key.a = c.b
		case 2:
			key.b = c.b
		case 3:
			key.c = c.b
		default:
			key.more += fmt.Sprintf("%p", c.b)
		}
	}
	for i := range k.globals {
		if k.globals[i].rule.Shadow {
			continue
		}
		key.more += fmt.Sprintf("%p", k.globals[i].b)
	}
	if s := k.suspect; s != nil && !s.until.IsZero() {
		key.more += fmt.Sprintf("%p", s) // it waits alone: nobody stands behind it
	}
	q := l.queues[key]
	if q == nil {
		q = &queue{key: key, place: -1}
		if l.queues == nil {
			l.queues = make(map[queueKey]*queue)
		}
		l.queues[key] = q
	}
	return q
}

// add puts w in q.
func (l *line) add(q *queue, w *waiter) {
	if q.n == 0 {
		q.place = len(l.busy)
		l.busy = append(l.busy, q)
	}
	q.push(w)
}

// drop takes w out of its queue.
func (l *line) drop(w *waiter) {
	q := w.q
	q.remove(w)
	if q.n > 0 {
		return
	}
	last := l.busy[len(l.busy)-1]
	l.busy[q.place], last.place = last, q.place
	l.busy = l.busy[:len(l.busy)-1]
	delete(l.queues, q.key)
}

// claim returns the head that keeps k, a newcomer, from going, or nil: one of its
// own queue, or one whose deciding gate k would pass, unless k is more critical.
func (l *line) claim(p *pacer, k *turn) *waiter {
	class := classOf(k.crit, k.again)
	for _, q := range l.busy {
		h := q.head(false)
		if h == nil || rankOf(class) < rankOf(h.class) || rankOf(class) == rankOf(h.class) && k.seq < h.seq {
			continue
		}
		if k.passes(p, h.decides) {
			return h
		}
	}
	return nil
}

// passes reports whether a call of k needs what g guards.
func (k *turn) passes(p *pacer, g gate) bool {
	switch g := g.(type) {
	case nil:
		return true
	case *account:
		for i := range k.charges {
			if k.charges[i].b == g {
				return true
			}
		}
		for i := range k.globals {
			if k.globals[i].b == g {
				return true
			}
		}
		return false
	case *quota:
		return g.binds(k)
	case *suspect:
		return g == k.suspect // nobody else waits for it
	case *pace:
		return !p.told.paces(k)
	case *int32:
		return k.pol.MaxInFlight > 0
	case *time.Time:
		return k.pol.Delay != Delay{}
	}
	return true
}

// enqueue makes k wait, or says why it may not. y is what stands in its way; waited
// is true for a call that waits already, and asked anew.
func (p *pacer) enqueue(ctx context.Context, k *turn, y way, waited bool, now time.Time) (*waiter, error) {
	if y.err != nil {
		return nil, p.refuse(k, y, time.Time{}, now, bound{})
	}
	if n := k.pol.MaxWaiting; n != 0 && !k.again && !waited && int(p.waiting) >= max(n, 0) {
		return nil, p.refuse(k, way{gate: y.gate, why: ReasonQueue, at: y.at}, y.at, now, bound{})
	}
	b := boundOf(ctx, k, now)
	class := classOf(k.crit, k.again)
	est := y.at
	if p.waiting > 0 && !est.IsZero() {
		est = p.estimate(k, class, est, now)
	}
	if k.maxWait <= 0 || b.before(est) {
		return nil, p.refuse(k, y, est, now, b)
	}
	if p.told != nil && p.told.gone(k, now) {
		return nil, p.refuse(k, y, est, now, b)
	}
	if p.line == nil {
		p.line = &line{}
	}
	w := &waiter{
		k: k, class: class, seq: k.seq, since: now, wake: make(chan struct{}, 1), timer: time.NewTimer(maxHold),
		bound: b, until: b.at(), due: y.at, decides: y.gate, why: y.why,
	}
	w.stamp = p.epoch - 1
	w.armed = now.Add(maxHold)
	p.line.add(p.line.queueOf(k, p.told.mask(k)), w)
	p.waiting++
	p.pace.start(now)
	w.arm(time.Time{}, now)
	p.dispatch(now)
	return w, nil
}

// leaveLine takes w out of the line.
func (p *pacer) leaveLine(w *waiter, now time.Time) {
	p.line.drop(w)
	p.waiting--
	if p.line.armed == w {
		p.line.armed = nil
	}
	p.leaveCommons(w)
	if p.waiting == 0 && p.told != nil {
		p.told.drained()
	}
	if p.waiting == 0 && p.inFlight == 0 {
		p.pace.stop(now)
	}
}

// decide takes w out of the line with what became of it.
func (p *pacer) decide(w *waiter, s waiterState, now time.Time) {
	p.leaveLine(w, now)
	w.state = s
	w.signal()
}

// turnAway refuses w, whose time to wait is up or cannot suffice.
func (p *pacer) turnAway(w *waiter, now time.Time) {
	y := way{at: w.due, gate: w.decides, why: w.why}
	if y.gate == nil {
		y.why = ReasonHeld
	}
	w.k.waited = addDuration(w.k.waited, now.Sub(w.since))
	w.err = p.refuse(w.k, y, w.due, now, w.bound)
	w.k.waited -= now.Sub(w.since)
	p.decide(w, stateRefused, now)
}

// dispatch lets go whoever may go now, in order, and arms the timer of the head
// that may go next.
func (p *pacer) dispatch(now time.Time) {
	for p.waiting > 0 && p.dispatchOne(now) {
	}
	if p.waiting > 0 {
		p.arm(now)
	}
}

// dispatchOne lets one waiter go, or refuses one; it reports whether it did.
func (p *pacer) dispatchOne(now time.Time) bool {
	l := p.line
	fresh := p.told.wantsFresh(now)
	l.heads = l.heads[:0]
	for _, q := range l.busy {
		l.heads = append(l.heads, q.head(fresh))
	}
	slices.SortFunc(l.heads, func(a, b *waiter) int {
		if fresh && (a.k.refusals == 0) != (b.k.refusals == 0) {
			if a.k.refusals == 0 {
				return -1
			}
			return 1
		}
		if before(a, b) {
			return -1
		}
		return 1
	})
	for i, w := range l.heads {
		if l.awaits(w.class, w.seq) {
			w.due, w.stamp = time.Time{}, p.epoch-1
			continue
		}
		if g, ok := p.kept(l.heads[:i], w); ok {
			w.due, w.decides, w.why, w.stamp = g.due, g.decides, g.why, p.epoch-1
			continue
		}
		if w.stamp == p.epoch && !w.due.IsZero() && now.Before(w.due) && w.common == nil {
			continue
		}
		y := p.ask(w.k, w, now)
		if y.ok {
			if fresh {
				p.told.overtakes(l, w.k)
			}
			p.grant(w.k, now)
			p.decide(w, stateGranted, now)
			return true
		}
		if y.err != nil {
			w.err = p.refuse(w.k, y, time.Time{}, now, bound{})
			p.decide(w, stateRefused, now)
			return true
		}
		w.due, w.decides, w.why, w.stamp = y.at, y.gate, y.why, p.epoch
		if w.bound.before(w.due) {
			p.turnAway(w, now)
			return true
		}
	}
	return false
}

// kept returns the first of the heads before w whose deciding gate w would pass:
// that gate is kept for it.
func (p *pacer) kept(earlier []*waiter, w *waiter) (*waiter, bool) {
	for _, h := range earlier {
		if h.decides != nil && !isCommons(h.decides) && w.k.passes(p, h.decides) {
			return h, true
		}
	}
	return nil, false
}

// arm sets the timer of the head that may go first; the others wake only to
// leave.
func (p *pacer) arm(now time.Time) {
	var next *waiter
	for _, w := range p.line.heads {
		if w.q != nil && !w.due.IsZero() && (next == nil || w.due.Before(next.due)) {
			next = w
		}
	}
	if was := p.line.armed; was != nil && was != next {
		was.arm(time.Time{}, now)
	}
	p.line.armed = next
	if next != nil {
		next.arm(next.due, now)
	}
}

// judge refuses those whose turn cannot come in time any more, after a hold or a
// change of policy.
func (p *pacer) judge(now time.Time) {
	if p.waiting == 0 {
		return
	}
	start, held := now, false
	if p.told != nil && p.told.hold.holds(now) {
		start, held = p.told.hold.until, true
	}
	var late []*waiter
	for _, q := range p.line.busy {
		ahead := make([]int64, 0, 4) // units of the calls before, by place in their charges
		for c := range q.first {
			for w := q.first[c]; w != nil; w = w.next {
				est, g, why := start, gate(nil), ReasonLimit
				if held {
					g, why = &p.told.hold, ReasonHeld
				}
				for i := range w.k.charges {
					c := &w.k.charges[i]
					if i == len(ahead) {
						ahead = append(ahead, 0)
					}
					if c.rule.Shadow {
						continue
					}
					ahead[i] += int64(c.n)
					if at := c.b.freeAt(ahead[i], start, now); c.n > 0 && at.After(est) {
						est, g, why = at, c.b, ReasonLimit
					}
				}
				if w.bound.before(est) {
					w.due, w.decides, w.why = est, g, why
					late = append(late, w)
				}
			}
		}
	}
	for _, w := range late {
		p.turnAway(w, now)
	}
}

// estimate is the earliest time at which a call of k could go behind those that
// wait for the same limits, given that nothing goes before at.
func (p *pacer) estimate(k *turn, class uint8, at, now time.Time) time.Time {
	start := now
	if p.told != nil && p.told.hold.holds(now) {
		start = p.told.hold.until
	}
	for i := range k.charges {
		c := &k.charges[i]
		if c.b == nil || c.off() {
			continue
		}
		units := int64(c.n)
		for _, n := range c.b.queued[:class+1] {
			units += int64(n)
		}
		if t := c.b.freeAt(units, start, now); t.After(at) {
			at = t
		}
	}
	return at
}
