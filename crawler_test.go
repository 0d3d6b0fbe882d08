package comity_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// The tests of this file and its neighbours hold the Transport to what a crawler
// needs of it. They are numbered, so that notes can name them.

// web is a base that stands for all hosts. It notes when each call came and how
// many of a host's were open at once.
type web struct {
	latency time.Duration // to the headers
	body    time.Duration // from there to the end of the body
	page    func(req *http.Request, n int) *http.Response

	mu    sync.Mutex
	began time.Time
	calls map[string][]time.Duration
	open  map[string]int
	most  map[string]int
}

// newWeb answers everything with 200, and with what page says if it is set.
func newWeb(latency time.Duration, page func(req *http.Request, n int) *http.Response) *web {
	return &web{latency: latency, page: page, began: time.Now(),
		calls: map[string][]time.Duration{}, open: map[string]int{}, most: map[string]int{}}
}

func (w *web) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Host
	w.mu.Lock()
	n := len(w.calls[host])
	w.calls[host] = append(w.calls[host], time.Since(w.began))
	w.open[host]++
	w.most[host] = max(w.most[host], w.open[host])
	w.mu.Unlock()
	if err := pause(req.Context(), w.latency); err != nil {
		w.ended(host)
		return nil, err
	}
	res := answer(200, "page")
	if w.page != nil {
		if r := w.page(req, n); r != nil {
			res = r
		}
	}
	res.Request = req
	if res.Body == http.NoBody || req.Method == http.MethodHead {
		w.ended(host)
		return res, nil
	}
	res.Body = &slowBody{Reader: res.Body, wait: w.body, end: func() { w.ended(host) }}
	return res, nil
}

func (w *web) ended(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[host]--
}

// starts are the times at which host was called.
func (w *web) starts(host string) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[host]
}

// slowBody takes its time before the first byte.
type slowBody struct {
	io.Reader
	wait time.Duration
	end  func()
	once sync.Once
}

func (b *slowBody) Read(p []byte) (int, error) {
	time.Sleep(b.wait)
	b.wait = 0
	n, err := b.Reader.Read(p)
	if err != nil {
		b.once.Do(b.end)
	}
	return n, err
}

func (b *slowBody) Close() error { b.once.Do(b.end); return nil }

// fetch gets url and reads it to its end.
func fetch(client *http.Client, url string) (status int, err error) {
	res, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// fetchAll gets each of n pages of host, by as many workers.
func fetchAll(t *testing.T, rt http.RoundTripper, n, workers int) {
	t.Helper()
	client := &http.Client{Transport: rt}
	todo := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range todo {
				_, err := fetch(client, fmt.Sprintf("http://a.example/%d", i))
				require.NoError(t, err)
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	wg.Wait()
}

func milliseconds(ms ...int) []time.Duration {
	out := make([]time.Duration, len(ms))
	for i, n := range ms {
		out[i] = time.Duration(n) * time.Millisecond
	}
	return out
}

// An interval counts from start to start, whoever calls.
func TestCrawler01IntervalStartToStart(t *testing.T) {
	for _, workers := range []int{1, 5} {
		synctest.Test(t, func(t *testing.T) {
			net := newWeb(300*time.Millisecond, nil)
			rt := transport(t, net, every(comity.Policy{Limits: []comity.Limit{comity.Every(time.Second)}}))
			fetchAll(t, rt, 5, workers)
			require.Equal(t, milliseconds(0, 1000, 2000, 3000, 4000), net.starts("a.example"))
		})
	}
}

// A delay counts from the end of one answer to the next start.
func TestCrawler02DelayEndToStart(t *testing.T) {
	for _, workers := range []int{1, 5} {
		synctest.Test(t, func(t *testing.T) {
			net := newWeb(300*time.Millisecond, nil)
			rt := transport(t, net, every(comity.Policy{Delay: comity.Delay{Min: time.Second}}))
			fetchAll(t, rt, 5, workers)
			require.Equal(t, milliseconds(0, 1300, 2600, 3900, 5200), net.starts("a.example"))
			require.Equal(t, 1, net.most["a.example"])
		})
	}
}

// The end of an answer is the end of its body, not its headers.
func TestCrawler03DelayFromEndOfBody(t *testing.T) {
	for _, workers := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			net := newWeb(100*time.Millisecond, nil)
			net.body = 600 * time.Millisecond
			rt := transport(t, net, every(comity.Policy{Delay: comity.Delay{Min: time.Second}, MaxInFlight: 1}))
			fetchAll(t, rt, 2, workers)
			require.Equal(t, milliseconds(0, 1700), net.starts("a.example"))
		})
	}
}

