package comity

import (
	"context"
	"sync"
	"time"
)

// Readiness says when a call could go and what keeps it.
type Readiness struct {
	At     time.Time // earliest start; zero if it depends on another call's end
	Reason Reason    // "" when ready
	Limit  string    // limit, quota or gate that decides
}

// pacer decides when the next call to one destination may go. A place, the delay,
// a hold, the limits and the reported quotas are all taken at one instant, by the
// head of a queue or by a newcomer whom no head has to go before. Its lock is
// held over limiters and over the commons, never over user code.
type pacer struct {
	mu       sync.Mutex
	name     string
	inFlight int32  // places taken
	waiting  int32  // calls held back
	flying   int32  // calls let go that have no answer yet
	epoch    uint32 // grows when something was freed before its time
	sends    uint64 // calls let go so far
	seq      uint64 // age of the newest call
	pauseEnd stamp  // end of the delay
	latency  time.Duration
	pace     pace
	led      ledger
	line     *line // the calls that wait; nil until the first
	told     *told // what servers and operators said; nil until they do
}

// way is what stands in the way of a call.
type way struct {
	ok   bool
	at   time.Time // when to ask again; zero: when another call has ended
	gate gate      // what keeps it longest
	why  Reason
	err  error // a limiter refused it
}

// longer takes over a gate that keeps the call longer than the ones so far.
func (y *way) longer(at time.Time, g gate, why Reason) {
	if y.gate == nil || !y.at.IsZero() && (at.IsZero() || at.After(y.at)) {
		y.at, y.gate, y.why = at, g, why
	}
	y.ok = false
}

// acquire blocks until the try of k may be sent and returns the instant at which
// it was let go. It fails with a *ThrottledError or with the cause of ctx; then
// nothing is spent or held.
func (p *pacer) acquire(ctx context.Context, k *turn, now time.Time) (time.Time, error) {
	if ctx.Err() != nil {
		return now, context.Cause(ctx)
	}
	p.mu.Lock()
	if !k.bound {
		p.bind(k, now)
	}
	if k.seq == 0 {
		p.seq++
		k.seq = p.seq
	}
	p.wallStep(now)
	waited := k.away
	if waited {
		p.back(k)
	}
	y := p.newcomer(k, now)
	if y.ok {
		p.grant(k, now)
		p.unlockAfter(waited, now)
		return now, nil
	}
	if k.pol.Shadow {
		p.force(k, y, now)
		p.unlockAfter(waited, now)
		return now, nil
	}
	w, err := p.enqueue(ctx, k, y, waited, now)
	if err != nil {
		p.unlockAfter(waited, now)
		return now, err
	}
	d, why := untilOrUnknown(w.due, now), w.why
	p.mu.Unlock()
	k.by.waiting(d, why)
	return p.wait(ctx, w)
}

// untilOrUnknown is the time from now to at, -1 if at is not known.
func untilOrUnknown(at, now time.Time) time.Duration {
	if at.IsZero() {
		return -1
	}
	return max(at.Sub(now), 0)
}

// newcomer asks for a call that does not wait yet. It is let go only past heads
// that it takes nothing from.
func (p *pacer) newcomer(k *turn, now time.Time) way {
	if p.waiting > 0 {
		if h := p.line.claim(p, k); h != nil {
			return p.behind(k, way{at: h.due, gate: h.decides, why: h.why}, now)
		}
	}
	if p.line.awaits(classOf(k.crit, k.again), k.seq) {
		return p.behind(k, way{at: now, why: ReasonLimit}, now)
	}
	return p.ask(k, nil, now)
}

// behind says what stands in the way of a call that may not go yet by reason of y.
func (p *pacer) behind(k *turn, y way, now time.Time) way {
	if asked := p.ask(k, nil, now); !asked.ok {
		return asked
	}
	give(k.charges, now)
	k.giveCommons(now)
	return y
}

// ask takes what the call of k needs at now, all or nothing. w is its place in
// the line, nil for a newcomer. A grant must follow an ok, or give.
func (p *pacer) ask(k *turn, w *waiter, now time.Time) way {
	y := way{ok: true}
	pol := k.pol
	if p.told != nil {
		p.told.ask(k, now, &y)
	}
	if n := pol.MaxInFlight; n > 0 && int(p.inFlight) >= n {
		y.longer(time.Time{}, &p.inFlight, ReasonInFlight)
	}
	if p.pace.rate > 0 && !p.told.paces(k) {
		if at, ok := p.pace.ready(now); !ok {
			y.longer(at, &p.pace, ReasonLimit)
		}
	}
	if pol.Delay != (Delay{}) && stampOf(now).Before(p.pauseEnd) {
		y.longer(p.pauseEnd.from(now), &p.pauseEnd, ReasonDelay)
	}
	if len(k.charges) > 0 {
		wait, by, err := k.take(k.charges, now)
		switch {
		case err != nil:
			return way{gate: by, why: ReasonLimit, err: err}
		case by != nil && wait == Forever:
			return way{gate: by, why: ReasonCost, err: errCost}
		case by != nil:
			y.longer(now.Add(wait), by, ReasonLimit)
		case !y.ok:
			give(k.charges, now)
		}
	}
	if len(k.globals) > 0 {
		p.askCommons(k, w, now, &y)
	}
	return y
}

