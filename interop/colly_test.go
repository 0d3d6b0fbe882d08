package interop

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocolly/colly/v2"
	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/examples/crawler/robots"
	"github.com/comity/comity/examples/crawler/site"
)

// collyAgent is the product token of colly in robots.txt files.
const collyAgent = "colly"

// robotsWatch tells what each robots.txt that passes by says of delays, which colly
// reads and does not obey, and hands colly the rest without what its parser stumbles
// over.
type robotsWatch struct {
	base http.RoundTripper
	told func(host string, delay time.Duration)
}

func (w robotsWatch) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := w.base.RoundTrip(req)
	if err != nil || req.URL.Path != "/robots.txt" || res.StatusCode != http.StatusOK {
		return res, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, robots.Most))
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	w.told(req.URL.Host, robots.Parse(body, collyAgent).Delay())
	var kept []byte
	for line := range bytes.Lines(body) {
		if !bytes.HasPrefix(bytes.ToLower(line), []byte("crawl-delay")) {
			kept = append(kept, line...)
		}
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(kept)), int64(len(kept))
	res.Header.Del("Content-Length")
	return res, nil
}

// delays are what hosts asked for. They are canonical as the Transport sees them:
// colly's URLs have lower-case hosts without the default port.
type delays struct {
	pause time.Duration
	s     *site.Site
	rt    *comity.Transport

	mu    sync.Mutex
	told  map[string]time.Duration
	group comity.Limiter
}

func (d *delays) policy(host string) comity.Policy {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := comity.Policy{
		Delay:    comity.Delay{Min: max(d.pause, d.told[host]), Jitter: 0.2},
		MaxWait:  comity.Forever,
		Adaptive: comity.Adaptive{K: -1},
		Retry:    comity.Retry{Base: 10 * d.pause},
		Classify: func(a *comity.Attempt) comity.Verdict {
			if a.Response != nil && a.Response.StatusCode == http.StatusServiceUnavailable {
				return comity.Limited
			}
			return a.Verdict
		},
	}
	if name, _ := d.s.Group(host); name != "" {
		p.Limits = []comity.Limit{{Name: name, New: func(dest, key string) comity.Limiter { return d.group }}}
	}
	return p
}

func (d *delays) note(host string, delay time.Duration) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	d.mu.Lock()
	changed := d.told[host] != delay
	d.told[host] = delay
	d.mu.Unlock()
	if changed {
		d.rt.Refresh(host)
	}
}

// TestCollyIsPoliteWithOurTransport has colly crawl the site of the crawler example.
// It brings the parsing, we bring the manners: each of its goroutines waits in the
// Transport, and none of them waits for a slower host.
func TestCollyIsPoliteWithOurTransport(t *testing.T) {
	t.Parallel()
	s, err := site.Open(site.Options{Scale: 0.2})
	require.NoError(t, err)
	defer s.Close()
	base := s.Transport()
	defer base.CloseIdleConnections()
	_, interval := s.Group(groupedHost(s))
	group, err := comity.NewLimiter(comity.Every(max(interval, time.Millisecond)))
	require.NoError(t, err)
	d := &delays{pause: s.Gap(), s: s, told: map[string]time.Duration{}, group: group}
	d.rt, err = comity.New(robotsWatch{base, d.note}, comity.Config{PolicyFor: d.policy})
	require.NoError(t, err)

	rt := d.rt
	c := colly.NewCollector(colly.Async(true), colly.UserAgent(collyAgent))
	c.IgnoreRobotsTxt = false
	c.WithTransport(rt)                   // without a LimitRule: no call waits for another host's
	c.SetRequestTimeout(10 * time.Minute) // its 10 seconds would end while calls wait their turn
	c.SetRedirectHandler(func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // colly asks no robots.txt for a hop: have it visit the target instead
	})
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		_ = e.Request.Visit(e.Attr("href")) // fails for what it saw already
	})
	c.OnError(func(r *colly.Response, err error) {
		if r.StatusCode/100 == 3 && r.Headers != nil {
			_ = r.Request.Visit(r.Headers.Get("Location"))
		}
	})
	start := time.Now()
	for _, seed := range s.Seeds() {
		_ = c.Visit(seed)
	}
	c.Wait()
	done, all := s.Done()
	t.Logf("colly: %d of %d pages in %s; best possible %s", done, all, time.Since(start), s.Bound())
	require.Empty(t, s.Violations())
	require.Empty(t, s.Missing())
}

func groupedHost(s *site.Site) string {
	for _, h := range s.Hosts() {
		if name, _ := s.Group(h.Name); name != "" {
			return h.Name
		}
	}
	return ""
}
