package comity

import "time"

// traces returns the hooks that a runs; most often there are none.
func (a *try) traces() []*Trace {
	switch {
	case a.Call.Trace != nil && a.t.trace != nil:
		return []*Trace{a.t.trace, a.Call.Trace}
	case a.Call.Trace != nil:
		return []*Trace{a.Call.Trace}
	case a.t.trace != nil:
		return []*Trace{a.t.trace}
	}
	return nil
}

// waiting is part of caller: the pacer begins to hold a back.
func (a *try) waiting(d time.Duration, why Reason) {
	for _, tr := range a.traces() {
		if tr.Waiting != nil {
			tr.Waiting(&a.Attempt, d, why)
		}
	}
}

// shown reports whether some function of the user's sees a.
func (a *try) shown() bool {
	return a.turn.pol.shown || a.t.trace != nil || a.Call.Trace != nil
}

// tell runs the hooks that an answer calls for.
func (a *try) tell() {
	for _, tr := range a.traces() {
		if tr.Done != nil {
			tr.Done(&a.Attempt)
		}
		a.ruling.tell(tr, a.now, a.Destination, &a.Attempt)
	}
}

// tell runs the hooks that r calls for; a is the attempt whose answer it rules on.
func (r *ruling) tell(tr *Trace, now time.Time, dest string, a *Attempt) {
	if r.held && tr.Held != nil {
		tr.Held(Hold{Destination: dest, Until: r.until.from(now), Told: r.told, Attempt: a})
	}
	if r.ready && tr.Ready != nil {
		tr.Ready(dest)
	}
}

// tellRefused runs the hooks that a refusal calls for.
func (a *try) tellRefused(err *ThrottledError) {
	for _, tr := range a.traces() {
		if tr.Refused != nil {
			tr.Refused(&a.Attempt, err)
		}
	}
}

// passes reports a refusal that is not enforced.
func (a *try) passes(err *ThrottledError) {
	a.Shadow = true
	a.tellRefused(err)
}
