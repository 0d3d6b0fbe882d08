package comity

import (
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

// Dialect is a way of reading (and, for fake servers, writing) rate-limit
// headers. Auto reads every unambiguous one; the others settle what a header
// alone cannot say.
type Dialect struct {
	Name  string
	Parse func(h http.Header, now time.Time) Advice
	Write func(h http.Header, now time.Time, a Advice)
	Quota func(*http.Request) string // name of the reported quota that a request spends; nil is all that were reported
}
