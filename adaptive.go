package comity

import "time"

// Adaptive is adaptive throttling, the client-side throttling of the Google SRE
// book: the share (requests - K*accepts) / (requests + 1) of the calls is refused
// before it is sent. Which calls pass is decided by tokens that accepted calls
// return, so that it follows a recovery within a round trip.
type Adaptive struct {
	K        float64             // calls sent per call accepted in overload, so 1-1/K refused for other reasons are tolerated; 2 if zero, off if negative
	Window   time.Duration       // how far back the counts go at most; 2 minutes if zero
	Plain    bool                // the book's rule to the letter: independent random draws over the whole Window
	Accepted func(*Attempt) bool // what counts as accepted; nil is a Verdict of Accepted or Broken; Limited, Unsent and Canceled count nowhere
	Shadow   bool                // report refusals, refuse nothing
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
