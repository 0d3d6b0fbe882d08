package comity

import (
	"time"
)

// classes is the number of classes that wait apart: four criticalities, and in
// each the calls that are tried again before first tries.
const classes = 8

// classOf returns the class of a call; a lower one goes first.
func classOf(c Criticality, again bool) uint8 {
	var n uint8
	switch {
	case c >= CriticalPlus:
		n = 0
	case c >= Critical || c == 0:
		n = 2
	case c == SheddablePlus:
		n = 4
	default:
		n = 6
	}
	if again {
		return n
	}
	return n + 1
}

// rankOf orders classes across queues: only the criticality counts there.
func rankOf(class uint8) uint8 { return class / 2 }

// gate identifies what keeps a call: an account, a quota, or one of a pacer's own
// (its hold, its places, its delay, its rate). Gates are compared by address.
type gate any

// waiter is a call that is held back.
type waiter struct {
	k     *turn
	class uint8
	seq   uint64 // age within the pacer
	since time.Time
	wake  chan struct{} // holds one: something was decided
	timer *time.Timer
	state waiterState
	err   error // why it was refused, with stateRefused

	until time.Time // it leaves then; zero is never
	bound bound     // why, for judging again

	q          *queue
	prev, next *waiter

	// Of the head of a queue only.
	due     time.Time // when to ask again; zero: not before another call ends
	decides gate      // what keeps it longest: kept for it from the younger
	why     Reason
	stamp   uint32 // the pacer's epoch when it was asked last
	armed   time.Time

	common *commonWait // its place in the queue of Config.Limits
}

// waiterState is what became of a waiter.
type waiterState uint8

const (
	stateWaiting waiterState = iota
	stateGranted
	stateRefused
	stateReprice // the policies changed: its cost is asked anew
)

// signal wakes w's goroutine to look at its state.
func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// inTime reports whether due, which is known, is soon enough for w.
func (w *waiter) inTime(due time.Time) bool { return !due.IsZero() && !w.bound.before(due) }

// arm lets w's timer fire at due, or at until if that is sooner. A due in the
// past fires at once.
func (w *waiter) arm(due, now time.Time) {
	at := w.until
	if !due.IsZero() && (at.IsZero() || due.Before(at) || w.inTime(due)) {
		at = due
	}
	if at.Equal(w.armed) {
		return
	}
	w.armed = at
	if at.IsZero() {
		w.timer.Stop()
		return
	}
	w.timer.Reset(max(at.Sub(now), 0))
}

// queue holds the calls of one set of accounts, in the order in which they go.
type queue struct {
	key   queueKey
	place int // among the queues that are not empty
	first [classes]*waiter
	last  [classes]*waiter
	n     int
}

// queueKey names a set of accounts and quotas: the accounts by address.
type queueKey struct {
	a, b, c *account
	quotas  uint32 // bound quotas, by place
	more    string // further accounts
}

// head returns the waiter that goes next, or nil. With fresh it is, if there is
// one, a waiter that was not refused before.
func (q *queue) head(fresh bool) *waiter {
	var any *waiter
	for c := range q.first {
		w := q.first[c]
		if w == nil {
			continue
		}
		if !fresh {
			return w
		}
		if any == nil {
			any = w
		}
		for ; w != nil; w = w.next {
			if w.k.refusals == 0 {
				return w
			}
		}
	}
	return any
}

// push puts w behind the older ones of its class.
func (q *queue) push(w *waiter) {
	w.q = q
	after := q.last[w.class]
	for after != nil && after.seq > w.seq {
		after = after.prev
	}
	if after == nil {
		w.prev, w.next = nil, q.first[w.class]
		q.first[w.class] = w
	} else {
		w.prev, w.next = after, after.next
		after.next = w
	}
	if w.next != nil {
		w.next.prev = w
	} else {
		q.last[w.class] = w
	}
	q.n++
	queueUnits(w.k.charges, w.class, 1)
}

// remove takes w out.
func (q *queue) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first[w.class] = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last[w.class] = w.prev
	}
	w.prev, w.next, w.q = nil, nil, nil
	q.n--
	queueUnits(w.k.charges, w.class, -1)
}

// before reports whether a goes before b across queues: the more critical, then
// the older.
func before(a, b *waiter) bool {
	if ra, rb := rankOf(a.class), rankOf(b.class); ra != rb {
		return ra < rb
	}
	return a.seq < b.seq
}
