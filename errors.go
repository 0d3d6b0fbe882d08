package comity

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// ErrThrottled matches every refusal to send, with [errors.Is].
var ErrThrottled = errors.New("comity: throttled")

// ThrottledError reports a request that was not sent.
type ThrottledError struct {
	Reason      Reason
	Destination string
	Limit       string        // the limit, quota or gate that refused
	RetryAfter  time.Duration // when to ask again; 0 if not known
	Err         error         // the gate's or limiter's error, or [context.DeadlineExceeded]

	detail string // the rule, the wait and the setting that refused, as Error prints them
}

// Error names the destination, the rule that refused, the wait and the setting
// that decided. It never holds a URL, a header value or a credential.
func (e *ThrottledError) Error() string {
	s := "comity: "
	if e.Destination != "" {
		s += e.Destination + ": "
	}
	if e.detail != "" {
		return s + e.detail
	}
	s += "refused (" + string(e.Reason) + ")"
	if e.Limit != "" {
		s += " by " + strconv.Quote(e.Limit)
	}
	if e.RetryAfter > 0 {
		s += ": next call in " + e.RetryAfter.String()
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is [ErrThrottled].
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }

// Unwrap returns e.Err.
func (e *ThrottledError) Unwrap() error { return e.Err }

// Timeout reports whether the request would have outlived its context, so that
// [net/url.Error.Timeout] is true for it.
func (e *ThrottledError) Timeout() bool { return errors.Is(e.Err, context.DeadlineExceeded) }

// Reason says why a request is held back or was not sent, in a form fit for a
// metric label.
type Reason string

const (
	ReasonLimit    Reason = "limit"    // a configured or reported limit has no unit free
	ReasonHeld     Reason = "held"     // the server, or an operator, asked for silence
	ReasonDelay    Reason = "delay"    // the pause after the last call
	ReasonInFlight Reason = "inflight" // too many calls are open
	ReasonQueue    Reason = "queue"    // too many calls wait already
	ReasonCost     Reason = "cost"     // more than a limit ever allows
	ReasonAdaptive Reason = "adaptive" // the destination refuses too much
	ReasonGuard    Reason = "guard"    // a gate refused
)
