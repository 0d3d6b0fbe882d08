package comity

import (
	"slices"
	"strings"
	"time"
)

// Bounds of what is remembered of routes and refused calls.
const (
	maxPrefixes = 64 // of one quota
	maxSuspects = 64 // of one destination
)

// report takes in what the answer to k says of quotas. It reports whether it
// stated one that k spends.
func (p *pacer) report(k *turn, a *answer, excess time.Duration) (stated bool) {
	t := p.told
	var found [maxQuotas]*quota
	n := 0
	quotas := a.advice.Quotas
	if a.aged {
		quotas = nil
	}
	now, sent := stampOf(a.now), stampOf(a.sent)
	t.reports++
	for i := range quotas {
		q := t.find(&quotas[i])
		if q == nil {
			q = p.learnQuota(k, &quotas[i], a.now)
		}
		if q != nil && n < maxQuotas {
			found[n], q.in = q, t.reports
			n++
		}
	}
	for _, s := range k.spent {
		if !s.early || s.q.share.on || s.q.pace(now) > 0 {
			s.q.share.ended(now, a.verdict == Limited, s.q.divisible())
		}
		s.q.ended(now, sent, s.n, s.early, t.has(s.q), a.verdict)
	}
	p.endedBefore(k, now, sent, a.verdict)
	for i := range found[:n] {
		q := found[i]
		stated = stated || quotas[i].Remaining >= 0 && q.unit == unitRequests
		s := k.spentOn(q)
		if s.lone && a.verdict == Accepted && quotas[i].Remaining >= 0 {
			q.pacing(sent, quotas[i].Remaining)
		}
		q.report(now, sent, excess, s.index, a.verdict == Limited, &quotas[i])
		if q.note(k) && q.partial {
			p.requeue(a.now)
		}
	}
	k.spent = k.spent[:0]
	if n > 0 {
		p.leftOut(k, a.now)
	}
	return stated
}

// has reports whether the answer that report takes in states q.
func (t *told) has(q *quota) bool { return q.in == t.reports }

// spentOn is what k took of q; nothing if k is not known to spend it.
func (k *turn) spentOn(q *quota) spent {
	for _, s := range k.spent {
		if s.q == q {
			return s
		}
	}
	return spent{}
}

// endedBefore ends k for the quotas that became known while it was in flight.
func (p *pacer) endedBefore(k *turn, now, sent stamp, v Verdict) {
	for _, q := range p.told.quotas {
		if k.num > 0 && k.num <= q.born && q.unit == unitRequests {
			q.ended(now, sent, 1, false, p.told.has(q), v)
		}
	}
}

// learnQuota begins to keep a quota that was not known. The calls in flight count
// against it: they were sent without it.
func (p *pacer) learnQuota(k *turn, r *Quota, now time.Time) *quota {
	t := p.told
	q := &quota{name: r.Name, unit: r.Unit, limit: r.Limit, window: -1, told: -1, born: p.sends}
	if q.unit == "" {
		q.unit = unitRequests
	}
	if q.unit == unitRequests {
		q.flying = int64(p.flying) + 1 // and k, whose end is noted next
	}
	if len(t.quotas) < maxQuotas {
		t.quotas = append(t.quotas, q)
	} else {
		i := t.oldest(now)
		if i < 0 {
			return nil
		}
		t.quotas[i] = q
	}
	p.requeue(now)
	return q
}

// oldest returns the place of the quota that may be forgotten for a new one, -1 if
// none may.
func (t *told) oldest(now time.Time) int {
	best := -1
	for i, q := range t.quotas {
		if q.idle(stampOf(now)) && (best < 0 || q.seen.Before(t.quotas[best].seen)) {
			best = i
		}
	}
	return best
}

// find returns the quota that r reports: the one of its name and unit, or if the
// server names none, of its limit and window.
func (t *told) find(r *Quota) *quota {
	for _, q := range t.quotas {
		if q.name != r.Name || q.unit != r.Unit && !(r.Unit == "" && q.unit == unitRequests) {
			continue
		}
		if q.name == "" && (q.limit >= 0 && r.Limit >= 0 && q.limit != r.Limit ||
			q.window > 0 && r.Window > 0 && q.window != r.Window) {
			continue
		}
		return q
	}
	return nil
}

// leftOut narrows the quotas that the answer to k, which reports some, leaves out:
// from now on they bind only calls to the routes that they were reported for.
func (p *pacer) leftOut(k *turn, now time.Time) {
	changed := false
	for _, q := range p.told.quotas {
		if q.partial || p.told.has(q) || !q.binds(k) || k.req == nil {
			continue
		}
		q.partial = true
		changed = true
	}
	if changed {
		p.requeue(now)
	}
}

