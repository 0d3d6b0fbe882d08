package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/examples/crawler/robots"
)

const (
	robotsPath = "/robots.txt"
	robotsHops = 5              // redirects that are followed (RFC 9309, 2.3.1.2)
	robotsLife = 24 * time.Hour // a file is asked for again after it (2.4)
	robotsOld  = 30 * 24 * time.Hour
	robotsMost = time.Hour // between tries to get one
	robotsMiss = 5         // tries without one before a host that never had one is given up
)

// robotsFile is what is known of a host's robots.txt.
type robotsFile struct {
	rules *robots.Rules // nil: not known
	had   time.Time     // when it was
	ask   time.Time     // when it is to be asked for again
	tries int           // in a row that failed
}

// knowRobots makes sure that the robots.txt of h is known: it is the first thing
// asked of a host, paced like all else. It reports false if no page may be fetched
// now.
func (c *crawler) knowRobots(ctx context.Context, h *host, now time.Time) bool {
	r := &h.robots
	if r.rules != nil && now.Before(r.ask) {
		return true
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.name+robotsPath, nil)
	if err != nil {
		c.drop(h, err.Error())
		return false
	}
	req.Header.Set("User-Agent", agent)
	res, err := c.client.Do(req)
	var refused *comity.ThrottledError
	if errors.As(err, &refused) { // not sent
		c.later(h, req)
		return false
	}
	rules, ok := c.rulesIn(res, err)
	if ok {
		*r = robotsFile{rules: rules, had: now, ask: now.Add(robotsLife)}
		c.obey(h, rules)
	} else {
		r.missed(now, c.recheck)
	}
	c.later(h, req)
	if r.rules == nil && h.ready.Before(r.ask) {
		h.ready = r.ask
	}
	if r.rules == nil && r.tries >= robotsMiss {
		for len(h.pages) > 0 {
			c.drop(h, "no robots.txt: "+reason(res, err))
		}
	}
	return false // robots.txt was a call: the page comes after the pause
}

// missed notes that the file could not be had. An older one still holds for a month.
func (r *robotsFile) missed(now time.Time, recheck time.Duration) {
	r.tries++
	r.ask = now.Add(min(recheck<<min(r.tries-1, 20), robotsMost))
	if now.Sub(r.had) > robotsOld {
		r.rules = nil
	}
}

// rulesIn reads the answer to a call for robots.txt.
func (c *crawler) rulesIn(res *http.Response, err error) (*robots.Rules, bool) {
	if err != nil {
		return nil, false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, robots.Most))
	if err != nil {
		return nil, false
	}
	return robots.FromStatus(res.StatusCode, body, agent)
}

// obey has all later calls to h keep to rules.
func (c *crawler) obey(h *host, rules *robots.Rules) {
	c.mu.Lock()
	c.rules[h.name] = rules
	c.mu.Unlock()
	if changed, err := c.manners.setCrawlDelay(h.name, rules.Delay()); err == nil && changed {
		c.rt.Refresh(h.name)
	}
}

func reason(res *http.Response, err error) string {
	if err != nil {
		return err.Error()
	}
	return res.Status
}