// grant books a call that ask let go at now.
func (p *pacer) grant(k *turn, now time.Time) {
	p.sends++
	k.at, k.placed, k.airborne, k.num = now, true, true, p.sends
	p.inFlight++
	p.flying++
	p.pace.start(now)
	if p.pace.paces() && !p.told.paces(k) {
		p.pace.take(now)
	}
	if p.told != nil {
		p.told.take(k, now)
	}
	if k.pol.shades {
		p.shade(k, now)
	}
}

// abandon gives back the place and the units of a turn that was let go and not
// sent after all.
func (p *pacer) abandon(k *turn, now time.Time) {
	p.mu.Lock()
	p.putBack(k, now)
	p.mu.Unlock()
}

// putBack is abandon with the lock held.
func (p *pacer) putBack(k *turn, now time.Time) {
	if !k.placed {
		return
	}
	k.placed = false
	p.inFlight--
	p.landed(k)
	give(k.charges, now)
	k.giveCommons(now)
	if p.told != nil {
		p.told.give(k)
	}
	k.num = 0
	p.freed(now)
}

// landed notes that k is in flight no more.
func (p *pacer) landed(k *turn) {
	if k.airborne {
		k.airborne = false
		p.flying--
	}
}

// freed lets those who wait have what became free before its time.
func (p *pacer) freed(now time.Time) {
	p.epoch++
	if p.waiting > 0 {
		p.dispatch(now)
	}
}

// leave frees the place at the end of the call and starts the delay d. It reports
// whether that let a caller of Next hope.
func (p *pacer) leave(k *turn, d Delay, now time.Time) (ready bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !k.placed {
		return false
	}
	k.placed = false
	p.inFlight--
	end := stampOf(now) // without a delay too: a later policy may have one
	if d != (Delay{}) {
		end = end.Add(d.pause(p.latency, randFloat))
	}
	if end.After(p.pauseEnd) {
		p.pauseEnd = end
	}
	if p.waiting > 0 {
		p.dispatch(now)
	} else if p.inFlight == 0 {
		p.pace.stop(now)
	}
	return k.pol.MaxInFlight > 0
}

// pause is the time from the end of one response to the start of the next call.
// latency is that of the last accepted answer.
func (d Delay) pause(latency time.Duration, random func() float64) time.Duration {
	pause := time.Duration(0)
	if d.Factor > 0 && latency > 0 {
		f := d.Factor * float64(latency)
		pause = Forever
		if f < float64(maxHold) {
			pause = time.Duration(f)
		}
		if d.Max > 0 {
			pause = min(pause, d.Max)
		}
	}
	pause = min(max(pause, d.Min), 365*maxHold)
	if d.Jitter > 0 {
		pause = addDuration(pause, time.Duration(min(d.Jitter, 10)*random()*float64(pause)))
	}
	return pause
}

// next reports when the call of k could go behind those that wait. Nothing is
// spent, and no account is made.
func (p *pacer) next(k *turn, now time.Time) Readiness {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wallStep(now)
	k.peeks, k.seq = true, p.seq+1
	k.bindKnown(&p.led)
	y := p.newcomer(k, now)
	if y.ok {
		return Readiness{At: now}
	}
	at := y.at
	if !at.IsZero() && p.waiting > 0 {
		if est := p.estimate(k, classOf(k.crit, k.again), at, now); est.After(at) {
			at = est
		}
	}
	return Readiness{At: at, Reason: y.why, Limit: gateLabel(y.gate)}
}

// holdFor is Transport.Hold: until an operator's time, or the end of what servers
// told and of the own backoff for the zero time. It reports whether calls may go
// sooner for it.
func (p *pacer) holdFor(now, until time.Time) (ready bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &p.tell().hold
	if until.IsZero() || !until.After(now) {
		ready = h.holds(now) || h.ramp.places > 0
		h.clear()
		p.told.endDelays()
	} else {
		ready = until.Before(h.until)
		h.until, h.kind, h.began, h.told = until, holdOperator, now, -1
		h.over = until
		h.ramp = ramp{}
		p.judge(now)
	}
	p.freed(now)
	return ready
}

// heldLonger reports whether p is held beyond until already.
func (p *pacer) heldLonger(until time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told != nil && p.told.hold.until.After(until)
}

// settle corrects what the call of k was charged, by unit.
func (p *pacer) settle(k *turn, actual Cost, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.settleCommons(actual, now)
	if settle(k.charges, actual, now) {
		p.freed(now)
	}
}

// resent charges one call more for a resend of net/http, and returns how long it
// is until one could go.
func (p *pacer) resent(k *turn, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	y := p.ask(k, nil, now)
	if y.ok {
		return 0
	}
	spend(k.charges, now)
	k.forceCommons(now)
	if y.at.IsZero() {
		return 0
	}
	return y.at.Sub(now)
}

// idle reports whether forgetting p changes no decision.
func (p *pacer) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight == 0 && p.waiting == 0 && !stampOf(now).Before(p.pauseEnd) && p.pace.idle(now) &&
		p.led.idle(now) && (p.told == nil || p.told.idle(now))
}