// note remembers that q was reported for the route of k; it reports whether that
// was new.
func (q *quota) note(k *turn) bool {
	if k.req == nil || k.req.URL == nil {
		return false
	}
	if q.lastRoute(k.req.URL.Path) {
		return false
	}
	route := routeOf(k.req.URL.Path)
	if i := slices.Index(q.routes, route); i >= 0 {
		q.route = q.routes[i]
		return false
	}
	if len(q.routes) == maxPrefixes {
		return false
	}
	q.route = strings.Clone(route)
	q.routes = append(q.routes, q.route)
	return true
}

// lastRoute reports whether path has the route that q was last reported for, by
// comparing no more than that.
func (q *quota) lastRoute(path string) bool {
	n := len(q.route)
	if n == 0 || !strings.HasPrefix(path, q.route) {
		return false
	}
	return len(path) == n || path[n] == '/' && !isVersion(strings.TrimPrefix(q.route, "/"))
}

// binds reports whether a call of k spends q, as far as routes tell.
func (q *quota) binds(k *turn) bool {
	if k.quotaOf != "" {
		return q.name == k.quotaOf
	}
	if !q.partial || k.req == nil || k.req.URL == nil {
		return true
	}
	route := routeOf(k.req.URL.Path)
	for _, r := range q.routes {
		if r == route {
			return true
		}
	}
	return false
}

// spends returns what a call of k spends of q; not ok if q does not pace it.
func (q *quota) spends(k *turn) (n int64, ok bool) {
	if !q.binds(k) {
		return 0, false
	}
	if q.unit == unitRequests {
		return 1, true
	}
	for i := range k.charges {
		if c := &k.charges[i]; c.rule.unit == q.unit {
			return int64(c.n), true
		}
	}
	return 0, false
}

// routeOf returns the part of a path by which quotas are told apart: its first
// segment, or two where the first is a version or "api".
func routeOf(path string) string {
	end := segment(path, 0)
	if isVersion(strings.TrimPrefix(path[:end], "/")) {
		end = segment(path, end)
	}
	return path[:end]
}

// segment returns the end of the path segment that begins at i.
func segment(path string, i int) int {
	if i >= len(path) {
		return len(path)
	}
	if j := strings.IndexByte(path[i+1:], '/'); j >= 0 {
		return i + 1 + j
	}
	return len(path)
}

// isVersion reports whether a path segment names a version of an API, or the API.
func isVersion(s string) bool {
	if s == "api" || s == "rest" {
		return true
	}
	s = strings.TrimPrefix(s, "v")
	if s == "" || len(s) > 8 {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}

// emptied notes what a refusal without a delay says about the quotas that k
// spends. It reports whether one of them now says when to come back.
func (t *told) emptied(k *turn, a *answer) (ok bool) {
	if a.aged {
		return false
	}
	resets, bare := 0, (*quota)(nil)
	for i := range a.advice.Quotas {
		r := &a.advice.Quotas[i]
		q := t.find(r)
		if q == nil {
			continue
		}
		_, paced := q.spends(k)
		if r.Remaining == 0 && (r.Reset > 0 || r.Window > 0 || q.window > 0) {
			q.refused(stampOf(a.now), -1)
			ok = ok || paced
		}
		if r.Reset > 0 {
			resets++
			if r.Remaining < 0 && paced {
				bare = q
			}
		}
	}
	if !ok && resets == 1 && bare != nil {
		bare.known, bare.rest, bare.setAt = true, 0, stampOf(a.now)
		return true
	}
	return ok
}

// tellQuotas notes for the used up quotas of k what a delay told with a refusal
// says about their resets.
func (t *told) tellQuotas(k *turn, now time.Time, d time.Duration) {
	for _, q := range t.quotas {
		if _, ok := q.spends(k); ok && q.known && q.rest <= 0 {
			q.refused(stampOf(now), d)
		}
	}
}

// unpaced returns the longest reset of a quota that a refusal reports as used up
// and that paces nothing, because no Limit has its unit.
func (t *told) unpaced(k *turn, a *answer) (d time.Duration) {
	for i := range a.advice.Quotas {
		r := &a.advice.Quotas[i]
		if r.Remaining != 0 || r.Reset <= 0 || a.aged {
			continue
		}
		if q := t.find(r); q != nil && q.binds(k) {
			if _, paced := q.spends(k); !paced {
				d = max(d, r.Reset)
			}
		}
	}
	return d
}
