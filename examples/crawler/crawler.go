package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/examples/crawler/robots"
)

// agent is the product token that robots.txt files are asked for.
const agent = "comity-example"

const (
	pageMost  = 1 << 20 // bytes of a page that are read
	triesMost = 5       // of a page
)

// crawler fetches pages through one client, robots.txt files and redirects
// included: nothing goes past the Transport.
type crawler struct {
	rt      *comity.Transport
	client  *http.Client
	manners *manners
	recheck time.Duration // a robots.txt that could not be had is asked for again

	mu    sync.Mutex
	rules map[string]*robots.Rules // by host, once known
	lost  []string                 // pages given up, and why
}

func newCrawler(base http.RoundTripper, m *manners, recheck time.Duration) (*crawler, error) {
	rt, err := comity.New(base, comity.Config{PolicyFor: m.policy})
	if err != nil {
		return nil, err
	}
	c := &crawler{rt: rt, manners: m, recheck: recheck, rules: map[string]*robots.Rules{}}
	c.client = &http.Client{Transport: rt, CheckRedirect: c.checkRedirect}
	return c, nil
}

// errQueued ends a redirect whose target has to be queued under its own host.
var errQueued = errors.New("crawler: queued")

// checkRedirect asks the robots.txt of a hop's host, as far as it is known. The
// Transport paces the hop.
func (c *crawler) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > robotsHops {
		return errors.New("crawler: too many redirects")
	}
	if via[0].URL.Path == robotsPath {
		return nil
	}
	rules := c.rulesOf(hostOf(req.URL))
	if rules == nil || !rules.Allowed(req.URL.RequestURI()) {
		return errQueued // its own host decides
	}
	return nil
}

func (c *crawler) rulesOf(host string) *robots.Rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rules[host]
}

// fetch deals with the first page of h: it fetches it, drops it or leaves it where
// it is. It returns the links that were found.
func (c *crawler) fetch(ctx context.Context, h *host) (links []string) {
	now := time.Now()
	if !c.knowRobots(ctx, h, now) {
		return nil
	}
	p := h.pages[0]
	u, err := url.Parse(p.url)
	if err != nil || !h.robots.rules.Allowed(u.RequestURI()) {
		h.pages = h.pages[1:]
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		c.drop(h, err.Error())
		return nil
	}
	req.Header.Set("User-Agent", agent)
	res, err := c.client.Do(req)
	if err == nil {
		links, err = c.read(res)
	}
	c.settle(h, res, err, &links)
	if len(h.pages) > 0 {
		c.later(h, req)
	}
	return links
}

// settle decides what becomes of the page that was asked for.
func (c *crawler) settle(h *host, res *http.Response, err error, links *[]string) {
	var hop *url.Error
	var refused *comity.ThrottledError
	switch {
	case errors.As(err, &hop) && hop.URL != h.pages[0].url && (errors.Is(err, errQueued) || errors.As(err, &refused)):
		*links = append(*links, resolve(h.pages[0].url, hop.URL)) // a redirect led there: that host decides when
		h.pages = h.pages[1:]
	case errors.As(err, &refused): // not sent: it stays
	case err != nil:
		h.errors++
		c.rt.Hold(h.name, time.Now().Add(c.recheck<<min(h.errors, 10)))
		c.again(h, err.Error())
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500:
		c.again(h, res.Status)
	default:
		h.errors = 0
		h.pages = h.pages[1:]
	}
}

// resolve returns link, which page has, as an absolute URL.
func resolve(page, link string) string {
	base, err := url.Parse(page)
	if err != nil {
		return link
	}
	u, err := base.Parse(link)
	if err != nil {
		return link
	}
	return u.String()
}

// again leaves the first page of h to be tried once more, unless it was often enough.
// When is for the host to say.
func (c *crawler) again(h *host, why string) {
	p := h.pages[0]
	if p.tries++; p.tries >= triesMost {
		c.drop(h, why)
	}
}

// drop gives up the first page of h.
func (c *crawler) drop(h *host, why string) {
	c.mu.Lock()
	c.lost = append(c.lost, h.pages[0].url+": "+why)
	c.mu.Unlock()
	h.pages = h.pages[1:]
}

// later sets when h may be asked next.
func (c *crawler) later(h *host, req *http.Request) {
	next := c.rt.Next(req)
	if next.At.IsZero() { // another call has to end first
		next.At = time.Now().Add(c.manners.base.Delay.Min)
	}
	h.ready = next.At
}

var href = regexp.MustCompile(`href="([^"]*)"`)

// read reads res to its end and returns the links on its page.
func (c *crawler) read(res *http.Response) (links []string, err error) {
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, pageMost))
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, err
	}
	for _, m := range href.FindAllSubmatch(body, -1) {
		if u, err := res.Request.URL.Parse(string(m[1])); err == nil {
			links = append(links, u.String())
		}
	}
	return links, nil
}

// canonical returns a link in the spelling by which pages are told apart, and its
// host as the Transport names it.
func canonical(link string) (page, host string, ok bool) {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return "", "", false
	}
	u.Host, u.User, u.Fragment = hostOf(u), nil, ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String(), u.Host, true
}

// hostOf is the host of u in lower case, without a trailing dot or the default port.
func hostOf(u *url.URL) string {
	name, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if port == "" || port == "80" {
		return name
	}
	return net.JoinHostPort(strings.Trim(name, "[]"), port)
}
