// Package egress keeps a service that is overloaded from taking its callers with
// it, and lets it recover: adaptive concurrency, shared caps, and shedding by
// criticality.
//
// [Concurrency] and [Bulkhead] are for Policy.Guards. List a Bulkhead after a
// Concurrency: what comes first does the waiting, and a call that waits for its
// own destination must not hold a place that others could use. [Inbound] and
// [Outbound] carry the criticality of calls between services of one's own.
package egress

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/comity/comity"
)

// Shares is the part of a cap that calls of each criticality may fill. A
// criticality not listed may fill all of it.
//
// The places of all calls count: with Shares{comity.Sheddable: 0.5} batch work
// gets a place only while less than half of all places are taken, by whomever. A
// part above 0 is at least one place; 0 or less is none.
type Shares map[comity.Criticality]float64

// caps returns how many of n places calls of each rank may fill.
func (s Shares) caps(n int) (caps [ranks]int) {
	for r, c := range [ranks]comity.Criticality{comity.CriticalPlus, comity.Critical, comity.SheddablePlus, comity.Sheddable} {
		caps[r] = n
		switch share, listed := s[c]; {
		case !listed:
		case share > 0:
			caps[r] = min(max(int(share*float64(n)), 1), n)
		default:
			caps[r] = 0
		}
	}
	return caps
}

// check reports a share that is no part.
func (s Shares) check() error {
	for c, share := range s {
		if !(share <= 1) { // NaN too
			return fmt.Errorf("Shares: %v of %v is not a part of 1", share, c)
		}
	}
	return nil
}

// ranks are the classes, the most critical first.
const ranks = 4

func rank(c comity.Criticality) int {
	switch {
	case c >= comity.CriticalPlus:
		return 0
	case c == comity.SheddablePlus:
		return 2
	case c <= comity.Sheddable:
		return 3
	}
	return 1
}

// errFull is why a gate refuses at once.
var errFull = errors.New("full")

// beforeDeadline is how long before its context ends a call that waits is given
// up: later, net/http could report the deadline in its own words.
const beforeDeadline = time.Millisecond

// patience returns how long a call may wait for a place, and the error it is
// refused with when that is over.
func patience(ctx context.Context, wait time.Duration) (time.Duration, error) {
	if wait <= 0 {
		return 0, errFull
	}
	if end, ok := ctx.Deadline(); ok {
		if left := time.Until(end) - beforeDeadline; left < wait {
			return max(left, 0), fmt.Errorf("full, and the context ends: %w", context.DeadlineExceeded)
		}
	}
	return wait, fmt.Errorf("full for %v", wait)
}

// broken is the gate of an invalid guard: it refuses every call.
type broken struct {
	name string
	err  error
}

func (g broken) Enter(*comity.Attempt) error { return g.err }
func (g broken) Leave(*comity.Attempt)       {}
func (g broken) String() string              { return g.name }
