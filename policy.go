package comity

import (
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// Config says how a Transport treats each destination. The zero Config obeys
// what servers report, retries what is safe, and throttles with K = 2. It takes
// each host as one account: with several credentials for a host, set Policy.Key
// to CredentialKey("Authorization").
type Config struct {
	// Policies maps a pattern to its policy: "host", "host/path/", "*.domain"
	// (hosts below domain, not domain itself), or "" for everything else. A
	// host beats a wildcard, then the longest match wins. A pattern has no
	// scheme, and names the port where it is not the scheme's default. A policy
	// takes nothing over from "".
	Policies map[string]Policy

	// PolicyFor, if set, gives the policy of a host that only "" matches. It is
	// called without a lock, perhaps twice at once, when the host's destination
	// is first used, again after that was forgotten, and by Refresh. Calls fail
	// with New's error while it gives an invalid one; Refresh then changes nothing.
	PolicyFor func(host string) Policy

	// Limits hold for all calls of the Transport together, besides the limits
	// of each policy.
	Limits []Limit

	// Trace receives the events of every call.
	Trace *Trace

	// MaxDestinations bounds memory: 100,000 if zero. Only a destination whose
	// loss changes no decision is forgotten.
	MaxDestinations int
}

// Policy is how one destination is treated. It is a plain value: copy it,
// change a field, use it for another; to change one element of a copied Limits
// or Guards, make a new slice first. A zero field means its default, a negative
// one means none.
//
// Policies with the same Name share one destination: counts, holds, quotas,
// throttle and gates. Each call obeys the policy of its own pattern; Adaptive and
// Guards are those of the first of the patterns in sorted order. Limits with the
// same written Name in them, or unnamed at the same position, are one budget, and
// New refuses such a pair if N, Per, Burst, Algorithm or Unit differ (functions
// are not compared). Two limits of one policy are never one budget.
type Policy struct {
	Name        string                     // destination; "" is the pattern, or the host for a wildcard or ""
	Key         func(*http.Request) string // splits the destination, each part with limits, holds and quotas of its own; nil or "" does not
	Limits      []Limit                    // all must allow a call
	MaxInFlight int                        // calls open at once, until the response body ends; 0 is no cap, or 1 with Delay
	MaxWaiting  int                        // calls held back at once, first tries above it are refused; 0 is no cap, negative lets none wait
	MaxWait     time.Duration              // longest a call is held back, all waits together; 0 is two minutes, negative is not at all, so nothing is retried either; Forever for batch jobs
	Delay       Delay                      // pause after each call; none if zero
	Spread      float64                    // part of a reported quota spaced evenly until its reset; 0 spends it freely, 1 spaces all of it
	Dialect     *Dialect                   // spelling of the server's headers; nil is Auto
	Adaptive    Adaptive                   // client-side throttling; on if zero
	Classify    func(*Attempt) Verdict     // what an attempt's end means, where a partner differs; nil is as Verdict says. Limited with a 4xx status lets a POST be sent again
	Retry       Retry
	Guards      []Guard // further admission control, as in package egress
	Shadow      bool    // decide and report, but let every call pass
}

// Delay is the pause between the end of one response and the start of the next
// call: Factor times the latency of the last accepted answer, at most Max (no
// bound if zero), at least Min, the whole lengthened by up to Jitter of itself.
type Delay struct {
	Min, Max time.Duration
	Factor   float64
	Jitter   float64
}

// policy is a Policy made ready: defaults filled in, limits numbered. It is
// immutable.
type policy struct {
	Policy
	pattern string
	name    string // its destination; "" is the host of the call
	limits  []limitRule
	shared  *commons               // Config.Limits; nil if none
	rules   *ruleBook              // those it is one of; nil for one of PolicyFor
	shades  bool                   // some limit is a shadow
	settles bool                   // some limit has a Settle
	shown   bool                   // some function of it sees Attempts
	ends    bool                   // something needs the end of each response's body
	serial  uint64                 // of one of PolicyFor that all hosts share for which it says the same; 0 for others
	slowed  atomic.Pointer[policy] // what slow made of it
	alone   *group                 // what a destination with this policy alone obeys; nil with Guards
}

const (
	defaultMaxWait         = 2 * time.Minute
	defaultRetries         = 2
	defaultRetryBase       = 500 * time.Millisecond
	defaultRetryCap        = 30 * time.Second
	defaultRetryBudget     = 0.1
	defaultMaxDestinations = 100_000
)

// newPolicy fills in the defaults of p. What pattern p has of its own says which
// destination it makes: a host's or a path's is one, the others make one for each
// host.
func newPolicy(p Policy, pattern string, shared *commons) *policy {
	q := &policy{Policy: p, pattern: pattern, name: p.Name, shared: shared}
	if q.name == "" && pattern != "" && !isWildcard(pattern) {
		q.name = pattern
	}
	q.limits = ruleLimits(p.Limits)
	settle := func(r limitRule) bool { return r.Settle != nil }
	q.settles = slices.ContainsFunc(q.limits, settle) || shared != nil && slices.ContainsFunc(shared.rules, settle)
	shadow := func(r limitRule) bool { return r.Shadow }
	q.shades = slices.ContainsFunc(q.limits, shadow) || shared != nil && slices.ContainsFunc(shared.rules, shadow)
	if q.MaxWait == 0 {
		q.MaxWait = defaultMaxWait
	}
	q.Delay = p.Delay.withDefaults()
	if q.MaxInFlight == 0 && q.Delay != (Delay{}) {
		q.MaxInFlight = 1
	}
	q.MaxInFlight = max(q.MaxInFlight, 0)
	q.Spread = max(q.Spread, 0)
	q.Adaptive = p.Adaptive.withDefaults()
	q.Adaptive.Shadow = q.Adaptive.Shadow || p.Shadow
	q.Retry = p.Retry.withDefaults()
	q.ends = q.MaxInFlight > 0 || q.Delay != (Delay{}) || len(q.Guards) > 0
	q.shown = q.settles || q.Classify != nil || q.Retry.When != nil || q.Adaptive.Accepted != nil || len(q.Guards) > 0
	if len(q.Guards) == 0 {
		q.alone = &group{policies: []*policy{q}}
	}
	return q
}

// withDefaults returns d with what is negative, and so off, set to zero.
func (d Delay) withDefaults() Delay {
	d = Delay{Min: max(d.Min, 0), Max: max(d.Max, 0), Factor: max(d.Factor, 0), Jitter: max(d.Jitter, 0)}
	if d.Min == 0 && d.Factor == 0 {
		return Delay{}
	}
	return d
}

// withDefaults returns r with its defaults filled in.
func (r Retry) withDefaults() Retry {
	if r.Max == 0 {
		r.Max = defaultRetries
	}
	if r.Base <= 0 {
		r.Base = defaultRetryBase
	}
	if r.Cap <= 0 {
		r.Cap = defaultRetryCap
	}
	if r.Budget == 0 {
		r.Budget = defaultRetryBudget
	}
	return r
}
