package site

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// early is how much sooner than asked a call may arrive: clocks are read at both
// ends of a wire.
const early = 3 * time.Millisecond

// group is the calls to the address that has two names.
type group struct {
	mu     sync.Mutex
	starts []time.Time
}

// inARow is how many starts the interval of a group is judged over: what is on its
// way for longer than the next makes two of them meet.
const inARow = 5

// Report is what the server of a host saw.
type Report struct {
	Name, Role string
	Pages      int           // answered with 200 or a redirect
	Calls      int           // all of them
	Refusals   int           // answers of 429 and 503
	Gap        time.Duration // the smallest from the end of an answer to the next call; -1 if there was none
	Floor      time.Duration // what it should be at least
	Most       int           // calls open at once
	Silence    time.Duration // asked for in all
	Violations []string
}

// arrives notes a call for path, and what is wrong with it.
func (h *Host) arrives(path string, now time.Time) {
	if h.role == twoNames {
		h.site.arrives(h, now)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if h.open++; h.open > h.most {
		h.most = h.open
	}
	if h.open > 1 {
		h.violate("%d calls open at once", h.open)
	}
	if !h.lastEnd.IsZero() {
		gap := now.Sub(h.lastEnd)
		if h.least < 0 || gap < h.least {
			h.least = gap
		}
		if gap < h.floor-early {
			h.violate("%s after %s, not %s", path, gap, h.floor)
		}
	}
	if now.Before(h.blocked.Add(-early)) {
		h.violate("%s, %s before the silence it asked for is over", path, h.blocked.Sub(now))
	}
	if path != "/robots.txt" && h.robots.IsZero() {
		h.violate("%s before robots.txt", path)
	}
	if strings.HasPrefix(path, "/private/") && h.role != noRobots {
		h.violate("%s is disallowed", path)
	}
}

// ends notes that the answer to a call is under way.
func (h *Host) ends() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
	h.lastEnd = time.Now()
}

// violate notes a violation; the lock is held.
func (h *Host) violate(format string, args ...any) {
	h.violations = append(h.violations, h.Name+": "+fmt.Sprintf(format, args...))
}

// arrives notes a call to the address with two names.
func (s *Site) arrives(h *Host, now time.Time) {
	s.group.mu.Lock()
	s.group.starts = append(s.group.starts, now)
	all := s.group.starts
	s.group.mu.Unlock()
	if n := len(all); n >= inARow {
		if took := now.Sub(all[n-inARow]); took < (inARow-2)*s.of(interval) {
			h.mu.Lock()
			h.violate("%d calls to its address in %s", inARow, took)
			h.mu.Unlock()
		}
	}
}

// Report returns what the server of h saw so far.
func (h *Host) Report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Report{Name: h.Name, Role: h.Role(), Pages: len(h.seen), Calls: h.calls, Refusals: h.refusals, Gap: h.least,
		Floor: h.floor, Most: h.most, Silence: h.silence, Violations: h.violations}
}

// Violations returns what crawlers did that they should not have done.
func (s *Site) Violations() []string {
	var all []string
	for _, h := range s.hosts {
		all = append(all, h.Report().Violations...)
	}
	return all
}

// Missing returns the pages that could have been had and were not.
func (s *Site) Missing() []string {
	var all []string
	for _, h := range s.hosts {
		if h.role == unreachable {
			continue
		}
		h.mu.Lock()
		for n := range Pages {
			if h.seen[n] == 0 {
				all = append(all, h.url(fmt.Sprint("/", n)))
			}
		}
		h.mu.Unlock()
	}
	return all
}

// Done returns how many pages were had, of how many.
func (s *Site) Done() (done, all int) {
	for _, h := range s.hosts {
		if h.role != unreachable {
			done += h.Report().Pages
			all += Pages
		}
	}
	return done, all
}

// Bound is the least time in which a crawler can have all pages and keep to what
// the hosts ask for: that of the host which needs longest.
func (s *Site) Bound() time.Duration {
	longest := time.Duration(0)
	for _, h := range s.hosts {
		d := time.Duration(Pages) * s.of(gap) // robots.txt, then pages
		wait := time.Duration(s.wait()) * time.Second
		switch h.role {
		case delayed:
			d = time.Duration(Pages) * s.of(crawlDelay)
		case slow:
			d += time.Duration(Pages+1) * s.of(slowness)
		case limited, robotsLimited:
			d += wait
		case robotsDown:
			d += s.of(outage)
		case overloaded:
			d += s.of(busy)
		case unreachable:
			d = 0
		}
		longest = max(longest, d)
	}
	return longest
}
