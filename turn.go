package comity

import (
	"net/http"
	"time"
)

// caller is what a pacer asks of the call that holds a turn. It is called
// without a lock.
type caller interface {
	waiting(d time.Duration, why Reason) // the turn begins to be held back; d is -1 if that depends on another call
	repolicy() *policy                   // the policy of the call as it is now, after SetPolicies
}

// turn is one try's standing with its pacer. The owner sets the first block; the
// pacer keeps the rest. It is part of the transport's object for a try.
type turn struct {
	by      caller
	req     *http.Request
	cost    Cost // Call.Cost
	pol     *policy
	crit    Criticality
	again   bool          // a later try: ahead of first tries of its class
	maxWait time.Duration // bound of waited: Call.MaxWait, else the policy's; Forever, or <= 0 for none
	waited  time.Duration // held back so far, all tries

	charges  []charge  // of the destination's limits
	globals  []charge  // of Config.Limits
	quotaOf  string    // what Dialect.Quota says
	bound    bool      // charges point at accounts
	placed   bool      // holds a place
	airborne bool      // let go, no answer yet
	ramped   bool      // counted by a ramp
	away     bool      // waited, and is about to ask anew
	peeks    bool      // asks and takes nothing
	scout    bool      // went as the only call after a hold
	refusals int       // in a row
	seq      uint64    // age
	num      uint64    // place among the calls let go; 0 if it was not
	at       time.Time // when it was let go
	spent    []spent
	suspect  *suspect
	would    *would // what a shadow would have done; nil is nothing

	chargeBuf [2]charge
	spentBuf  [2]spent
}

// spent is what a turn took of a reported quota.
type spent struct {
	q     *quota
	n     int64
	index int64 // units taken when it went, its own included
	early bool
	lone  bool // nothing else of q was in flight, and nothing was left
}

// price asks what the call of k costs. It runs user code: no lock is held.
func (k *turn) price() {
	pol := k.pol
	k.bound = false
	k.charges, k.globals, k.quotaOf = k.charges[:0], k.globals[:0], ""
	if len(pol.limits) > 0 {
		if k.charges == nil {
			k.charges = k.chargeBuf[:0]
		}
		k.charges = priceLimits(k.charges, pol.limits, k.req, k.cost)
	}
	if pol.shared != nil {
		k.globals = priceLimits(k.globals, pol.shared.rules, k.req, k.cost)
	}
	if d := pol.Dialect; d != nil && d.Quota != nil {
		k.quotaOf = d.Quota(k.req)
	}
}

// follow makes k the turn of the try after prev's: the same call at the same
// cost, again.
func (k *turn) follow(prev *turn) {
	k.by, k.req, k.cost, k.pol, k.crit = prev.by, prev.req, prev.cost, prev.pol, prev.crit
	k.again, k.maxWait, k.waited = true, prev.maxWait, prev.waited
	k.seq, k.refusals, k.suspect, k.quotaOf = prev.seq, prev.refusals, prev.suspect, prev.quotaOf
	k.charges = append(k.chargeBuf[:0], prev.charges...)
	k.globals = append(k.globals[:0], prev.globals...)
	for i := range k.charges {
		k.charges[i].took = false
	}
	for i := range k.globals {
		k.globals[i].took = false
	}
	k.bound = prev.bound
}
