package comity

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// errCost marks a cost that a limit will never allow.
var errCost = errors.New("never allowed")

// refuse returns the error of a call that y keeps from going. est is the earliest
// time at which it could go, zero if that is not known; b is what it may not
// outlast.
func (p *pacer) refuse(k *turn, y way, est, now time.Time, b bound) *ThrottledError {
	e := &ThrottledError{Reason: y.why, Destination: p.name, Limit: gateLabel(y.gate)}
	if !est.IsZero() {
		e.RetryAfter = max(est.Sub(now), 0)
	}
	switch {
	case y.err == errCost:
		e.RetryAfter = 0
		e.detail = fmt.Sprintf("%s never allows %d units at once", e.gateText(y.gate), k.units(y.gate))
		return e
	case y.err != nil:
		e.Err = y.err
		e.detail = e.gateText(y.gate) + ": " + y.err.Error()
		return e
	case y.why == ReasonQueue:
		e.Limit = ""
		e.detail = fmt.Sprintf("%d calls wait already (MaxWaiting)", p.waiting)
		return e
	}
	e.detail = e.gateText(y.gate)
	switch g := y.gate.(type) {
	case *int32:
		e.detail = fmt.Sprintf("%d of %d calls open (MaxInFlight), waited %s", *g, k.pol.MaxInFlight, short(k.waited))
	case *hold:
		e.detail = "held for " + short(e.RetryAfter) + g.cause()
		if e.RetryAfter == 0 {
			e.detail = "held back while a scout asks" + g.cause()
		}
	case *quota:
		next := ", resets in "
		if g.left() > 0 {
			next = ": next call in "
		}
		e.detail += next + short(e.RetryAfter)
	default:
		e.detail += ": next call in " + short(e.RetryAfter)
	}
	if b.byDeadline() && (est.IsZero() || !est.Before(b.deadline) || !now.Before(b.at())) {
		e.Err = context.DeadlineExceeded
		e.detail += ", context ends in " + short(b.deadline.Sub(now))
		return e
	}
	switch {
	case k.maxWait > 0:
		e.detail += ", MaxWait is " + short(k.maxWait)
	default:
		e.detail += ", MaxWait allows no wait"
	}
	return e
}

// gateLabel is how ThrottledError.Limit and Readiness.Limit name g.
func gateLabel(g gate) string {
	switch g := g.(type) {
	case *account:
		return g.rule.label
	case *quota:
		return g.name
	}
	return ""
}

// gateText is how the text of an error names g.
func (e *ThrottledError) gateText(g gate) string {
	switch g := g.(type) {
	case *account:
		return g.name()
	case *quota:
		s := "quota"
		if g.name != "" {
			s += " " + strconv.Quote(clipName(g.name))
		}
		of := ""
		if g.limit >= 0 {
			of = strconv.FormatInt(g.limit, 10)
		}
		switch n := g.left(); {
		case n > 0 && of != "": // spaced, not used up
			return s + " (" + strconv.FormatInt(n, 10) + " of " + of + " left)"
		case n > 0:
			return s + " (" + strconv.FormatInt(n, 10) + " left)"
		case of != "":
			return s + " used up (" + of + ")"
		}
		return s + " used up"
	case *suspect:
		return "refused for its own sake " + strconv.Itoa(g.n) + " times"
	case *pace:
		return "rate learned from refusals"
	case *time.Time:
		return "pause after the last call (Delay)"
	}
	return "held back"
}

// clipName bounds a name that a server chose.
func clipName(s string) string {
	if len(s) > 64 {
		return s[:64]
	}
	return s
}

// units is what the call of k spends of g.
func (k *turn) units(g gate) int {
	for _, cs := range [][]charge{k.charges, k.globals} {
		for i := range cs {
			if cs[i].b == g {
				return cs[i].n
			}
		}
	}
	return 0
}

// cause says in words who set h, for errors.
func (h *hold) cause() string {
	switch h.kind {
	case holdTold:
		if h.code == 0 {
			return ""
		}
		return " by " + strconv.Itoa(int(h.code)) + " with Retry-After"
	case holdOwn:
		if h.code == 0 {
			return " by a refusal without a usable delay"
		}
		return " by " + strconv.Itoa(int(h.code)) + " without a usable delay"
	case holdOperator:
		return " by Hold"
	}
	return ""
}

// short writes d as errors show it: to the millisecond, rounded up.
func short(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	if d > Forever-time.Millisecond {
		return d.String()
	}
	return (d + time.Millisecond - 1).Truncate(time.Millisecond).String()
}

// rateText is the text form of n per per.
func rateText(n int, per time.Duration) string { return Limit{N: n, Per: per}.String() }