// An interval and a cap on open calls hold at once.
func TestCrawler04IntervalAndMaxInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWeb(10*time.Second, nil)
		rt := transport(t, net, every(comity.Policy{Limits: []comity.Limit{comity.Every(time.Second)}, MaxInFlight: 4}))
		fetchAll(t, rt, 20, 20)
		starts := net.starts("a.example")
		require.Len(t, starts, 20)
		for i := 1; i < len(starts); i++ {
			require.GreaterOrEqual(t, starts[i]-starts[i-1], time.Second)
		}
		require.Equal(t, 4, net.most["a.example"])
		require.Equal(t, 43*time.Second, starts[19], "and nothing is left unused")
	})
}

// Each hop of a redirect is a call to its own host.
func TestCrawler05RedirectIsPacedByItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWeb(0, func(req *http.Request, n int) *http.Response {
			if req.URL.Host == "a.example" {
				return answer(302, "", "Location", "http://b.example/")
			}
			return nil
		})
		rt := transport(t, net, every(comity.Policy{Limits: []comity.Limit{comity.Every(time.Second)}}))
		client := &http.Client{Transport: rt}
		_, err := fetch(client, "http://a.example/")
		require.NoError(t, err)
		time.Sleep(200 * time.Millisecond)
		_, err = fetch(client, "http://a.example/")
		require.NoError(t, err)
		require.Equal(t, milliseconds(0, 1000), net.starts("a.example"))
		require.Equal(t, milliseconds(0, 1000), net.starts("b.example"))

		// B was used on its own, half an interval before the hop.
		time.Sleep(500 * time.Millisecond)
		_, err = fetch(client, "http://b.example/")
		require.NoError(t, err)
		_, err = fetch(client, "http://a.example/")
		require.NoError(t, err)
		require.Equal(t, milliseconds(0, 1000, 2000), net.starts("a.example"))
		require.Equal(t, milliseconds(0, 1000, 2000, 3000), net.starts("b.example"))
	})
}

// A hop that may not go yet is refused by itself, and the error names its URL: the
// crawler queues that one.
func TestCrawler05RefusedHopIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWeb(0, func(req *http.Request, n int) *http.Response {
			if req.URL.Host == "a.example" {
				return answer(302, "", "Location", "http://b.example/there")
			}
			return nil
		})
		rt := transport(t, net, every(comity.Policy{Limits: []comity.Limit{comity.Every(time.Second)}, MaxWait: -1}))
		client := &http.Client{Transport: rt}
		_, err := fetch(client, "http://b.example/")
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		_, err = fetch(client, "http://a.example/")
		require.ErrorIs(t, err, comity.ErrThrottled)
		require.ErrorContains(t, err, `"http://b.example/there"`)
		wait, ok := comity.RetryAfter(nil, err)
		require.True(t, ok)
		require.Equal(t, 900*time.Millisecond, wait)
	})
}

