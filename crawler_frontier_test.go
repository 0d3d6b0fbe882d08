package comity_test

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// site is a host, its pages yet to be fetched and when the next of them may be.
type site struct {
	ready time.Time
	pages []string
}

// sites is a heap: first the one that is ready first.
type sites []*site

func (s sites) Len() int           { return len(s) }
func (s sites) Less(i, j int) bool { return s[i].ready.Before(s[j].ready) }
func (s sites) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sites) Push(x any)        { *s = append(*s, x.(*site)) }
func (s *sites) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// crawl fetches all pages of todo with a few workers, none of which ever waits for
// a host.
func crawl(todo sites, workers int, fetch func(*site)) {
	heap.Init(&todo)
	out, back := make(chan *site), make(chan *site)
	for range workers {
		go func() {
			for s := range out {
				fetch(s) // a page, and s.ready is when the next one may be fetched
				back <- s
			}
		}()
	}
	for busy := 0; len(todo)+busy > 0; {
		var ready <-chan time.Time
		if len(todo) > 0 && busy < workers {
			ready = time.After(time.Until(todo[0].ready))
		}
		select {
		case <-ready:
			out <- heap.Pop(&todo).(*site)
			busy++
		case s := <-back:
			if busy--; len(s.pages) > 0 {
				heap.Push(&todo, s)
			}
		}
	}
	close(out)
}

// fetchNext fetches the next page of s.
func fetchNext(client *http.Client, s *site, rt *comity.Transport) {
	req, err := http.NewRequest(http.MethodGet, s.pages[0], nil)
	if err != nil {
		s.pages = s.pages[1:]
		return
	}
	res, err := client.Do(req)
	if !errors.Is(err, comity.ErrThrottled) { // else it was not sent, and stays
		s.pages = s.pages[1:]
	}
	if err == nil {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	s.ready = rt.Next(req).At
}

// crawlPolicies are those of 200 hosts that may be called once a second, and of one
// that may be called every ten.
func crawlPolicies(wait time.Duration) map[string]comity.Policy {
	return map[string]comity.Policy{
		"":             {MaxWait: wait, Limits: []comity.Limit{comity.Every(time.Second)}},
		"slow.example": {MaxWait: wait, Limits: []comity.Limit{comity.Every(10 * time.Second)}},
	}
}

// crawlPages are 50 pages of each of those hosts, the slow one's first.
func crawlPages() sites {
	all := make(sites, 201)
	for i := range all {
		host := fmt.Sprintf("h%03d.example", i)
		if i == 0 {
			host = "slow.example"
		}
		all[i] = &site{}
		for n := range 50 {
			all[i].pages = append(all[i].pages, fmt.Sprintf("http://%s/%d", host, n))
		}
	}
	return all
}

// No host waits for a slower one, with few workers.
func TestCrawler08NoWorkerIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 16
		before := runtime.NumGoroutine()
		var goroutines atomic.Int64
		net := newWeb(50*time.Millisecond, func(*http.Request, int) *http.Response {
			goroutines.Store(max(goroutines.Load(), int64(runtime.NumGoroutine()-before)))
			return nil
		})
		rt := transport(t, net, comity.Config{Policies: crawlPolicies(-1)})
		client := &http.Client{Transport: rt}
		crawl(crawlPages(), workers, func(s *site) { fetchNext(client, s, rt) })
		took := time.Since(net.began)
		others := time.Duration(0)
		for host := range net.calls {
			starts := net.starts(host)
			require.Len(t, starts, 50, host)
			if host != "slow.example" {
				others = max(others, starts[49]+net.latency)
			}
		}
		t.Logf("200 hosts done after %s, all after %s, at most %d goroutines", others, took, goroutines.Load())
		require.LessOrEqual(t, others, 50*time.Second)
		require.LessOrEqual(t, took, 491*time.Second)
		require.LessOrEqual(t, goroutines.Load(), int64(workers+5))
	})
}

// The control: the same with workers that wait, as calls of http.Client do.
func TestCrawler08BlockingClientNeedsHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWeb(50*time.Millisecond, nil)
		rt := transport(t, net, comity.Config{Policies: crawlPolicies(comity.Forever)})
		client := &http.Client{Transport: rt}
		todo := make(chan string)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for page := range todo {
					_, err := fetch(client, page)
					require.NoError(t, err)
				}
			})
		}
		for _, s := range crawlPages() {
			for _, page := range s.pages {
				todo <- page
			}
		}
		close(todo)
		wg.Wait()
		t.Logf("a blocking client needs %s", time.Since(net.began))
		require.Greater(t, time.Since(net.began), time.Hour)
	})
}

