package main

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/comity/comity"
)

// manners are how a crawler treats hosts: one policy for all, and what some of them
// asked for besides.
type manners struct {
	base  comity.Policy
	group func(host string) (name string, interval time.Duration) // hosts on one machine

	mu     sync.Mutex
	told   map[string]time.Duration // Crawl-delay, by host
	groups map[string]comity.Limiter
}

// polite is the policy for a host that nothing is known of. A crawler outside
// pauses for a second or more, and begins its own backoff with a minute.
func polite(pause, backoff time.Duration) comity.Policy {
	return comity.Policy{
		Delay:    comity.Delay{Min: pause, Jitter: 0.2}, // after each answer; one call at a time
		MaxWait:  -1,                                    // refuse at once: the frontier comes back
		Retry:    comity.Retry{Max: -1, Base: backoff, Cap: 24 * time.Hour},
		Adaptive: comity.Adaptive{K: -1}, // a host sees too few calls for it
		Classify: func(a *comity.Attempt) comity.Verdict {
			if a.Response != nil && a.Response.StatusCode == http.StatusServiceUnavailable {
				return comity.Limited // silence for the host, told or not
			}
			return a.Verdict
		},
	}
}

// newManners returns the manners of a crawler that treats every host as base says.
func newManners(base comity.Policy) *manners {
	return &manners{base: base, told: map[string]time.Duration{}, groups: map[string]comity.Limiter{}}
}

// policy is Config.PolicyFor: a floor that a host asked for lengthens the pause, and
// hosts of one group share a limit besides their own.
func (m *manners) policy(host string) comity.Policy {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.base
	if told := m.told[host]; told > 0 {
		p.Delay.Min = max(p.Delay.Min, told)
		p.MaxInFlight = 1
	}
	if m.group == nil {
		return p
	}
	name, interval := m.group(host)
	if name == "" {
		return p
	}
	shared := m.groups[name]
	if shared == nil {
		l, err := comity.NewLimiter(comity.Every(interval))
		if err != nil {
			return p
		}
		shared = l
		m.groups[name] = l
	}
	p.Limits = []comity.Limit{{Name: name, New: func(dest, key string) comity.Limiter { return shared }}}
	return p
}

var errDelay = errors.New("crawler: a Crawl-delay is not negative")

// setCrawlDelay notes what host asks for, 0 for nothing any more; the Transport has
// to be refreshed. What no delay can be is refused, and changes nothing.
func (m *manners) setCrawlDelay(host string, d time.Duration) (changed bool, err error) {
	if d < 0 {
		return false, errDelay
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told[host] == d {
		return false, nil
	}
	m.told[host] = d
	return true, nil
}
