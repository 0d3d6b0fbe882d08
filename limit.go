package comity

import (
	"math"
	"net/http"
	"time"
)

// Limit is one rule of a destination: N units per Per.
type Limit struct {
	Name      string                         // in traces and errors; N and Per of its text form if empty, as "100/m"
	N         int                            // units allowed
	Per       time.Duration                  // in this time
	Burst     int                            // units a bucket holds; 0 spaces calls: each waits until the units of the last are paid off
	Algorithm Algorithm                      // how units are counted
	For       func(*http.Request) bool       // calls it applies to; nil is all
	Key       func(*http.Request) string     // one budget for each value, shown in errors and pages; nil is one for all
	Unit      string                         // what is counted, as in Quota.Unit; "requests" if empty
	Cost      func(*http.Request) int        // units a request spends, without reading its Body; nil is 1
	Settle    func(*Attempt) int             // units that the response's headers say it spent; nil is what Cost said
	New       func(dest, key string) Limiter // replaces the limiter of Algorithm, as for a limit shared by a fleet
	Shadow    bool                           // report what it would hold back, hold nothing back
}

// Algorithm is a way of counting units.
type Algorithm uint8

const (
	TokenBucket   Algorithm = iota // refilled at N per Per, holds Burst; on golang.org/x/time/rate
	GCRA                           // the same rule kept as one timestamp
	LeakyBucket                    // calls leave Per/N apart whatever the Burst; a fake server holds Burst of them
	FixedWindow                    // N in each window of the clock
	SlidingLog                     // N in any span of Per, exactly; remembers each call
	SlidingWindow                  // N in any span of Per, estimated from two counters
)

// Forever is the wait for a cost that no limit will ever allow, and the MaxWait
// of a call that waits as long as its context lasts.
const Forever time.Duration = math.MaxInt64

// A Limiter applies one rule to one key. Its methods are called with a Pacer's
// lock held: they must not block, call a server or call the Pacer. They are safe
// for concurrent use, as one Limiter may serve several destinations.
type Limiter interface {
	// Take spends n units if they are free at now and returns 0. Otherwise it
	// spends nothing and returns how long until it is worth asking again, or
	// [Forever]. An error refuses the call with a ThrottledError that wraps it;
	// the limiters of this package have none.
	Take(now time.Time, n int) (wait time.Duration, err error)

	// Adjust adds n units to what has been spent as of now: a negative n gives
	// back units that were taken and not used, a positive n charges without
	// asking. Giving back never lifts the limiter above full; at the now of the
	// Take it leaves the limiter as it was.
	Adjust(now time.Time, n int)
}
