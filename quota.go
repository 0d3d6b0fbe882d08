package comity

import (
	"time"
)

// Bounds of what a reported quota teaches.
const (
	nearReset    = 1100 * time.Millisecond
	lateReset    = 2 * time.Second // most that a server's reset is taken to be late
	earlyMisses  = 4               // early tries refused in a row that say wall
	tellingWall  = 2 * time.Second // a delay equal to the reset says wall from here on
	tellingSlack = time.Second     // a delay this much below the reset says refill
	blindScout   = time.Second     // an empty quota with neither reset nor window is asked again after it, doubled each time
)

// resetKind is what the reset of a quota means. No header says it.
type resetKind uint8

const (
	kindUnknown resetKind = iota
	kindWall              // a window: nothing before the reset
	kindRefill            // a bucket: the reset is when it is full, units come one a spacing
)

// nature is what a quota has learned of its resets, near or far.
type nature struct {
	kind    resetKind
	misses  int   // early tries refused in a row
	probeAt stamp // a wall is not probed again before
}

// quota is one limit as a server reports it, kept between answers: what remains,
// less the calls in flight, and when it grows. It is a plain state machine: no
// lock, no clock.
type quota struct {
	name   string
	unit   string
	limit  int64         // -1 if not known
	window time.Duration // -1 if not known

	known    bool          // rest was reported
	rest     int64         // units left as of the answer that set it
	flying   int64         // units of calls in flight
	setAt    stamp         // when the answer that set rest arrived
	base     stamp         // the latest that its call can have reached the server: a refill counts from there
	seenPace time.Duration // spacing seen where no window is stated; 0 until then
	steady   bool          // it was tried faster and refused
	passed   int           // tries in a row since that were not
	margin   margin        // what the pace of a refill has learned

	lo, hi stamp         // the reset lies in (lo, hi]; zero hi: not known
	told   time.Duration // the reset as the last answer stated it
	late   time.Duration // how late this server's resets come

	lastGo  stamp // the last call that spent it
	lastN   int64 // and how much
	lastOK  stamp // when the last accepted call was sent
	retryAt stamp // end of a delay told with a refusal: one call may go then
	probing bool  // a call is in flight that went although nothing is left
	blind   int   // scouts refused in a row without a reset

	share   sharing
	taken   int64     // units taken so far
	top     int64     // the most that was ever left
	mark    mark      // of the last answer that reported what is left
	natures [2]nature // near and far resets
	seen    stamp     // the last report
	in      uint64    // its number

	born    uint64   // sends before it was known: those calls count against it too
	partial bool     // it binds only calls to routes
	routes  []string // for which it was reported
	route   string   // the last of them
}

// mark is how far a quota was when an answer reported it.
type mark struct {
	at     int64 // units taken when its call went
	flying int64 // units in flight when it arrived
	rest   int64 // what it reported
	now    stamp
}

// rate is the quota's sustained rate a second; 0 if not known.
func (q *quota) rate() float64 {
	if sp := q.spacing(); sp > 0 {
		return float64(time.Second) / float64(sp)
	}
	return 0
}

// divisible is the rate that clients could divide: 0 where nothing is ever seen
// left, so that nobody could tell how much to take.
func (q *quota) divisible() float64 {
	if q.top < 1 {
		return 0
	}
	return q.rate()
}

// nature returns what q has learned of resets as far away as its present one.
func (q *quota) nature() *nature {
	if q.told <= nearReset {
		return &q.natures[0]
	}
	return &q.natures[1]
}

// spacing is the time between two units at the quota's sustained rate: what the
// server states, or what was seen. 0 if not known.
func (q *quota) spacing() time.Duration {
	if q.limit <= 0 || q.window <= 0 {
		return q.seenPace
	}
	return max(q.window/time.Duration(q.limit), 1)
}

// reset is when q grows at the latest; zero if not known.
func (q *quota) reset() stamp {
	if !q.hi.IsZero() {
		return q.hi.Add(q.late)
	}
	if q.window > 0 && !q.setAt.IsZero() {
		return q.setAt.Add(q.window)
	}
	return 0
}

// ready reports whether n units may be used at now. If not, at is when to ask
// again; zero if that depends on an answer. early is true for a call that goes
// although the quota counts as used up.
func (q *quota) ready(now stamp, n int64) (at stamp, ok, early bool) {
	if !q.known {
		return now, true, false
	}
	if q.share.on {
		if at, ok, early := q.shared(now, n); !ok || early {
			return at, ok, early
		}
	}
	if q.rest-q.flying >= n {
		return now, true, false
	}
	if sp := q.pace(now); sp > 0 {
		return q.refilled(now, n, sp)
	}
	if q.limit >= 0 && n > q.limit && q.rest-q.flying >= q.limit {
		return now, true, false // more than it ever allows: the server has to say so
	}
	reset := q.reset()
	over := !reset.IsZero() && !now.Before(reset)
	if over && q.rest > 0 && q.limit > 0 {
		// Not used up when it ended: the new window is as good as reported.
		q.renew()
		if q.rest-q.flying >= n {
			return now, true, false
		}
	}
	if q.probing {
		return 0, false, false
	}
	at = q.emptyUntil(reset)
	if at.IsZero() || now.Before(at) {
		return at, false, false
	}
	return now, true, true
}

