package comity

import "time"

// Bounds of holds. A delay above maxHold is held for maxHold and reported: a
// server that says "in a year" is asked again after a day.
const (
	maxHold      = 24 * time.Hour
	holdJitter   = 5 * time.Second        // most that jitter adds to a told delay
	sharedJitter = 250 * time.Millisecond // the same where others share a reported quota
	repeatCap    = 30 * time.Second       // most that refusals in a row add by themselves
	quietForget  = 10 * time.Minute       // after it incidents are forgotten
	rampPatience = time.Second            // a ramp without an answer doubles after it
	rampFresh    = 5                      // accepted calls of a ramp that let unrefused calls go first
)

// holdKind says who stopped a destination.
type holdKind uint8

const (
	holdNone     holdKind = iota
	holdTold              // a response, with a time
	holdOwn               // a refusal without a usable time: own backoff
	holdOperator          // Transport.Hold
)

// hold is what stops all calls of a destination, and how they come back: one
// scout first, then one place more for each accepted answer. It is a plain state
// machine: it has no lock and reads no clock.
type hold struct {
	until time.Time // nothing goes before; zero is no hold
	began time.Time // when the present incident stopped the destination
	kind  holdKind
	code  uint16        // status that caused it
	told  time.Duration // what was asked for; -1 if nothing was

	incidents int       // refusals in a row without a usable time
	repeats   int       // incidents in a row with nothing accepted in between
	last      time.Time // the last incident
	over      time.Time // the end of the last hold: time held is not quiet

	ramp ramp
}

// ramp bounds what may be in flight after a hold, until nothing waits or a
// reported quota decides.
type ramp struct {
	places   int       // 0 is no ramp
	flying   int       // calls sent since epoch that have no answer yet
	epoch    time.Time // when the hold ended: only calls sent since then count
	stirred  time.Time // the last answer, or doubling
	accepted int       // answers accepted since epoch
}

// open reports when a call may go at the earliest, as far as h is concerned. at
// is zero if that depends on an answer only.
func (h *hold) open(now time.Time) (at time.Time, ok bool) {
	if !h.until.IsZero() {
		if now.Before(h.until) {
			return h.until, false
		}
		h.end(now)
	}
	r := &h.ramp
	if r.places == 0 || r.flying < r.places {
		return now, true
	}
	if at := r.stirred.Add(rampPatience); now.Before(at) {
		return at, false
	}
	r.places, r.stirred = min(2*r.places, 1<<20), now
	return now, r.flying < r.places
}

// end turns a hold that is over into a ramp with one scout.
func (h *hold) end(now time.Time) {
	h.until = time.Time{}
	h.ramp = ramp{places: 1, epoch: now, stirred: now}
}

// clear ends holds, the own backoff and a ramp.
func (h *hold) clear() {
	h.until, h.kind, h.incidents, h.repeats = time.Time{}, holdNone, 0, 0
	h.ramp = ramp{}
}

// holds reports whether h stops calls at now.
func (h *hold) holds(now time.Time) bool { return now.Before(h.until) }

// extend holds until at, unless that is held already. It reports whether the
// hold grew.
func (h *hold) extend(now, at time.Time, kind holdKind, code int, told time.Duration) bool {
	if !at.After(h.until) || !at.After(now) {
		return false
	}
	if !h.holds(now) {
		h.began = now
	}
	h.until, h.kind, h.code, h.told = at, kind, uint16(code), told
	h.over = at
	h.ramp = ramp{}
	return true
}

// quiet reports whether incidents are forgotten: nothing was refused for a while in
// which calls were allowed.
func (h *hold) quiet(now time.Time) bool {
	return min(now.Sub(h.last), now.Sub(h.over)) >= quietForget
}

// sameIncident reports whether a refusal of a call sent at sent belongs to the
// incident that h knows already.
func (h *hold) sameIncident(sent time.Time) bool {
	return !h.last.IsZero() && !sent.After(h.last)
}

// incident notes a refusal at now of a call sent at sent. It returns the least
// time to hold by reason of refusals in a row: 0 for the first, or if the refusal
// belongs to an incident that is known. spacing is the time between two calls
// where that is known, else 0.
func (h *hold) incident(now, sent time.Time, spacing time.Duration) (floor time.Duration, fresh bool) {
	if h.sameIncident(sent) {
		return 0, false
	}
	if h.quiet(now) {
		h.incidents, h.repeats = 0, 0
	}
	h.last = now
	h.repeats++
	if h.repeats == 1 {
		return 0, true
	}
	limit := repeatCap
	if spacing > 0 {
		limit = min(max(time.Second, mulDuration(spacing, 20)), maxHold)
	}
	floor = time.Second << min(h.repeats-2, 16)
	return min(floor, limit), true
}

// accepted notes an accepted answer to a call sent at sent.
func (h *hold) accepted(now, sent time.Time) {
	if !sent.After(h.last) {
		return
	}
	h.repeats = 0
	if h.incidents > 0 {
		h.incidents--
	}
}

// ownBackoff is the hold after the n-th incident in a row without a usable time.
func ownBackoff(n int, base, limit time.Duration, random func() float64) time.Duration {
	d := limit
	if shift := n - 1; shift < 40 {
		if e := base << max(shift, 0); e > 0 && e>>max(shift, 0) == base {
			d = min(e, limit)
		}
	}
	return addDuration(d, time.Duration(random()*float64(d)/10))
}

// jitterTold is what is added to a told delay, drawn once for each hold.
func jitterTold(d time.Duration, shared bool, random func() float64) time.Duration {
	top := min(d/50, holdJitter)
	if shared {
		top = min(d/10, sharedJitter)
	}
	return time.Duration(random() * float64(top))
}

// sent notes that a call goes; it reports whether the ramp counts it.
func (r *ramp) sent() bool {
	if r.places == 0 {
		return false
	}
	r.flying++
	return true
}

// unsent takes back a sent at at whose call did not go.
func (r *ramp) unsent(at time.Time) {
	if r.places > 0 && !at.Before(r.epoch) {
		r.flying = max(0, r.flying-1)
	}
}

// ended notes the answer to a call that went at sent. Calls older than the ramp
// neither count nor add.
func (r *ramp) ended(now, sent time.Time, accepted bool) {
	if r.places == 0 || sent.Before(r.epoch) {
		return
	}
	r.flying = max(0, r.flying-1)
	r.stirred = now
	if accepted {
		r.accepted++
		r.places = min(r.places+1, 1<<20)
	}
}

// addDuration and mulDuration saturate instead of overflowing.
func addDuration(a, b time.Duration) time.Duration {
	if c := a + b; (c > a) == (b > 0) {
		return c
	}
	if b > 0 {
		return Forever
	}
	return -Forever
}

func mulDuration(d time.Duration, n int64) time.Duration {
	if n <= 0 || d <= 0 {
		return 0
	}
	if int64(d) > int64(Forever)/n {
		return Forever
	}
	return d * time.Duration(n)
}
