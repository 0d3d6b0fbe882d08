package comity

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/comity/comity/internal/limit"
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

// PerSecond returns a Limit of n evenly spaced calls a second.
func PerSecond(n int) Limit { return Limit{N: n, Per: time.Second} }

// PerMinute returns a Limit of n evenly spaced calls a minute.
func PerMinute(n int) Limit { return Limit{N: n, Per: time.Minute} }

// PerHour returns a Limit of n evenly spaced calls an hour.
func PerHour(n int) Limit { return Limit{N: n, Per: time.Hour} }

// Every returns a Limit of one call per d.
func Every(d time.Duration) Limit { return Limit{N: 1, Per: d} }

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

// NewLimiter returns the limiter that l describes, unused: what l.New returns if
// that is set, for no destination and no key. For, Key, Cost and the other
// functions of l are for those who call the limiter. The error names every field
// that is invalid.
func NewLimiter(l Limit) (Limiter, error) {
	if errs := checkLimit(l); len(errs) > 0 {
		for i, err := range errs {
			errs[i] = fmt.Errorf("comity: limit %s: %w", l, err)
		}
		return nil, errors.Join(errs...)
	}
	if l.New == nil {
		return makeLimiter(l.Algorithm, l.rule()), nil
	}
	m := l.New("", "")
	if m == nil {
		return nil, fmt.Errorf("comity: limit %s: New returned nil", l)
	}
	return m, nil
}

// rule returns what the limiters of l enforce; they may share it.
func (l Limit) rule() *limit.Rule { return &limit.Rule{N: l.N, Per: l.Per, Burst: l.Burst} }

// makeLimiter returns a limiter for a rule that has been checked.
func makeLimiter(a Algorithm, r *limit.Rule) limit.Limiter {
	switch a {
	case GCRA:
		return limit.NewGCRA(r)
	case LeakyBucket:
		return limit.NewLeaky(r)
	case FixedWindow:
		return limit.NewFixed(r)
	case SlidingLog:
		return limit.NewLog(r)
	case SlidingWindow:
		return limit.NewWindow(r)
	}
	return limit.NewBucket(r)
}

// checkLimit returns what is wrong with l, each error beginning with the field. A
// limit with a New of its own needs no N and Per.
func checkLimit(l Limit) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	needed := l.New == nil || l.N != 0 || l.Per != 0
	if needed && l.N < 1 {
		bad("N is %d, must be at least 1", l.N)
	}
	if needed && l.Per < 1 {
		bad("Per is %v, must be above 0", l.Per)
	}
	if l.Burst < 0 {
		bad("Burst is %d, must not be negative", l.Burst)
	}
	if int(l.Algorithm) >= len(algorithms) {
		bad("Algorithm is %d, there is none of that number", l.Algorithm)
	}
	return errs
}

// RateLimiter adapts a limiter of golang.org/x/time/rate. It is asked without
// waiting, so no reservation is left behind; others may use l meanwhile. A nil l
// allows nothing.
func RateLimiter(l *rate.Limiter) Limiter { return &rateLimiter{l: l} }

type rateLimiter struct {
	l *rate.Limiter

	mu   sync.Mutex
	last time.Time // l counts the time between two calls twice if they come in the wrong order
}

func (r *rateLimiter) Take(now time.Time, n int) (time.Duration, error) {
	if r.l == nil {
		return Forever, nil
	}
	if n <= 0 {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.forward(now)
	v := r.l.ReserveN(at, n)
	if !v.OK() {
		return Forever, nil
	}
	d := v.DelayFrom(at)
	if d == 0 {
		return 0, nil
	}
	v.CancelAt(at)
	if d > Forever-at.Sub(now) {
		return Forever, nil
	}
	return d + at.Sub(now), nil
}

func (r *rateLimiter) Adjust(now time.Time, n int) {
	if r.l == nil || n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.forward(now)
	b := r.l.Burst()
	if n <= b || r.l.Limit() == rate.Inf {
		r.l.ReserveN(at, n)
		return
	}
	// A charge above the burst is refused, and charges nothing.
	r.l.SetBurstAt(at, n)
	r.l.ReserveN(at, n)
	r.l.SetBurstAt(at, b)
}

// forward returns the latest time there was. A reservation that is canceled has
// moved l on as well.
func (r *rateLimiter) forward(now time.Time) time.Time {
	if now.After(r.last) {
		r.last = now
	}
	return r.last
}
