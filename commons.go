package comity

import (
	"fmt"
	"sync"
	"time"
)

// commons are the accounts of Config.Limits, which all destinations share. The
// heads of the destinations' queues stand in one more queue for each set of
// accounts, so that one unit wakes one call. Its lock is taken below a pacer's.
type commons struct {
	rules []limitRule

	mu     sync.Mutex
	led    ledger
	queues map[string]*commonQueue
	seq    uint64
	asks   uint64 // times limiters were asked, and
	grants uint64 // calls let go: their ratio is a promise
}

// newCommons returns the commons of a Config's Limits, nil if there are none.
func newCommons(ls []Limit) *commons {
	if len(ls) == 0 {
		return nil
	}
	return &commons{rules: ruleLimits(ls), queues: make(map[string]*commonQueue)}
}

// commonQueue holds the heads that wait for one set of accounts, by rank.
type commonQueue struct {
	key         string
	first, last [4]*commonWait
}

// commonWait is the place of a waiter in a commonQueue.
type commonWait struct {
	w          *waiter
	q          *commonQueue
	rank       uint8
	seq        uint64
	due        time.Time // of a head: when to ask again
	decides    *account
	prev, next *commonWait
}

func (q *commonQueue) head() *commonWait {
	for _, c := range q.first {
		if c != nil {
			return c
		}
	}
	return nil
}

func (q *commonQueue) push(c *commonWait) {
	c.q, c.prev = q, q.last[c.rank]
	if c.prev != nil {
		c.prev.next = c
	} else {
		q.first[c.rank] = c
	}
	q.last[c.rank] = c
}

func (q *commonQueue) remove(c *commonWait) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		q.first[c.rank] = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		q.last[c.rank] = c.prev
	}
	c.prev, c.next, c.q = nil, nil, nil
}

// askCommons takes the units of k in the commons, if y says that nothing else
// stands in its way; otherwise k gives up its place there, so that it keeps nobody
// waiting.
func (p *pacer) askCommons(k *turn, w *waiter, now time.Time, y *way) {
	cm := k.pol.shared
	cm.mu.Lock()
	defer cm.mu.Unlock()
	if !y.ok {
		if w != nil {
			cm.leave(w)
		}
		return
	}
	at, by, err := cm.take(k, w, now)
	switch {
	case err != nil:
		give(k.charges, now)
		*y = way{gate: by, why: ReasonLimit, err: err}
		if err == errCost {
			y.why = ReasonCost
		}
	case by != nil:
		give(k.charges, now)
		y.longer(at, by, ReasonLimit)
	}
}

// take takes the units of k, or says when to ask again: at is zero for a call
// that is not the head of its queue. It puts w in that queue, or takes it out.
func (cm *commons) take(k *turn, w *waiter, now time.Time) (at time.Time, by *account, err error) {
	rk := rankOf(classOf(k.crit, k.again))
	var me *commonWait
	if w != nil {
		me = w.common
	}
	if h := cm.claim(k, rk, me); h != nil {
		by = h.decides
		if by == nil {
			by = firstAsked(k.globals)
		}
		if me == nil && w == nil {
			return h.due, by, nil
		}
		cm.join(k, w, rk)
		return time.Time{}, by, nil
	}
	if me != nil && now.Before(me.due) {
		return me.due, me.decides, nil
	}
	cm.asks++
	wait, by, err := k.take(k.globals, now)
	if err == nil && by != nil && wait == Forever {
		err = errCost
	}
	if err != nil || by == nil {
		if w != nil {
			cm.leave(w)
		}
		if err == nil {
			cm.grants++
		}
		return time.Time{}, by, err
	}
	at = now.Add(wait)
	if w != nil {
		cm.join(k, w, rk)
		w.common.due, w.common.decides = at, by
	}
	return at, by, nil
}

// claim returns the head that keeps k from asking, or nil: the one before it in
// its own queue, or one whose deciding account k would spend.
func (cm *commons) claim(k *turn, rk uint8, me *commonWait) *commonWait {
	for _, q := range cm.queues {
		h := q.head()
		if h == nil || h == me || rk < h.rank || me != nil && rk == h.rank && me.seq < h.seq {
			continue
		}
		if me != nil && me.q == q {
			return h
		}
		for i := range k.globals {
			if c := k.globals[i].b; c == h.decides || h.decides == nil && !k.globals[i].off() {
				return h
			}
		}
	}
	return nil
}

// join puts w at the end of its queue, unless it stands there.
func (cm *commons) join(k *turn, w *waiter, rk uint8) {
	if w == nil || w.common != nil {
		return
	}
	key := ""
	for i := range k.globals {
		key += fmt.Sprintf("%p", k.globals[i].b)
	}
	q := cm.queues[key]
	if q == nil {
		q = &commonQueue{key: key}
		cm.queues[key] = q
	}
	cm.seq++
	w.common = &commonWait{w: w, rank: rk, seq: cm.seq}
	q.push(w.common)
}

// leave takes w out of its queue and wakes the next head.
func (cm *commons) leave(w *waiter) {
	c := w.common
	if c == nil {
		return
	}
	w.common = nil
	q := c.q
	wasHead := q.head() == c
	q.remove(c)
	h := q.head()
	switch {
	case h == nil:
		delete(cm.queues, q.key)
		cm.wakeOthers()
	case wasHead:
		h.w.signal()
	}
}

// wakeOthers wakes the heads of queues, which the head that left may have kept
// from asking.
func (cm *commons) wakeOthers() {
	for _, q := range cm.queues {
		if h := q.head(); h != nil && h.due.IsZero() {
			h.w.signal()
		}
	}
}

// leaveCommons takes w out of the commons.
func (p *pacer) leaveCommons(w *waiter) {
	if w.common == nil {
		return
	}
	cm := w.k.pol.shared
	cm.mu.Lock()
	cm.leave(w)
	cm.mu.Unlock()
}

// giveCommons gives back the units of k that were taken and not used.
func (k *turn) giveCommons(now time.Time) {
	if len(k.globals) == 0 || k.peeks {
		return
	}
	cm := k.pol.shared
	cm.mu.Lock()
	give(k.globals, now)
	for _, q := range cm.queues {
		if h := q.head(); h != nil {
			h.due = time.Time{}
			h.w.signal()
		}
	}
	cm.mu.Unlock()
}

// forceCommons charges the units of k without asking.
func (k *turn) forceCommons(now time.Time) {
	if len(k.globals) == 0 {
		return
	}
	k.pol.shared.mu.Lock()
	defer k.pol.shared.mu.Unlock()
	spend(k.globals, now)
}

// settleCommons corrects what k was charged, by unit.
func (k *turn) settleCommons(actual Cost, now time.Time) {
	if len(k.globals) == 0 {
		return
	}
	k.pol.shared.mu.Lock()
	defer k.pol.shared.mu.Unlock()
	settle(k.globals, actual, now)
}

// isCommons reports whether g is an account of a Config's limits. Who may have
// those is for the commons to say.
func isCommons(g gate) bool {
	a, ok := g.(*account)
	return ok && a.common
}
