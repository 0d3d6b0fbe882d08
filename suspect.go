package comity

import (
	"math"
	"time"
)

// suspect is a call that was refused, perhaps for its own sake: too large for a
// limit, or not in the plan. Such a call must not stop the others.
type suspect struct {
	since    uint64 // sends before its first refusal
	n        int    // refusals in a row
	accepted int    // tries of others, sent since, that were accepted
	refused  int    // and that were refused
	passed   int    // accepted since its last refusal
	until    time.Time
}

const (
	suspectOthers = 5    // accepted tries of others, before anything is concluded
	suspectFloor  = 0.02 // least share of refusals that others are taken to see
	suspectWait   = 0.01 // a run of refusals less likely than this is about the call
	suspectStop   = 1e-6 // and less likely than this, another try would not help
)

// cleared notes an accepted answer.
func (t *told) cleared(k *turn) {
	t.count(k, false)
	k.refusals = 0
	if k.suspect != nil {
		t.forget(k.suspect)
		k.suspect = nil
	}
}

// count notes for every suspect how a try of another call ended.
func (t *told) count(k *turn, refused bool) {
	for _, s := range t.suspects {
		if s == k.suspect || k.num <= s.since {
			continue
		}
		if refused {
			s.refused++
		} else {
			s.accepted++
			s.passed++
		}
	}
}

// forget drops s.
func (t *told) forget(s *suspect) {
	for i, o := range t.suspects {
		if o == s {
			last := len(t.suspects) - 1
			t.suspects[i], t.suspects[last] = t.suspects[last], nil
			t.suspects = t.suspects[:last]
			return
		}
	}
}

// ownFault notes a refusal of k's call. It reports whether the refusal is about
// the call and not about its destination; then only the call waits.
func (t *told) ownFault(k *turn, a *answer, sends uint64, r *ruling) bool {
	t.count(k, true)
	s := k.suspect
	if s == nil {
		s = &suspect{since: sends}
		k.suspect = s
		if len(t.suspects) == maxSuspects {
			t.forget(t.suspects[0])
		}
		t.suspects = append(t.suspects, s)
	}
	if s.n > 0 && s.passed == 0 {
		return false // nothing passed since: it says nothing new about the call
	}
	s.n++
	s.passed = 0
	if s.accepted < suspectOthers {
		return false
	}
	// The rule of succession (Laplace): few tries show no small share.
	f := max(float64(s.refused+1)/float64(s.accepted+s.refused+2), suspectFloor)
	p := math.Pow(f, float64(s.n))
	if p >= suspectWait {
		return false
	}
	d := a.advice.RetryAfter
	if d <= 0 {
		d = ownBackoff(s.n, k.pol.Retry.Base, k.pol.Retry.Cap, randFloat)
	}
	s.until = a.now.Add(min(d, maxHold))
	r.told = a.advice.RetryAfter
	r.final = s.n >= 3 && p < suspectStop
	return true
}
