package site

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// role is what is awkward about a host.
type role uint8

const (
	ordinary role = iota
	delayed
	noRobots
	robotsDown
	robotsLimited
	robotsBroken
	limited
	overloaded
	slow
	redirects
	redirectsToPrivate
	twoNames
	unreachable
)

var roleNames = [...]string{"", "Crawl-delay", "no robots.txt", "robots.txt 503", "robots.txt 429", "robots.txt broken", "429 after 10 pages",
	"503 for a while", "slow", "redirects", "redirects to a disallowed page", "two names, one address", "unreachable"}

// roles are those of 60 hosts, the awkward ones among the others.
var roles = func() []role {
	all := []role{delayed, noRobots, robotsDown, limited, overloaded, delayed, redirects, twoNames, noRobots, robotsLimited, limited,
		slow, delayed, robotsBroken, robotsDown, twoNames, overloaded, redirectsToPrivate, limited, noRobots, unreachable, delayed}
	var out []role
	for i, r := range all {
		out = append(out, r, ordinary)
		if i%4 != 3 && len(out)+2*(len(all)-i-1) < 60 {
			out = append(out, ordinary)
		}
	}
	return out[:min(len(out), 60)]
}()

// Host is one host of a Site, and what its server saw.
type Host struct {
	Name   string
	role   role
	site   *Site
	addr   string
	target string   // of its redirects
	links  []string // one for each page

	mu         sync.Mutex
	floor      time.Duration // least time from the end of an answer to the next call, as of now
	open, most int           // calls
	lastEnd    time.Time     // of an answer
	least      time.Duration // the smallest gap; -1 if none
	robots     time.Time     // when robots.txt was first handed out
	blocked    time.Time     // until when it asked for silence
	silence    time.Duration // in all
	busyFrom   time.Time
	refusals   int
	busyHits   int
	calls      int
	seen       map[int]int // answers with 200, by page
	violations []string
}

// Role says in words what is awkward about h; "" if nothing is.
func (h *Host) Role() string { return roleNames[h.role] }

func (h *Host) url(path string) string { return "http://" + h.Name + path }

// ServeHTTP answers for the host that r names.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	name, _, _ := strings.Cut(r.Host, ":80")
	h := s.byName[strings.ToLower(strings.TrimSuffix(name, "."))]
	if h == nil {
		http.NotFound(w, r)
		return
	}
	h.arrives(r.URL.Path, arrived)
	if h.role == slow {
		time.Sleep(s.of(slowness))
	}
	code, body := h.answer(w.Header(), r.URL.Path)
	h.ends() // before the client can know
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	fmt.Fprint(w, body)
}

// answer decides on a call to path.
func (h *Host) answer(header http.Header, path string) (code int, body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if path == "/robots.txt" {
		return h.answerRobots(header, now)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(path, "/"))
	if err != nil || n < 0 || n >= Pages {
		return http.StatusNotFound, "no such page"
	}
	switch h.role {
	case limited:
		if len(h.seen) == 10 && h.refusals == 0 {
			return h.refuse(header, now)
		}
	case overloaded:
		if len(h.seen) == 6 && h.busyFrom.IsZero() {
			h.busyFrom = now
		}
		if d := now.Sub(h.busyFrom); !h.busyFrom.IsZero() && d < h.site.of(busy) {
			h.refusals++
			if h.busyHits++; h.busyHits > 2 {
				h.violate("call %d while it answers 503", h.busyHits)
			}
			return http.StatusServiceUnavailable, "busy"
		}
	case redirects, redirectsToPrivate:
		if n == Pages-1 {
			h.seen[n]++
			header.Set("Location", h.target)
			return http.StatusFound, "elsewhere"
		}
	}
	h.seen[n]++
	return http.StatusOK, h.page(n)
}

func (h *Host) answerRobots(header http.Header, now time.Time) (code int, body string) {
	rules := "User-agent: *\nDisallow: /private/\n"
	switch h.role {
	case noRobots:
		h.handOut(now)
		return http.StatusNotFound, "no robots.txt"
	case robotsDown:
		if now.Sub(h.site.began) < h.site.of(outage) {
			h.refusals++
			return http.StatusServiceUnavailable, "down"
		}
	case robotsLimited:
		if h.refusals == 0 {
			return h.refuse(header, now)
		}
	case robotsBroken:
		rules = "User-agent: *\nCrawl-delay: 0,5\nDisallow: /private/\n"
	case delayed:
		rules += fmt.Sprintf("Crawl-delay: %.3f\n", h.site.of(crawlDelay).Seconds())
		h.floor = max(h.floor, h.site.of(crawlDelay).Truncate(time.Millisecond))
	}
	h.handOut(now)
	return http.StatusOK, rules
}

func (h *Host) handOut(now time.Time) {
	if h.robots.IsZero() {
		h.robots = now
	}
}

// refuse answers 429 and asks for silence.
func (h *Host) refuse(header http.Header, now time.Time) (code int, body string) {
	h.refusals++
	wait := time.Duration(h.site.wait()) * time.Second
	h.blocked, h.silence = now.Add(wait), h.silence+wait
	header.Set("Retry-After", strconv.Itoa(h.site.wait()))
	return http.StatusTooManyRequests, "too many"
}

// page is the page n: the first one links to all others, each one to another host.
func (h *Host) page(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<title>%s, page %d</title>\n<a href=%q>another host</a>\n", h.Name, n, h.links[n])
	if n == 0 {
		for i := range Pages {
			fmt.Fprintf(&b, "<a href=\"/%d\">page %d</a>\n", i, i)
		}
		b.WriteString("<a href=\"/private/0\">not for robots</a>\n")
	}
	return b.String()
}