// shared is ready where others spend the quota too. It is ok and not early if the
// rest of ready decides.
func (q *quota) shared(now stamp, n int64) (at stamp, ok, early bool) {
	at = q.lastGo.Add(q.share.spacing(q.rest))
	if reset := q.reset(); q.told > nearReset && q.setAt.Before(reset) {
		at = min(at, max(reset, q.lastGo.Add(q.share.spacing(q.top)))) // a new window, as full as ever
	}
	if now.Before(at) {
		return at, false, false
	}
	return now, true, q.nature().kind == kindRefill
}

// pace is the time between two units of a refill; 0 if q is none, as far as is
// known.
func (q *quota) pace(now stamp) time.Duration {
	if q.nature().kind != kindRefill {
		return 0
	}
	sp := q.margin.widen(q.spacing(), now)
	if !q.share.on && q.share.crowded(now) {
		// Nobody sees what is left, so whoever finds the beat keeps it: leave gaps.
		sp += sp / 8
	}
	return sp
}

// refilled is ready for a refill with one unit every sp: what was left at base,
// and what has come since.
func (q *quota) refilled(now stamp, n int64, sp time.Duration) (at stamp, ok, early bool) {
	need := n + q.flying - q.rest
	if room := q.top + 1 - q.rest; need > room {
		if q.flying > 0 {
			return 0, false, false // it was never seen that full: an answer has to come first
		}
		need = max(room, 1)
	}
	at = q.base.Add(mulDuration(sp, need))
	if q.window <= 0 && q.told > 0 {
		at = min(at, q.setAt.Add(q.told)) // a spacing that was only seen is no reason to wait longer than told
	}
	if now.Before(at) {
		return at, false, false
	}
	return now, true, true
}

// renew begins a window that no answer has reported yet.
func (q *quota) renew() {
	q.rest, q.lo, q.hi = q.limit, 0, 0
	q.setAt = 0
}

// emptyUntil is when the next call may go with nothing left; zero if that
// depends on an answer.
func (q *quota) emptyUntil(reset stamp) stamp {
	if !q.retryAt.IsZero() {
		return q.retryAt
	}
	n := q.nature()
	if reset.IsZero() {
		return q.setAt.Add(min(blindScout<<min(q.blind, 12), maxHold))
	}
	if d := q.setAt.Add(maxHold); reset.After(d) {
		reset = d // further than a day: asked once a day
	}
	if q.flying > 0 || q.lastOK.IsZero() {
		return reset
	}
	probe := q.lastOK.Add(2 * q.spacing())
	if q.spacing() == 0 {
		// Nothing says how fast units come, if they come one by one.
		probe = q.lastOK.Add(max(reset.Sub(q.lastOK)/4, 0))
	}
	if probe.Before(n.probeAt) {
		return reset
	}
	return min(probe, reset)
}

// take notes that a call goes that spends n units at now.
func (q *quota) take(now stamp, n int64, early bool) {
	q.flying += n
	q.taken += n
	q.lastGo, q.lastN = now, n
	if early && q.nature().kind != kindRefill {
		q.probing = true
	}
}

// give takes back a take whose call did not go.
func (q *quota) give(n int64, early bool) {
	q.flying = max(0, q.flying-n)
	if early {
		q.probing = false
	}
}

// ended notes the answer to a call that spent n units, before what it reports.
// reported is whether it says anything about q.
func (q *quota) ended(now, sent stamp, n int64, early, reported bool, v Verdict) {
	q.flying = max(0, q.flying-n)
	if early {
		q.probing = false
		q.judge(now, sent, v)
	}
	if v == Limited {
		q.share.reduce(now, sent)
		if early && q.nature().kind == kindRefill {
			if q.margin.refused(now, sent) {
				q.missed()
			}
		}
	}
	if v != Limited && v != Unsent {
		if q.known && !reported {
			q.rest = max(0, q.rest-n) // the server has counted it, for all that is known
		}
		q.retryAt = 0
		if v == Accepted && sent.After(q.lastOK) {
			q.lastOK = sent
		}
	}
}

// state is q as snapshots show it: less what was sent since, its reset counted
// from now.
func (q *quota) state(now stamp) Quota {
	s := Quota{Name: q.name, Unit: q.unit, Limit: q.limit, Remaining: -1, Window: q.window, Reset: -1}
	if q.known {
		s.Remaining = max(0, q.rest-q.flying)
	}
	if !q.hi.IsZero() {
		s.Reset = max(0, q.hi.Sub(now))
	}
	return s
}

// idle reports whether forgetting q changes no decision.
func (q *quota) idle(now stamp) bool {
	if q.flying > 0 || q.probing {
		return false
	}
	if !q.known {
		return true
	}
	reset := q.reset()
	return !reset.IsZero() && now.After(reset) || reset.IsZero() && now.Sub(q.seen) > maxHold
}
