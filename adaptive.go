package comity

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Adaptive is adaptive throttling, the client-side throttling of the Google SRE
// book: the share (requests - K*accepts) / (requests + 1) of the calls is refused
// before it is sent. Which calls pass is decided by tokens that accepted calls
// return, so that it follows a recovery within a round trip.
type Adaptive struct {
	K        float64             // calls sent per call accepted in overload, so 1-1/K refused for other reasons are tolerated; 2 if zero, off if negative
	Window   time.Duration       // how far back the counts go at most, 1 s to 1 h; 2 minutes if zero
	Plain    bool                // the book's rule to the letter: independent random draws over the whole Window
	Accepted func(*Attempt) bool // what counts as accepted; nil is a Verdict of Accepted or Broken; Limited, Unsent and Canceled count nowhere
	Shadow   bool                // report refusals, refuse nothing

	rand func() float64 // for tests; nil is math/rand/v2
}

// NewGate makes Adaptive a [Guard], for throttling at another place than
// [Policy.Adaptive] does it: behind the pacer, or without a [Transport]. Its gate
// refuses with a [*ThrottledError]. An invalid Adaptive refuses every call.
func (a Adaptive) NewGate(dest string) Gate {
	if errs := a.check(); len(errs) > 0 {
		return brokenGate{fmt.Errorf("comity: Adaptive: %w", errors.Join(errs...))}
	}
	return &adaptiveGate{ad: a.withDefaults(), dest: dest}
}

// withDefaults returns a with its zero fields set to what they mean.
func (a Adaptive) withDefaults() Adaptive {
	if a.K == 0 {
		a.K = 2
	}
	if a.Window == 0 {
		a.Window = 2 * time.Minute
	}
	return a
}

// Bounds of a window: below, no share means anything; above, a throttled
// destination would hold more than 30 KB.
const (
	minAdaptiveWindow = time.Second
	maxAdaptiveWindow = time.Hour
)

// check returns what is wrong with a, each error naming its field.
func (a Adaptive) check() (errs []error) {
	if math.IsNaN(a.K) || math.IsInf(a.K, 0) || a.K > 0 && a.K <= 1 {
		errs = append(errs, fieldError("K", "%v is not above 1", a.K))
	}
	if a.Window != 0 && (a.Window < minAdaptiveWindow || a.Window > maxAdaptiveWindow) {
		errs = append(errs, fieldError("Window", "%v is not between %v and %v", a.Window, minAdaptiveWindow, maxAdaptiveWindow))
	}
	return errs
}

// fieldError is what is wrong with a field of a configuration.
func fieldError(field, format string, args ...any) error {
	return fmt.Errorf("%s: %w", field, fmt.Errorf(format, args...))
}

// outcome says what the end of an attempt means to the throttle.
func (a *Adaptive) outcome(at *Attempt) (accepted, counts bool) {
	switch at.Verdict {
	case Accepted, Broken, Overloaded:
	default:
		return false, false
	}
	if a.Accepted != nil {
		return a.Accepted(at), true
	}
	return at.Verdict != Overloaded, true
}

// A Guard makes a Gate for each destination of a policy.
type Guard interface {
	NewGate(dest string) Gate
}

// A Gate is a Guard's state for one destination. It admits or refuses attempts
// that the pacer has let go, just before they are sent; what the pacer took is
// given back when a Gate refuses.
type Gate interface {
	// Enter returns nil to admit a. It may wait as long as the context of
	// a.Request lasts.
	Enter(a *Attempt) error

	// Leave is called once for each attempt admitted: when its response's body
	// has ended, or at once if there is none, it failed or was given up.
	// Enter and Leave get the same *Attempt.
	Leave(a *Attempt)
}

// adaptiveGate is the throttle as a Gate.
type adaptiveGate struct {
	ad   Adaptive
	dest string
	t    throttle
}

// Enter implements Gate. The attempt has no time yet, and outside a Transport
// never has one: a gate is the one place of the throttle that reads the clock.
func (g *adaptiveGate) Enter(a *Attempt) error {
	now := time.Now()
	ok, wait := g.t.admit(&g.ad, now, a.Call.Criticality, a.N > 1)
	if !ok && !g.ad.Shadow {
		return g.t.refusal(&g.ad, g.dest, now, wait)
	}
	g.t.sent(&g.ad, now)
	return nil
}

// Leave implements Gate.
func (g *adaptiveGate) Leave(a *Attempt) {
	if a.Verdict == Unsent {
		g.t.unsend(&g.ad, time.Now())
		return
	}
	accepted, counts := g.ad.outcome(a)
	g.t.done(&g.ad, time.Now(), accepted, counts)
}

// String shows the gate in [Destination.Gates].
func (g *adaptiveGate) String() string {
	if g.ad.K < 0 {
		return "adaptive off"
	}
	_, _, p := g.t.snapshot(&g.ad, time.Now())
	return fmt.Sprintf("adaptive K=%v refusing %.3g%%", g.ad.K, 100*p)
}

// brokenGate is the gate of an invalid guard.
type brokenGate struct{ err error }

func (g brokenGate) Enter(*Attempt) error { return g.err }
func (g brokenGate) Leave(*Attempt)       {}
func (g brokenGate) String() string       { return g.err.Error() }