// A limit of several hosts together takes nothing from a host that it holds back.
func TestCrawler20GroupOfHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group, err := comity.NewLimiter(comity.Limit{N: 1, Per: time.Minute})
		require.NoError(t, err)
		shared := comity.Limit{Name: "group", New: func(dest, key string) comity.Limiter { return group }}
		rt := transport(t, newWeb(0, nil), every(comity.Policy{MaxWait: -1,
			Limits: []comity.Limit{{Name: "host", N: 2, Per: time.Hour, Burst: 2}, shared}}))
		client := &http.Client{Transport: rt}
		burst(t, client, "a.example", 1, 200)
		_, err = fetch(client, "http://b.example/")
		var refused *comity.ThrottledError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "group", refused.Limit)
		require.Equal(t, time.Minute, refused.RetryAfter)
		for _, host := range []string{"a.example", "b.example"} {
			next := rt.Next(get(t, t.Context(), "http://"+host+"/"))
			require.Equal(t, comity.Readiness{At: time.Now().Add(time.Minute), Reason: comity.ReasonLimit, Limit: "group"}, next)
		}
		for _, d := range rt.Destinations() {
			require.Equal(t, "host", d.Limits[0].Name)
			require.Equal(t, map[string]float64{"a.example": 1, "b.example": 2}[d.Key], d.Limits[0].Available, d.Key)
		}
		time.Sleep(time.Minute)
		burst(t, client, "b.example", 1, 200)
	})
}

// Under a limit of all hosts together a frontier need not ask host after host: the
// answer names the limit that decides.
func TestCrawler21GlobalLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWeb(time.Millisecond, nil)
		cfg := every(comity.Policy{MaxWait: -1, Delay: comity.Delay{Min: time.Second, Jitter: 0.2}})
		cfg.Limits = []comity.Limit{{Name: "all", N: 10, Per: time.Second}}
		rt := transport(t, net, cfg)
		client := &http.Client{Transport: rt}
		var todo sites
		for i := range 10_000 {
			todo = append(todo, &site{pages: []string{fmt.Sprintf("http://h%d.example/", i)}})
		}
		heap.Init(&todo)
		fetched, asked := 0, 0
		for time.Since(net.began) < time.Minute {
			s := todo[0]
			req := get(t, t.Context(), s.pages[0])
			next := rt.Next(req)
			asked++
			if next.Limit == "all" { // so it would be for any other
				time.Sleep(time.Until(next.At))
				continue
			}
			if next.Reason == "" {
				code, err := fetch(client, s.pages[0])
				require.NoError(t, err)
				require.Equal(t, 200, code)
				fetched++
				next.At = time.Now().Add(time.Second)
			}
			s.ready = next.At
			heap.Fix(&todo, 0)
		}
		t.Logf("%d pages, Next was asked %.2f times for each", fetched, float64(asked)/float64(fetched))
		require.InDelta(t, 600, fetched, 10)
		require.LessOrEqual(t, asked, 3*fetched)
	})
}

// Two credentials of a host have limits of their own, and stay out of all that
// anybody sees. A redirect elsewhere has none.
func TestCrawler18Credentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := []string{"Bearer secret-one", "Bearer secret-two"}
		net := newWeb(0, func(req *http.Request, n int) *http.Response {
			if req.URL.Path == "/away" {
				return answer(302, "", "Location", "http://b.example/")
			}
			return nil
		})
		rt := transport(t, net, every(comity.Policy{MaxWait: -1, Key: comity.CredentialKey("Authorization"),
			Limits: []comity.Limit{{N: 10, Per: time.Second, Burst: 10, Key: comity.CredentialKey("Authorization")}}}))
		client := &http.Client{Transport: rt}
		seen := ""
		call := func(token, url string) bool {
			req := get(t, context.Background(), url)
			req.Header.Set("Authorization", token)
			res, err := client.Do(req)
			if err != nil {
				require.ErrorIs(t, err, comity.ErrThrottled)
				seen += err.Error()
				return false
			}
			return res.Body.Close() == nil
		}
		for _, token := range tokens {
			sent := 0
			for range 30 {
				if call(token, "http://a.example/") {
					sent++
				}
			}
			require.Equal(t, 10, sent)
		}
		time.Sleep(time.Second)
		require.True(t, call(tokens[0], "http://a.example/away"))
		require.Contains(t, keys(rt), "b.example")
		require.Len(t, keys(rt), 3)
		seen += fmt.Sprintf("%+v %+v", rt.Destinations(), rt.Next(get(t, t.Context(), "http://a.example/")))
		require.NotContains(t, seen, "secret")
	})
}
