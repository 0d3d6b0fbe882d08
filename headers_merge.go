package comity

import (
	"slices"
	"time"
)

// assemble makes quotas of the reports.
func (p *parser) assemble() {
	p.merge()
	p.pair()
	p.absorbUnnamed()
	if p.name != "" {
		p.rename()
		p.merge()
	}
	for i := range p.policies {
		if l := &p.policies[i]; !l.used {
			r := report{Quota: Quota{Limit: l.limit, Remaining: -1, Window: l.window, Reset: -1}, blame: l.blame}
			r.Limit, r.frac = l.limit, l.frac
			r.Window, r.stated = l.window, l.window > 0
			p.quotas = append(p.quotas, r)
		}
	}
	p.a.Quotas = slices.Grow(p.a.Quotas, min(len(p.quotas), maxQuotas))
	for i := range p.quotas {
		r := &p.quotas[i]
		if r.frac > 0 && r.Window > 0 {
			r.Window = ceilMilli(mulDiv(r.Window, 1e9, int64(r.frac)))
		}
		if r.Limit >= 0 && r.Remaining > r.Limit {
			r.Remaining = r.Limit
		}
		if r.Limit < 0 && r.Remaining < 0 && !r.stated && r.Reset <= 0 {
			continue
		}
		if r.Unit == "" {
			r.Unit = unitOf(r.Name)
		}
		if len(p.a.Quotas) == maxQuotas {
			p.flagKey(r.blame)
			continue
		}
		p.a.Quotas = append(p.a.Quotas, r.Quota)
	}
}

// merge makes one report of those that are about the same quota. The reports
// are in the order of their sources.
func (p *parser) merge() {
	kept := 0
next:
	for i := range p.quotas {
		r := &p.quotas[i]
		for j := range kept {
			if p.quotas[j].same(r) {
				p.quotas[j].absorb(r)
				continue next
			}
		}
		if i != kept {
			p.quotas[kept] = *r
		}
		kept++
	}
	clear(p.quotas[kept:])
	p.quotas = p.quotas[:kept]
}

// same reports whether two reports are about one quota: their names are equal,
// or both have none and their limits are equal or one has none.
func (r *report) same(q *report) bool {
	if r.Name != q.Name {
		return false
	}
	if r.Name != "" && (!r.renamed || !q.renamed) {
		return r.source != q.source
	}
	if r.Limit == q.Limit && r.frac == q.frac {
		return true
	}
	return r.source != q.source && (r.Limit < 0 || q.Limit < 0)
}

// absorb takes from q, whose source is less believed, what r lacks.
func (r *report) absorb(q *report) {
	if r.Limit < 0 {
		r.Limit, r.frac = q.Limit, q.frac
	}
	if !r.stated && q.stated || r.Window < 0 {
		r.Window, r.stated = q.Window, q.stated
	}
	if r.Unit == "" {
		r.Unit = q.Unit
	}
	r.tighten(q)
}

// tighten takes the smaller remaining and the later reset.
func (r *report) tighten(q *report) {
	if r.Remaining < 0 || q.Remaining >= 0 && q.Remaining < r.Remaining {
		r.Remaining = q.Remaining
	}
	r.Reset = max(r.Reset, q.Reset)
}

// pair gives unnamed quotas the windows of policies with the same limit.
func (p *parser) pair() {
	for i := range p.quotas {
		r := &p.quotas[i]
		if r.Name != "" || r.source <= fromBeta {
			continue
		}
		if l := p.policyOf(r); l != nil {
			l.used = true
			if r.Limit < 0 {
				r.Limit, r.frac = l.limit, l.frac
			}
			if l.window > 0 {
				r.Window, r.stated = l.window, true
			}
		}
	}
	for i := range p.policies {
		// Without a window it says no more than the quota that has its limit.
		if l := &p.policies[i]; l.window < 0 && !l.used {
			for j := range p.quotas {
				r := &p.quotas[j]
				l.used = l.used || r.Name == "" && r.Limit == l.limit && r.frac == l.frac
			}
		}
	}
}

// policyOf returns the policy of r: one with its limit, of which the smallest
// window that can hold its reset; or the only one, if r states no limit.
func (p *parser) policyOf(r *report) *statedPolicy {
	var best *statedPolicy
	for i := range p.policies {
		l := &p.policies[i]
		switch {
		case l.used:
			continue
		case r.Limit < 0 && len(p.policies) == 1 && l.limit >= 0:
			return l
		case r.Limit < 0 || l.limit != r.Limit || l.frac != r.frac:
			continue
		case r.stated && l.window > 0 && l.window != r.Window:
			continue
		case best == nil:
			best = l
			continue
		}
		p.tie = true
		if fits(l.window, r.Reset) != fits(best.window, r.Reset) {
			if fits(l.window, r.Reset) {
				best = l
			}
		} else if (l.window < best.window) == fits(l.window, r.Reset) {
			best = l
		}
	}
	return best
}

func fits(window, reset time.Duration) bool { return window > 0 && window >= reset }

// absorbUnnamed drops the unnamed copy of the only quota of a RateLimit field,
// as servers send that during a migration.
func (p *parser) absorbUnnamed() {
	item := -1
	for i := range p.quotas {
		if p.quotas[i].item {
			if item >= 0 {
				return
			}
			item = i
		}
	}
	if item < 0 {
		return
	}
	q := &p.quotas[item]
	for i := range p.quotas {
		r := &p.quotas[i]
		if r.Name == "" && r.source > fromBeta && r.Limit >= 0 && r.Limit == q.Limit && r.Remaining >= 0 && r.Remaining == q.Remaining {
			q.absorb(r)
			p.quotas = append(p.quotas[:i], p.quotas[i+1:]...)
			return
		}
	}
}

// rename gives the unnamed quotas the name that a field such as
// X-RateLimit-Resource holds.
func (p *parser) rename() {
	for i := range p.quotas {
		if r := &p.quotas[i]; r.Name == "" {
			r.Name, r.renamed = p.name, true
		}
	}
}
