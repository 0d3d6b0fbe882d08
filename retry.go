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
