package comity

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// learn makes a plan of the answer that p has read, the n-th, unless one exists.
func (r *reader) learn(p *parser, h http.Header, now time.Time, n uint32) {
	old := r.plans.Load()
	bit := uint64(1) << (len(h) % 64)
	if old != nil {
		for _, q := range old.all {
			if q.rules == p.rules && p.matches(q, h, now) {
				q.counts.Or(bit)
				return
			}
		}
		if len(old.all) == maxPlans && n-old.at < 2*maxPlans {
			return // answers that never repeat are not worth learning
		}
	}
	made := p.plan()
	if made == nil || !p.matches(made, h, now) {
		return
	}
	made.counts.Store(bit)
	next := &plans{all: []*plan{made}, at: n}
	if old != nil {
		next.all = append(next.all, old.all[:min(len(old.all), maxPlans-1)]...)
	}
	r.plans.CompareAndSwap(old, next)
}

// matches reports whether q says of h what p has read in full.
func (p *parser) matches(q *plan, h http.Header, now time.Time) bool {
	return len(p.a.Malformed) == 0 && p.a.RetryAfter < 0 && p.a.Retry == 0 &&
		q.run(h, now, &p.own) && slices.Equal(p.own.Quotas, p.a.Quotas)
}

// plan makes a plan of what was read; nil if the answer is not of the kind that
// a plan can say: then others like it are read in full.
func (p *parser) plan() *plan {
	a := p.a
	if a.RetryAfter >= 0 || a.Retry != 0 || len(a.Malformed) > 0 || len(a.Quotas) == 0 || p.clock.age > 0 || p.tie {
		return nil
	}
	made := &plan{rules: p.rules, quotas: slices.Clone(a.Quotas)}
	source := fromNowhere
	for i := range p.fields {
		f := &p.fields[i]
		if f.kind != kindName && f.kind != kindPolicy {
			if source != fromNowhere && source != f.source || f.source == fromSpecial {
				return nil // families are merged
			}
			source = f.source
		}
		if len(f.lines) != 1 {
			return nil
		}
		s := step{key: f.key, milli: f.milli || !f.unit && slices.Contains(p.rules.milli, f.source)}
		switch f.kind {
		case kindName, kindPolicy, kindLimit, kindFill, kindBurst, kindReplenish:
			s.text = f.lines[0]
		case kindWindow:
			if s.text = f.lines[0]; !f.unit && f.order == 1 {
				return nil // its unit depends on the reset
			}
		case kindRemaining, kindReset:
			if s.quota = p.indexOf(f.name); s.quota < 0 {
				return nil
			}
			if s.does = setRemaining; f.kind == kindReset {
				s.does = setReset
			}
			if made.has(s) {
				continue // a twin of the field that decides
			}
		case kindItems:
			if s.does, s.quota = setDict, p.dictQuota(); s.quota >= 0 {
				break
			}
			if s.does, s.quota = setItems, p.itemBits(); s.quota == 0 {
				return nil
			}
		case kindUsed:
			if !p.stands(f.name) {
				return nil // the limit or the remaining follows from it
			}
			continue
		default:
			return nil
		}
		s.key, s.text = strings.Clone(s.key), strings.Clone(s.text)
		made.steps = append(made.steps, s)
	}
	for i := range made.quotas {
		if q := &made.quotas[i]; q.Limit < 0 && q.Remaining < 0 {
			return nil // gone with its reset
		}
	}
	return made
}

// has reports whether a step already sets what s would.
func (p *plan) has(s step) bool {
	return slices.ContainsFunc(p.steps, func(t step) bool { return t.does == s.does && t.quota == s.quota })
}

// indexOf finds the quota of the fields with that name; -1 if that is not clear.
func (p *parser) indexOf(name string) int {
	if name = lowerName(name); name == "" {
		name = p.name
	} else if name == p.name {
		return -1
	}
	return p.quotaNamed(name)
}

func (p *parser) quotaNamed(name string) int {
	return slices.IndexFunc(p.a.Quotas, func(q Quota) bool { return q.Name == name })
}

// stands reports whether the quota of that name has a limit and a remaining of
// its own, so that what was used changes nothing.
func (p *parser) stands(name string) bool {
	limit, remaining := false, false
	for i := range p.fields {
		if f := &p.fields[i]; compareFold(f.name, name) == 0 {
			limit = limit || f.kind == kindLimit
			remaining = remaining || f.kind == kindRemaining
		}
	}
	return limit && remaining
}

// itemBits has a bit for each quota that an item of RateLimit reports; 0 if a name
// is not unique.
func (p *parser) itemBits() int {
	bits := 0
	for i := range p.quotas {
		for j := range i {
			if p.quotas[j].Name == p.quotas[i].Name {
				return 0
			}
		}
		if p.quotas[i].item {
			at := p.quotaNamed(p.quotas[i].Name)
			if at < 0 {
				return 0
			}
			bits |= 1 << at
		}
	}
	return bits
}

// dictQuota finds the quota that a Dictionary reports; -1 if there is none.
func (p *parser) dictQuota() int {
	for i := range p.quotas {
		if p.quotas[i].source == fromDict {
			return p.quotaNamed(p.quotas[i].Name)
		}
	}
	return -1
}
