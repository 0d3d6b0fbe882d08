package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity/examples/crawler/robots"
	"github.com/comity/comity/examples/crawler/site"
)

// quick is the site at a fifth of its times. Retry-After is a second there.
func quick() options {
	return options{workers: 16, site: site.Options{Scale: 0.2, Seed: 7}}
}

func crawl(t *testing.T, o options) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out bytes.Buffer
	r, err := run(ctx, o, &out)
	require.NoError(t, err)
	t.Logf("%s; best possible %s", r.took, r.bound)
	if r.verdict() != nil {
		t.Log(out.String())
	}
	require.Contains(t, out.String(), "1180 pages in ")
	return r
}

// Every page is had and no host is bothered, in hardly more time than the most
// demanding host takes. How much more is told to the reader; the test leaves room
// for a machine that is busy with other things.
func TestCrawler25NoViolationAndNoPageLost(t *testing.T) {
	r := crawl(t, quick())
	require.NoError(t, r.verdict())
	require.Less(t, r.took, 2*r.bound)
}

// Waiting at each host in turn takes much longer, and is just as polite.
func TestCrawler25NaiveIsSlower(t *testing.T) {
	if os.Getenv("COMITY_LONG") == "" {
		t.Skip("takes half a minute; COMITY_LONG=1 runs it")
	}
	o := quick()
	o.naive = true
	r := crawl(t, o)
	require.NoError(t, r.verdict())
	require.Greater(t, r.took, 3*r.bound)
}

// The control of the oracle: a client without manners does all that it looks for.
func TestSiteSeesBadManners(t *testing.T) {
	var unseen []string
	for range 4 { // a machine that is busy keeps manners by being slow
		if unseen = badManners(t); len(unseen) == 0 {
			return
		}
	}
	require.Empty(t, unseen)
}

// badManners crawls without any, and returns the kinds of violation that the site
// did not see.
func badManners(t *testing.T) (unseen []string) {
	s, err := site.Open(site.Options{Scale: 0.2})
	require.NoError(t, err)
	defer s.Close()
	base := s.Transport()
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: base}
	var wg sync.WaitGroup
	for _, seed := range s.Seeds() {
		host := strings.TrimSuffix(seed, "/0")
		for range 2 {
			wg.Go(func() {
				for n := range 12 {
					paths := []string{fmt.Sprint("/", n), "/private/0", "/robots.txt"}
					if n >= 2 {
						paths = paths[:1]
					}
					for _, path := range paths {
						if res, err := client.Get(host + path); err == nil {
							res.Body.Close()
						}
					}
				}
			})
		}
	}
	wg.Wait()
	require.NotEmpty(t, s.Missing())
	all := strings.Join(s.Violations(), "\n")
	for _, kind := range []string{"open at once", " after ", "before robots.txt", "is disallowed", "calls to its address",
		"before the silence", "while it answers 503"} {
		if !strings.Contains(all, kind) {
			unseen = append(unseen, kind)
		}
	}
	return unseen
}

// Pages choose where a crawler connects to: nothing but the site is reached.
func TestSiteIsAllThatIsReached(t *testing.T) {
	s, err := site.Open(site.Options{Hosts: 5})
	require.NoError(t, err)
	defer s.Close()
	client := &http.Client{Transport: s.Transport()}
	for _, url := range []string{"http://192.0.2.1/", "http://127.0.0.1/", "http://elsewhere.example/", "http://[2001:db8::1]/"} {
		_, err := client.Get(url)
		require.ErrorContains(t, err, "not a host of this site", url)
	}
}

func TestSiteHasTheHostsThatItSays(t *testing.T) {
	s, err := site.Open(site.Options{})
	require.NoError(t, err)
	defer s.Close()
	count := map[string]int{}
	for _, h := range s.Hosts() {
		count[h.Role()]++
	}
	require.Equal(t, map[string]int{"": 38, "Crawl-delay": 4, "no robots.txt": 3, "robots.txt 503": 2, "robots.txt 429": 1,
		"robots.txt broken": 1, "429 after 10 pages": 3, "503 for a while": 2, "slow": 1, "redirects": 1,
		"redirects to a disallowed page": 1, "two names, one address": 2, "unreachable": 1}, count)
}

// A Crawl-delay is a floor; what no delay can be changes nothing.
func TestCrawler13CrawlDelay(t *testing.T) {
	m := newManners(polite(time.Second, time.Minute))
	set := func(d time.Duration) error { _, err := m.setCrawlDelay("a.test", d); return err }
	pause := func() time.Duration { return m.policy("a.test").Delay.Min }
	for _, c := range []struct{ told, want time.Duration }{{5 * time.Second, 5 * time.Second}, {7 * time.Second, 7 * time.Second},
		{time.Millisecond, time.Second}, {0, time.Second}, {5 * time.Second, 5 * time.Second}} {
		require.NoError(t, set(c.told))
		require.Equal(t, c.want, pause())
		for _, bad := range []time.Duration{-1, math.MinInt64} {
			require.Error(t, set(bad))
			require.Equal(t, c.want, pause())
		}
	}
	require.Equal(t, 1, m.policy("a.test").MaxInFlight)
	require.Equal(t, time.Second, m.policy("b.test").Delay.Min)
}

func TestLinksAreToldApartInOneSpelling(t *testing.T) {
	for link, want := range map[string]string{
		"http://A.test.:80": "http://a.test/", "http://me@a.test/x#part": "http://a.test/x", "http://[0:0::1]/": "http://[0:0::1]/",
		"http://a.test:8080/?q": "http://a.test:8080/?q", "http://[::1]:80/": "http://[::1]/",
	} {
		got, _, ok := canonical(link)
		require.True(t, ok, link)
		require.Equal(t, want, got)
	}
	for _, link := range []string{"mailto:a@b", "/relative", "https://a.test/", "http://", ":"} {
		_, _, ok := canonical(link)
		require.False(t, ok, link)
	}
}

// An old robots.txt holds for a month while a new one cannot be had, which is tried
// ever more rarely.
func TestOldRobotsFileHoldsForAMonth(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	rules, ok := robots.FromStatus(200, nil, agent)
	require.True(t, ok)
	r := robotsFile{rules: rules, had: now, ask: now.Add(robotsLife)}
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		now = r.ask
		r.missed(now, 5*time.Minute)
		require.Equal(t, want*time.Minute, r.ask.Sub(now))
		require.NotNil(t, r.rules)
	}
	r.missed(r.had.Add(robotsOld+time.Second), 5*time.Minute)
	require.Nil(t, r.rules)
}
