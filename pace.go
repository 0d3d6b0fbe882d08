package comity

import (
	"math"
	"time"
)

// pace is the rate that a destination seems to allow, learned from refusals that
// do not tell it. It follows the cubic rule of congestion control (RFC 9438): below
// the rate that the last cycle showed to hold, slowly past it, then faster. It is a
// plain state machine.
//
// A cycle runs from one accepted call after a refusal to the next. Refusals before
// the next accepted call are the same incident: a cut at each of them would answer
// one closed window many times.
type pace struct {
	accepted int           // in this cycle
	busy     time.Duration // time of this cycle in which calls waited or were in flight, up to busyFrom
	busyFrom stamp         // since when they do; zero if none does

	rate    float64       // what the last cycle held, a second; 0: not learned
	span    time.Duration // its length, within bounds: how fast the rate grows
	young   bool          // told by few calls: it grows with each accepted one
	spared  bool          // so was the cycle before
	pending bool          // refused, nothing accepted since
	free    int32         // calls that go unpaced
	refused time.Time     // the last refusal
	before  float64       // the rate in force at the first refusal of the incident
	wait    time.Duration // the longest hold of the incident that was told
	closed  time.Duration // length of the cycle when a scout was last refused; 0 if none was
	next    time.Time     // when the next call may go
}

const (
	paceSpanMin = 5 * time.Second
	paceSpanMax = 10 * time.Minute
	paceFew     = 30   // fewer accepted calls tell little
	paceGrowth  = 1.1  // growth per accepted call then
	paceCut     = 0.93 // of the rate before a refusal, if the cycle does not show more
	paceCubic   = 0.05
	paceWindow  = 2 * time.Second // a told hold as long closes a window
	paceNear    = 0.7             // of a configured limit: the limit's own margin answers refusals
	paceReserve = 3               // calls of a window that are left unspent
)

// start notes that calls are about at now.
func (c *pace) start(now time.Time) {
	if c.busyFrom.IsZero() {
		c.busyFrom = stampOf(now)
	}
}

// stop notes that none is.
func (c *pace) stop(now time.Time) {
	if !c.busyFrom.IsZero() {
		c.busy += max(stampOf(now).Sub(c.busyFrom), 0)
		c.busyFrom = 0
	}
}

// length is the busy time of the cycle so far.
func (c *pace) length(now time.Time) time.Duration {
	d := c.busy
	if !c.busyFrom.IsZero() {
		d += max(stampOf(now).Sub(c.busyFrom), 0)
	}
	return d
}

// current is the rate in force at now; 0 is none.
func (c *pace) current(now time.Time) float64 {
	switch {
	case c.rate == 0:
		return 0
	case c.young:
		r := c.rate * math.Pow(paceGrowth, float64(min(c.accepted, 1000)))
		if c.before == 0 || r < paceCut*c.before {
			return r
		}
	}
	w := c.rate
	if c.young {
		w = max(w, paceCut*c.before)
	}
	x := float64(c.length(now)-c.span) / float64(c.span)
	return w * (1 + paceCubic*x*x*x)
}

// ready reports when the next call may go.
func (c *pace) ready(now time.Time) (at time.Time, ok bool) {
	if c.rate == 0 || c.free > 0 || c.pending || !now.Before(c.next) || c.quiet(now) {
		return now, true
	}
	return c.next, false
}

// quiet reports whether what refusals taught is forgotten.
func (c *pace) quiet(now time.Time) bool { return now.Sub(c.refused) > quietForget }

// idle reports whether forgetting c changes no decision.
func (c *pace) idle(now time.Time) bool { return c.rate == 0 && !c.pending || c.quiet(now) }

// paces reports whether calls are counted.
func (c *pace) paces() bool { return c.rate > 0 || c.free > 0 }

// take notes that a call goes.
func (c *pace) take(now time.Time) {
	if c.free > 0 {
		c.free--
		return
	}
	if r := c.current(now); r > 0 {
		c.next = now.Add(saturate(float64(time.Second) / r))
	}
}

// arrived notes that a call reached the server at at, or sooner.
func (c *pace) arrived(at, now time.Time) {
	if r := c.current(now); r > 0 {
		if next := at.Add(saturate(float64(time.Second) / r)); next.After(c.next) {
			c.next = next
		}
	}
}

// refuse notes a refusal of a call; told is the delay that it told, 0 without.
func (c *pace) refuse(now time.Time, told time.Duration) {
	if c.pending {
		c.closed = c.length(now)
	} else {
		c.pending, c.before, c.wait, c.closed = true, c.current(now), 0, 0
	}
	c.refused = now
	c.wait = max(c.wait, told)
}

// accept notes an accepted answer to a call sent at sent. It ends the incident if
// the call was sent after the refusal.
func (c *pace) accept(now, sent time.Time, ceiling float64) {
	if !c.pending || !sent.After(c.refused) {
		c.accepted++
		if c.rate > 0 && c.quiet(now) {
			c.rate = 0
		}
		return
	}
	n, d := c.accepted, c.length(now)
	c.pending, c.accepted, c.busy, c.free = false, 1, 0, 0
	if !c.busyFrom.IsZero() {
		c.busyFrom = stampOf(now)
	}
	if d <= 0 {
		return
	}
	if c.closed > 0 && c.wait == 0 {
		// The own backoff found it closed at closed and open at d: it opened between.
		d = (c.closed + d) / 2
	}
	held := float64(n) / d.Seconds()
	c.rate = max(held, min(paceCut*c.before, 2*held))
	c.young = n < paceFew
	spared := c.young && !c.spared // few calls tell little against a limit that somebody wrote down
	c.spared = c.young
	if ceiling > 0 && (c.rate >= paceNear*ceiling || spared) {
		c.rate = 0
		return
	}
	c.span = min(max(d, paceSpanMin), paceSpanMax)
	if c.closed > 0 && c.wait == 0 {
		c.span = paceSpanMin  // a guess: what is above it is tried soon
		c.free = int32(n) / 3 // it was closed for long, so it is a window, and open anew
	}
	if c.wait >= paceWindow {
		c.free = int32(max(n-paceReserve, 0))
	}
	c.next = sent.Add(saturate(float64(time.Second) / c.rate))
}
