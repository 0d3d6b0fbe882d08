// Package robots reads robots.txt files with github.com/temoto/robotstxt, guarded
// where that is too trusting.
//
// What remains of its ways: of an Allow and a Disallow of one length the first wins,
// rules with wildcards are not anchored ("/a*b" matches "/zz/a1b" too), and agents
// match by prefix. RFC 9309 says otherwise in the first two.
package robots

import (
	"bytes"
	"net/http"
	"sync"
	"time"

	"github.com/temoto/robotstxt"
)

const (
	// Most is how much of a robots.txt is read, as RFC 9309 allows: 469 KB of
	// wildcards take 0.84 s to ask.
	Most = 512 << 10

	// MaxDelay is the longest Crawl-delay that is obeyed.
	MaxDelay = time.Hour

	verdictsMost = 10_000
)

// Rules are what a host asks of one agent. It is safe for concurrent use.
type Rules struct {
	delay time.Duration
	group *robotstxt.Group // nil: nothing is disallowed, unless none
	none  bool             // everything is

	mu       sync.Mutex
	verdicts map[string]bool // a rule with wildcards is slow to ask
}

var (
	allowAll    = &Rules{}
	disallowAll = &Rules{none: true}
)

// Parse reads what body asks of agent. A file that cannot be read disallows
// everything.
func Parse(body []byte, agent string) *Rules {
	body = body[:min(len(body), Most)]
	data, err := robotstxt.FromBytes(body)
	if err != nil {
		// One bad Crawl-delay costs all lines of the file: do without those.
		if data, err = robotstxt.FromBytes(withoutDelays(body)); err != nil {
			return disallowAll
		}
	}
	r := &Rules{group: data.FindGroup(agent), verdicts: map[string]bool{}}
	if d := r.group.CrawlDelay; d > 0 { // a number that is too large comes out negative
		r.delay = min(d, MaxDelay)
	}
	return r
}

// withoutDelays returns body less its Crawl-delay lines.
func withoutDelays(body []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(body) {
		field, _, _ := bytes.Cut(line, []byte(":"))
		if !bytes.EqualFold(bytes.TrimSpace(field), []byte("crawl-delay")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// FromStatus reads an answer to a call for robots.txt. ok is false if it says
// nothing for good, so that nothing may be fetched and the file must be asked for
// again: 429 and 5xx. Any other 4xx is a host without rules (RFC 9309, 2.3.1).
func FromStatus(code int, body []byte, agent string) (r *Rules, ok bool) {
	switch {
	case code/100 == 2:
		return Parse(body, agent), true
	case code/100 == 4 && code != http.StatusTooManyRequests:
		return allowAll, true
	}
	return disallowAll, false
}

// Delay is the Crawl-delay; 0 if there is none.
func (r *Rules) Delay() time.Duration { return r.delay }

// Allowed reports whether path, with its query, may be fetched.
func (r *Rules) Allowed(path string) bool {
	if r.none || r.group == nil {
		return !r.none
	}
	r.mu.Lock()
	ok, known := r.verdicts[path]
	r.mu.Unlock()
	if known {
		return ok
	}
	ok = r.group.Test(path) // outside the lock: it may take a second
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.verdicts) < verdictsMost {
		r.verdicts[path] = ok
	}
	return ok
}
