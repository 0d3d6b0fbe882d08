package comity

import (
	"errors"
	"net/http"
	"time"
)

// Advice is everything a response says about when to call again.
type Advice struct {
	RetryAfter time.Duration // -1 if the response asks for no delay
	Quotas     []Quota
	Retry      int      // +1 or -1 where the server says to retry or not to (x-should-retry); 0 if silent
	Malformed  []string // names of fields dropped in whole or in part
}

// Quota is one limit as a server reports it.
type Quota struct {
	Name      string        // policy or resource; "" if the server named none
	Unit      string        // what is counted; "requests" unless the server says otherwise
	Limit     int64         // -1 if not given
	Remaining int64         // -1 if not given
	Window    time.Duration // -1 if not given
	Reset     time.Duration // until Remaining grows, from now; -1 if not given
}

// ParseAdvice reads h, received at now, in any spelling this package knows. It
// never fails: a field it cannot believe is dropped and named in Malformed.
// Absolute times count from the Date of the response, or from now if that is
// missing or more than a day off.
func ParseAdvice(h http.Header, now time.Time) Advice {
	return parse(h, now, &autoRules)
}

// RetryAfter returns how long to leave alone what answered a call with res and
// err: the wait of a ThrottledError, or what the response asks for. ok is false
// if neither says so. A refusal whose headers ask for no delay asks for the reset
// of the quota that it reports as used up.
func RetryAfter(res *http.Response, err error) (d time.Duration, ok bool) {
	var t *ThrottledError
	if errors.As(err, &t) {
		return t.RetryAfter, t.RetryAfter > 0
	}
	if res == nil {
		return 0, false
	}
	a := ParseAdvice(res.Header, time.Now())
	if a.RetryAfter > 0 {
		return a.RetryAfter, true
	}
	if !refuses(res.StatusCode) {
		return 0, false
	}
	if d := a.pause(); d >= 0 {
		return d, true
	}
	return 0, false
}

// refuses reports whether a response with that status may mean that a limit was
// hit, so that a quota it reports as used up is the reason.
func refuses(status int) bool {
	switch status {
	case http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusTeapot, 420,
		http.StatusTooManyRequests, http.StatusServiceUnavailable, 529:
		return true
	}
	return false
}

// pause returns how long to wait after a refusal that reported a: the delay it
// asks for, else the latest reset of the quotas that are used up, else the reset
// of the only quota that has one and does not say what remains; -1 if none is
// known. The smallest reset would be wrong: a quota with room has one too.
func (a *Advice) pause() time.Duration {
	if a.RetryAfter > 0 {
		return a.RetryAfter
	}
	d, only, resets := time.Duration(-1), time.Duration(-1), 0
	for i := range a.Quotas {
		q := &a.Quotas[i]
		if q.Reset < 0 {
			continue
		}
		resets++
		switch {
		case q.Remaining == 0:
			d = max(d, q.Reset)
		case q.Remaining < 0:
			only = q.Reset
		}
	}
	if d < 0 && resets == 1 {
		d = only
	}
	return max(d, a.RetryAfter)
}

// Dialect is a way of reading (and, for fake servers, writing) rate-limit
// headers. Auto reads every unambiguous one; the others settle what a header
// alone cannot say. To change one, copy it.
type Dialect struct {
	Name  string
	Parse func(h http.Header, now time.Time) Advice    // nil is ParseAdvice
	Write func(h http.Header, now time.Time, a Advice) // nil cannot be written; leaves out what it cannot say, and says nothing sooner than a
	Quota func(*http.Request) string                   // name of the reported quota that a request spends; nil is all that were reported
}