// A redirect to the same host does not wait for itself.
func TestCrawler06RedirectToTheSameHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWeb(10*time.Millisecond, func(req *http.Request, n int) *http.Response {
			if req.URL.Path == "/from" {
				return answer(302, strings.Repeat("x", 100<<10), "Location", "/to")
			}
			return nil
		})
		rt := transport(t, net, every(comity.Policy{MaxInFlight: 1}))
		res, err := (&http.Client{Transport: rt}).Get("http://a.example/from")
		require.NoError(t, err)
		require.Equal(t, "/to", res.Request.URL.Path)
		require.Equal(t, 1, rt.Destinations()[0].InFlight)
		require.NoError(t, res.Body.Close())
		require.Zero(t, rt.Destinations()[0].InFlight)
		require.Equal(t, 1, net.most["a.example"])
	})
}

// An answer without a body ends with its headers, closed or not.
func TestCrawler07NoBodyHoldsNoPlace(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		code   int
		body   string
	}{
		"HEAD": {http.MethodHead, 200, "not sent"}, "204": {http.MethodGet, 204, ""},
		"304": {http.MethodGet, 304, ""}, "length 0": {http.MethodGet, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			net := newWeb(0, func(req *http.Request, n int) *http.Response { return answer(c.code, c.body) })
			rt := transport(t, net, every(comity.Policy{MaxInFlight: 1}))
			for range 3 {
				_, err := rt.RoundTrip(request(t, t.Context(), c.method, "http://a.example/", ""))
				require.NoError(t, err)
				require.Zero(t, rt.Destinations()[0].InFlight)
			}
		})
	}
}

// Jitter only adds, and it is drawn once a gap.
func TestCrawler14JitterOnlyAdds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gaps = 10_000
		net := newWeb(0, nil)
		rt := transport(t, net, every(comity.Policy{Delay: comity.Delay{Min: time.Second, Jitter: 0.2}, MaxWait: -1}))
		client := &http.Client{Transport: rt}
		req := get(t, t.Context(), "http://a.example/")
		for i := range gaps + 1 {
			_, err := fetch(client, "http://a.example/")
			require.NoError(t, err)
			next := rt.Next(req)
			require.Equal(t, comity.ReasonDelay, next.Reason)
			if i%1000 == 0 {
				for range 1000 {
					require.Equal(t, next, rt.Next(req))
				}
			}
			time.Sleep(time.Until(next.At))
			require.Equal(t, comity.Readiness{At: time.Now()}, rt.Next(req))
		}
		starts := net.starts("a.example")
		least, most, sum := time.Duration(math.MaxInt64), time.Duration(0), time.Duration(0)
		for i := 1; i < len(starts); i++ {
			gap := starts[i] - starts[i-1]
			least, most, sum = min(least, gap), max(most, gap), sum+gap
		}
		mean := sum / gaps
		t.Logf("gaps of %s to %s, %s on average", least, most, mean)
		require.GreaterOrEqual(t, least, time.Second)
		require.LessOrEqual(t, most, 1200*time.Millisecond)
		require.InDelta(t, 1.10, mean.Seconds(), 0.01)
	})
}

// A thousand calls that give up while they wait cost whoever comes next nothing.
func TestCrawler22CancelledCallsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWeb(0, nil)
		rt := transport(t, net, every(comity.Policy{Limits: []comity.Limit{{N: 10, Per: time.Second, Burst: 3}}}))
		client := &http.Client{Transport: rt}
		for range 3 {
			_, err := fetch(client, "http://a.example/")
			require.NoError(t, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				_, err := rt.RoundTrip(get(t, ctx, "http://a.example/"))
				require.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		require.Equal(t, 1000, rt.Destinations()[0].Waiting)
		cancel()
		wg.Wait()
		require.Zero(t, rt.Destinations()[0].Waiting)
		_, err := fetch(client, "http://a.example/")
		require.NoError(t, err)
		require.Equal(t, milliseconds(0, 0, 0, 100), net.starts("a.example"))

		time.Sleep(time.Second) // the bucket is full: all of it is there
		for range 3 {
			_, err := fetch(client, "http://a.example/")
			require.NoError(t, err)
		}
		require.Equal(t, milliseconds(1100, 1100, 1100), net.starts("a.example")[4:])
	})
}
