package comity

import (
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Retry says what is tried again, how often and how soon.
type Retry struct {
	Max     int                      // tries after the first; 2 if zero, none if negative
	Base    time.Duration            // the first backoff is random below this; 500 ms if zero
	Cap     time.Duration            // and no backoff is above this; 30 s if zero
	Budget  float64                  // retries per call in the long run; 0.1 if zero, negative is no budget
	Timeout time.Duration            // for one try, headers only; none if zero
	Backoff func() backoff.BackOff   // replaces Base and Cap for retries, not for holds; backoff.Stop ends the call
	When    func(*Attempt) bool      // replaces the choice among attempts that are safe to replay
	Safe    func(*http.Request) bool // requests that may be sent twice besides those with an idempotent method or an Idempotency-Key
}

// again is what the second and later tries of a call share.
type again struct {
	retries int  // that Retry.Max and the budget count
	once    bool // a status that is resent once was
	spent   bool // a 403 that is resent once was
	taken   bool // a retry of the budget, not yet sent
	backoff backoff.BackOff
	aside   aside
}

// next decides whether the call is tried again, and if so waits for the delay of
// the retry and returns the next try. It returns nil if a's answer stands.
func (t *Transport) next(a *try) *try {
	if a.settled() || !a.replayable() || !a.chosen() {
		return nil
	}
	s := a.again
	if s == nil {
		s = &again{}
	}
	delay := max(a.ruling.until.Sub(stampOf(a.now)), a.ruling.delay, 0)
	if !a.ruling.back {
		var ok bool
		if delay, ok = a.backsOff(s); !ok {
			return nil
		}
	}
	a.resends(s)
	for _, tr := range a.traces() {
		if tr.Retry != nil {
			tr.Retry(&a.Attempt, delay)
		}
	}
	s.aside = setAside(a.Response, a.Err)
	if s.aside.rest == nil {
		a.end(time.Now())
	} else { // its context goes on until the rest is closed
		a.leavePlace(time.Now())
	}
	b := a.following(s)
	if a.ruling.back { // to the queue: the hold is its delay
		return b
	}
	if err := b.sleeps(delay); err != nil {
		s.cancel(b)
		s.aside.drop()
		a.Response, a.Err = nil, err
		return nil
	}
	return b
}

// settled reports whether a's answer stands, whatever it is.
func (a *try) settled() bool {
	if a.Verdict == Accepted && a.Advice.Retry <= 0 && a.turn.pol.Retry.When == nil && !a.neutral() {
		return true
	}
	if a.Verdict == Canceled || a.Advice.Retry < 0 || a.ruling.final || a.root.Context().Err() != nil {
		return true
	}
	p := a.turn.pol
	if a.t.nests() || a.marked || p.Shadow || a.turn.maxWait < 0 || a.Call.Retries < 0 || a.Call.Retries == 0 && p.Retry.Max < 0 {
		return true // one try
	}
	// What a CONNECT or an upgrade starts is not ours to start twice.
	return a.root.Method == http.MethodConnect || len(a.root.Header["Upgrade"]) > 0
}

// replayable reports whether the request may be sent again, by its body, its
// method and what became of it.
func (a *try) replayable() bool {
	if hasBody(a.root) && a.root.GetBody == nil {
		return false
	}
	return a.undone() || a.idempotent()
}

// undone reports whether the request was not carried out, by all that is known.
func (a *try) undone() bool {
	switch a.fault {
	case faultLocal, faultUnsent, faultUnprocessed, faultCalm:
		return true
	}
	if a.Verdict != Limited || a.Response == nil {
		return false
	}
	// With a 4xx it was refused at the door. What Policy.Classify takes for a
	// limit may come from behind it.
	return a.Response.StatusCode/100 == 4
}

// idempotent reports whether the request may be sent twice.
func (a *try) idempotent() bool {
	req := a.root
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	if a.Call.Idempotent {
		return true
	}
	// As net/http has it: the key counts if it is there, also without a value.
	if _, ok := req.Header["Idempotency-Key"]; ok {
		return true
	}
	if _, ok := req.Header["X-Idempotency-Key"]; ok {
		return true
	}
	safe := a.turn.pol.Retry.Safe
	return safe != nil && safe(req)
}

// chosen reports whether an attempt that may be replayed is to be.
func (a *try) chosen() bool {
	if a.turn.pol.Retry.When != nil {
		return a.turn.pol.Retry.When(&a.Attempt)
	}
	if a.Advice.Retry > 0 {
		return true
	}
	s := a.again
	if a.Response == nil {
		return a.Verdict == Limited || a.Verdict == Overloaded || a.fault == faultLocal
	}
	switch code := a.Response.StatusCode; {
	case a.neutral():
		return s == nil || !s.once
	case a.Verdict == Limited && code == http.StatusForbidden && !a.told && a.Advice.RetryAfter <= 0:
		return s == nil || !s.spent
	}
	return a.Verdict == Limited || a.Verdict == Overloaded
}

// resends notes what a is tried again for.
func (a *try) resends(s *again) {
	if a.Response == nil {
		return
	}
	s.once = s.once || a.neutral()
	s.spent = s.spent || a.Verdict == Limited && a.Response.StatusCode == http.StatusForbidden && a.Advice.RetryAfter <= 0
}

// backsOff returns how long to wait before an ordinary retry, and takes it from
// the budget. It returns false if there is none left, or if it could not be done in
// time.
func (a *try) backsOff(s *again) (time.Duration, bool) {
	p := a.turn.pol
	most := p.Retry.Max
	if a.Call.Retries > 0 {
		most = a.Call.Retries
	}
	if s.retries >= most {
		return 0, false
	}
	if s.backoff == nil {
		s.backoff = p.Retry.newBackoff()
	}
	delay := s.backoff.NextBackOff()
	if delay == backoff.Stop {
		return 0, false
	}
	delay = max(delay, a.ruling.delay, a.Advice.RetryAfter, 0)
	if delay > a.turn.maxWait-a.turn.waited {
		return 0, false
	}
	if end, ok := a.root.Context().Deadline(); ok && delay >= end.Sub(a.now) {
		return 0, false
	}
	ad := a.group.adaptive()
	if p.Retry.Budget >= 0 {
		if !a.d.budget.take(a.now, p.Retry.Budget, a.d.throttle.throttling(ad, a.now)) {
			return 0, false
		}
		s.taken = true
	}
	s.retries++
	return delay, true
}

// newBackoff returns the backoff of one call: full jitter, so uniform below Base,
// then below twice that, at last below Cap.
func (r *Retry) newBackoff() backoff.BackOff {
	if r.Backoff != nil {
		return r.Backoff()
	}
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(r.Base, r.Cap)/2),
		backoff.WithRandomizationFactor(1),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(r.Cap/2),
		backoff.WithMaxElapsedTime(0),
	)
}

// following returns the try after a.
func (a *try) following(s *again) *try {
	b := &try{t: a.t, root: a.root, value: a.value, d: a.d, group: a.d.group.Load(), again: s, marked: a.marked}
	b.Request, b.Destination, b.Call, b.N, b.Waited = a.Request, a.Destination, a.Call, a.N+1, a.Waited
	b.turn.follow(&a.turn)
	b.turn.by = b
	b.now = time.Now()
	return b
}

// sleeps waits for the delay of a retry.
func (a *try) sleeps(d time.Duration) error {
	err := sleep(a.root.Context(), d)
	now := time.Now()
	a.turn.waited += now.Sub(a.now)
	a.now, a.Waited = now, a.turn.waited
	return err
}

// sends notes that a retry goes out: the answer before it has no use any more.
func (s *again) sends() {
	s.taken = false
	s.aside.drop()
	s.aside = aside{}
}

// cancel gives back what was taken for a retry that is not sent.
func (s *again) cancel(a *try) {
	if s.taken {
		s.taken = false
		a.d.budget.giveBack(a.now)
	}
}
