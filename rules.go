package comity

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
)

// ruleBook is the policies of a Transport, ready to be matched. It is immutable.
type ruleBook struct {
	hosts map[string]*hostRules
	wild  map[string]*policy   // by the pattern less its "*"
	rest  *policy              // of ""
	named map[string][]*policy // by the destination they name, in the order of their patterns

	patterns  map[string]*policy // by the pattern
	onlyHosts bool               // there is but rest, and each host is one destination
}

// hostRules are the policies of one host.
type hostRules struct {
	whole *policy
	paths []*pathRule // the longest first
}

type pathRule struct {
	prefix string
	policy *policy
}

// newRules makes policies ready. It names every fault.
func newRules(policies map[string]Policy, shared *commons) (*ruleBook, error) {
	r := &ruleBook{hosts: map[string]*hostRules{}, wild: map[string]*policy{}, named: map[string][]*policy{}, patterns: map[string]*policy{}}
	var faults []error
	for _, pattern := range slices.Sorted(maps.Keys(policies)) {
		field := fmt.Sprintf("Policies[%q]", pattern)
		p := policies[pattern]
		err := checkPattern(pattern)
		if err != nil {
			faults = append(faults, fmt.Errorf("comity: %s: %w", field, err))
		}
		if found := p.check(); err != nil || len(found) > 0 {
			faults = append(faults, inField(field, found)...)
			continue
		}
		q := newPolicy(p, pattern, shared)
		for _, other := range r.named[q.name] {
			faults = append(faults, inField(field, q.conflicts(other))...)
		}
		r.add(q)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if r.rest == nil {
		r.add(newPolicy(Policy{}, "", shared))
	}
	r.onlyHosts = len(r.hosts) == 0 && len(r.wild) == 0 && r.rest.name == "" && r.rest.Key == nil
	return r, nil
}

// inField says of which configuration each of errs, which begin with the field,
// is the fault.
func inField(of string, errs []error) []error {
	out := make([]error, len(errs))
	for i, err := range errs {
		out[i] = fmt.Errorf("comity: %s.%w", of, err)
	}
	return out
}

func (r *ruleBook) add(p *policy) {
	p.rules = r
	r.patterns[p.pattern] = p
	if p.name != "" {
		r.named[p.name] = append(r.named[p.name], p)
	}
	switch {
	case p.pattern == "":
		r.rest = p
		return
	case isWildcard(p.pattern):
		r.wild[p.pattern[1:]] = p
		return
	}
	host, path := splitPattern(p.pattern)
	h := r.hosts[host]
	if h == nil {
		h = &hostRules{}
		r.hosts[host] = h
	}
	if path == "" {
		h.whole = p
		return
	}
	h.paths = append(h.paths, &pathRule{prefix: path, policy: p})
	slices.SortFunc(h.paths, func(a, b *pathRule) int { return len(b.prefix) - len(a.prefix) })
}

// match returns the policy for a call to u, whose host is host in canonical form.
func (r *ruleBook) match(host string, u *url.URL) *policy {
	if len(r.hosts) > 0 {
		if h := r.hosts[host]; h != nil {
			if p := h.match(u); p != nil {
				return p
			}
		}
	}
	if len(r.wild) > 0 {
		for i := 0; i < len(host); i++ {
			if host[i] != '.' || i == 0 {
				continue
			}
			if p := r.wild[host[i:]]; p != nil {
				return p
			}
		}
	}
	return r.rest
}

func (h *hostRules) match(u *url.URL) *policy {
	if len(h.paths) > 0 {
		path := sentPath(u)
		for _, p := range h.paths {
			if strings.HasPrefix(path, p.prefix) {
				return p.policy
			}
		}
	}
	return h.whole
}

func isWildcard(pattern string) bool { return strings.HasPrefix(pattern, "*.") }

func splitPattern(pattern string) (host, path string) {
	i := strings.IndexByte(pattern, '/')
	if i < 0 {
		return pattern, ""
	}
	return pattern[:i], pattern[i:]
}

// checkPattern returns what is wrong with a pattern, and what to write instead.
func checkPattern(pattern string) error {
	if pattern == "" {
		return nil
	}
	if scheme, rest, ok := strings.Cut(pattern, "://"); ok {
		host, path := splitPattern(rest)
		if path = strings.TrimSuffix(path, "/"); path != "" {
			path += "/"
		}
		return fmt.Errorf("a pattern has no scheme: use %q", canonicalHost(host, defaultPort(strings.ToLower(scheme)))+path)
	}
	host, path := splitPattern(pattern)
	name, wild := strings.CutPrefix(host, "*.")
	switch {
	case strings.ContainsAny(pattern, "?# \t\r\n\\"):
		return errors.New("a pattern is a host, a host and a path, or *.domain")
	case strings.Contains(name, "*"):
		return errors.New("the only wildcard is \"*.\" in front of a domain")
	case wild && path != "":
		return errors.New("a wildcard has no path")
	case wild && strings.ContainsAny(name, "[]"):
		return errors.New("a wildcard stands before a domain, not an address")
	case name == "":
		return errors.New("a pattern begins with a host")
	case strings.Contains(name, "@"):
		return errors.New("a pattern has no user")
	}
	if canonical := canonicalHost(name, ""); canonical != name {
		if wild {
			canonical = "*." + canonical
		}
		return fmt.Errorf("a host is written in canonical form: use %q", canonical+path)
	}
	if path == "" {
		return nil
	}
	if !strings.HasSuffix(path, "/") {
		return fmt.Errorf("a path ends in a slash: use %q", pattern+"/")
	}
	if path == "/" {
		return fmt.Errorf("a whole host has no path: use %q", host)
	}
	if escaped := (&url.URL{Path: path}).EscapedPath(); escaped != path {
		if u, err := url.Parse(path); err != nil || u.EscapedPath() != path {
			return fmt.Errorf("a path is written as it is sent: use %q", host+escaped)
		}
	}
	return nil
}

// check returns every fault of p.
func (p *Policy) check() (faults []error) {
	bad := func(field, format string, args ...any) {
		faults = append(faults, fieldError(field, format, args...))
	}
	if strings.Contains(p.Name, "#") {
		bad("Name", "%q: a # stands between a name and its part", p.Name)
	}
	for i, l := range p.Limits {
		for _, err := range checkLimit(l) {
			faults = append(faults, fieldError(fmt.Sprintf("Limits[%d]", i), "%w", err))
		}
	}
	if !isFinite(p.Delay.Factor) || !isFinite(p.Delay.Jitter) {
		bad("Delay", "Factor and Jitter are finite numbers")
	}
	if !(p.Spread <= 1) {
		bad("Spread", "%v is no part of a quota: from 0 to 1", p.Spread)
	}
	for _, err := range p.Adaptive.check() {
		faults = append(faults, fmt.Errorf("Adaptive.%w", err))
	}
	if !isFinite(p.Retry.Budget) {
		bad("Retry.Budget", "%v is no finite number", p.Retry.Budget)
	}
	for i, g := range p.Guards {
		if g == nil {
			bad(fmt.Sprintf("Guards[%d]", i), "nil")
		}
	}
	return faults
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// conflicts returns the limits that p and other, policies of one destination,
// share and state differently.
func (p *policy) conflicts(other *policy) (faults []error) {
	for i := range p.limits {
		for j := range other.limits {
			a, b := &p.limits[i], &other.limits[j]
			if a.id != b.id || a.N == b.N && a.Per == b.Per && a.Burst == b.Burst && a.Algorithm == b.Algorithm && a.unit == b.unit {
				continue
			}
			faults = append(faults, fieldError(fmt.Sprintf("Limits[%d]", i),
				"differs from Limits[%d] of Policies[%q], with which it is one budget of %q", j, other.pattern, p.name))
		}
	}
	return faults
}
