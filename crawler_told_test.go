package comity_test

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// polite is how a crawler treats a host that it knows nothing about, less the
// pause after each call.
func polite() comity.Policy {
	return comity.Policy{
		MaxWait:  -1,
		Adaptive: comity.Adaptive{K: -1},
		Retry:    comity.Retry{Max: -1, Base: time.Minute, Cap: 24 * time.Hour},
		Classify: func(a *comity.Attempt) comity.Verdict {
			if a.Verdict == comity.Overloaded && a.Response != nil && a.Response.StatusCode == http.StatusServiceUnavailable {
				return comity.Limited
			}
			return a.Verdict
		},
	}
}

// burst calls host n times at once and waits for all.
func burst(t *testing.T, client *http.Client, host string, n, want int) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			code, err := fetch(client, "http://"+host+"/")
			require.NoError(t, err)
			require.Equal(t, want, code)
		})
	}
	wg.Wait()
}

// readyIn is the time until host may be called.
func readyIn(t *testing.T, rt *comity.Transport, host string) time.Duration {
	return time.Until(rt.Next(get(t, t.Context(), "http://"+host+"/")).At)
}

// Eight calls that are refused together are one incident.
func TestCrawler09BurstIsOneIncident(t *testing.T) {
	for _, code := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			var held []comity.Hold
			net := newWeb(100*time.Millisecond, func(*http.Request, int) *http.Response { return answer(code, "no") })
			cfg := every(polite())
			cfg.Trace = &comity.Trace{Held: func(h comity.Hold) { held = append(held, h) }}
			rt := transport(t, net, cfg)
			client := &http.Client{Transport: rt}
			burst(t, client, "a.example", 8, code)
			require.Len(t, held, 1)
			require.Equal(t, time.Duration(-1), held[0].Told)
			wait := readyIn(t, rt, "a.example")
			require.GreaterOrEqual(t, wait, time.Minute)
			require.LessOrEqual(t, wait, 66*time.Second)
			for range 10 {
				_, err := fetch(client, "http://a.example/")
				require.ErrorIs(t, err, comity.ErrThrottled)
			}
			require.Len(t, net.starts("a.example"), 8)
			time.Sleep(wait)
			_, err := fetch(client, "http://a.example/")
			require.NoError(t, err)
			again := readyIn(t, rt, "a.example")
			require.GreaterOrEqual(t, again, 2*time.Minute, "the second incident")
			require.LessOrEqual(t, again, 132*time.Second)
		})
	}
}

// A host that refuses for hours is asked twice as rarely each time, down to once
// a day: time in which nothing may be sent is not quiet.
func TestCrawler09BackoffGrowsToADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWeb(0, func(*http.Request, int) *http.Response { return answer(429, "no") })
		rt := transport(t, net, every(polite()))
		client := &http.Client{Transport: rt}
		for want := time.Minute; ; want = min(2*want, 24*time.Hour) {
			code, err := fetch(client, "http://a.example/")
			require.NoError(t, err)
			require.Equal(t, 429, code)
			wait := readyIn(t, rt, "a.example")
			require.GreaterOrEqual(t, wait, want)
			require.LessOrEqual(t, wait, want+want/10)
			if want == 24*time.Hour {
				break
			}
			time.Sleep(wait)
		}
		require.Len(t, net.starts("a.example"), 12)
	})
}

// A Retry-After that names no time is none.
func TestCrawler10UselessRetryAfter(t *testing.T) {
	for _, value := range []string{"", "0", "-1", "soon", "Thu, 01 Jan 1970 00:00:00 GMT"} {
		for _, code := range []int{429, 503} {
			t.Run(strconv.Itoa(code)+" "+value, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					net := newWeb(0, func(*http.Request, int) *http.Response { return answer(code, "no", "Retry-After", value) })
					rt := transport(t, net, every(polite()))
					burst(t, &http.Client{Transport: rt}, "a.example", 1, code)
					wait := readyIn(t, rt, "a.example")
					require.GreaterOrEqual(t, wait, time.Minute)
					require.LessOrEqual(t, wait, 66*time.Second)
				})
			})
		}
	}
}

// An answer that comes late and asks for less does not shorten what was told.
func TestCrawler11StragglerShortensNothing(t *testing.T) {
	for _, code := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			net := newWeb(0, func(req *http.Request, n int) *http.Response {
				switch {
				case req.URL.Host != "a.example":
					return nil
				case n == 0:
					time.Sleep(500 * time.Millisecond)
					return answer(code, "no", "Retry-After", "5")
				default:
					return answer(code, "no", "Retry-After", "120")
				}
			})
			rt := transport(t, net, every(polite()))
			client := &http.Client{Transport: rt}
			var straggler sync.WaitGroup
			straggler.Go(func() { burst(t, client, "a.example", 1, code) })
			synctest.Wait()
			burst(t, client, "a.example", 1, code)
			held := time.Now()
			straggler.Wait()

			until := rt.Destinations()[0].HeldUntil
			require.GreaterOrEqual(t, until.Sub(held), 120*time.Second)
			require.LessOrEqual(t, until.Sub(held), 123*time.Second)
			for time.Since(held) < 120*time.Second {
				began := time.Now()
				_, err := fetch(client, "http://a.example/")
				var refused *comity.ThrottledError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, comity.ReasonHeld, refused.Reason)
				require.InDelta(t, time.Until(until).Seconds(), refused.RetryAfter.Seconds(), 0.001)
				require.Zero(t, time.Since(began))
				burst(t, client, "b.example", 1, 200)
				time.Sleep(7 * time.Second)
			}
			require.Len(t, net.starts("a.example"), 2)
			time.Sleep(time.Until(until))
			require.Equal(t, comity.Readiness{At: time.Now()}, rt.Next(get(t, t.Context(), "http://a.example/")))
		})
	}
}

// A told time above a day is held for a day, and reported once.
func TestCrawler12DaysAreADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const told = 3 * 24 * time.Hour
		var held []comity.Hold
		net := newWeb(0, func(_ *http.Request, n int) *http.Response {
			if n > 3 {
				return nil
			}
			return answer(429, "no", "Retry-After", strconv.Itoa(int(told/time.Second)))
		})
		cfg := every(polite())
		cfg.Trace = &comity.Trace{Held: func(h comity.Hold) { held = append(held, h) }}
		rt := transport(t, net, cfg)
		client := &http.Client{Transport: rt}
		burst(t, client, "a.example", 1, 429)
		require.Len(t, held, 1)
		require.Equal(t, told, held[0].Told)
		wait := time.Until(held[0].Until)
		require.GreaterOrEqual(t, wait, 24*time.Hour)
		require.LessOrEqual(t, wait, 24*time.Hour+5*time.Second)
		for range 23 {
			time.Sleep(time.Hour)
			_, err := fetch(client, "http://a.example/")
			require.ErrorIs(t, err, comity.ErrThrottled)
		}
		require.Len(t, net.starts("a.example"), 1)
		time.Sleep(time.Until(held[0].Until))
		burst(t, client, "a.example", 1, 429)
		require.Len(t, held, 2)
	})
}

// crawlDelays are what robots.txt files ask for, as PolicyFor gives it to the
// Transport.
type crawlDelays struct {
	own  time.Duration
	rt   *comity.Transport
	mu   sync.Mutex
	told map[string]time.Duration
}

var errCrawlDelay = errors.New("no such delay")

// set notes what host asks for. What no duration can be is refused.
func (c *crawlDelays) set(host string, d time.Duration) error {
	if d < 0 {
		return errCrawlDelay
	}
	c.mu.Lock()
	c.told[host] = d
	c.mu.Unlock()
	c.rt.Refresh(host)
	return nil
}

func (c *crawlDelays) policy(host string) comity.Policy {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := polite()
	p.MaxWait = comity.Forever
	p.Delay = comity.Delay{Min: max(c.own, c.told[host])}
	p.MaxInFlight = 1
	return p
}

// A host's own wish lengthens the delay and never shortens it; it is learned after
// the first call.
func TestCrawler13CrawlDelayIsAFloor(t *testing.T) {
	for name, c := range map[string]struct {
		own  time.Duration
		told []time.Duration
		err  bool
		want time.Duration
	}{
		"more":        {own: 1, told: []time.Duration{5}, want: 5},
		"less":        {own: 10, told: []time.Duration{5}, want: 10},
		"taken back":  {own: 1, told: []time.Duration{5, 0}, want: 1},
		"raised":      {own: 1, told: []time.Duration{5, 7}, want: 7},
		"negative":    {own: 1, told: []time.Duration{-1}, err: true, want: 1},
		"overflowed":  {own: 1, told: []time.Duration{math.MinInt64 / time.Duration(time.Second)}, err: true, want: 1},
		"then absurd": {own: 1, told: []time.Duration{5, -1}, err: true, want: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newWeb(0, nil)
				delays := &crawlDelays{own: c.own * time.Second, told: map[string]time.Duration{}}
				delays.rt = transport(t, net, comity.Config{PolicyFor: delays.policy})
				client := &http.Client{Transport: delays.rt}
				burst(t, client, "a.example", 1, 200)
				for i, d := range c.told {
					err := delays.set("a.example", d*time.Second)
					require.Equal(t, c.err && i == len(c.told)-1, err != nil)
				}
				burst(t, client, "a.example", 4, 200)
				burst(t, client, "b.example", 2, 200)
				starts := net.starts("a.example")
				require.Len(t, starts, 5)
				for i := 1; i < len(starts); i++ {
					require.Equal(t, c.want*time.Second, starts[i]-starts[i-1])
				}
				require.Equal(t, c.own*time.Second, net.starts("b.example")[1]-net.starts("b.example")[0])
			})
		})
	}
}

// A wish that comes when a host had no delay yet counts from its last answer too.
func TestCrawler13FirstDelayCountsFromTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delay time.Duration
		rt := transport(t, newWeb(0, nil), comity.Config{PolicyFor: func(string) comity.Policy {
			return comity.Policy{MaxWait: -1, Delay: comity.Delay{Min: delay}}
		}})
		burst(t, &http.Client{Transport: rt}, "a.example", 1, 200)
		time.Sleep(2 * time.Second)
		require.Zero(t, readyIn(t, rt, "a.example"))
		delay = 5 * time.Second
		rt.Refresh("a.example")
		require.Equal(t, 3*time.Second, readyIn(t, rt, "a.example"))
	})
}

// A wish that is read while its answer is still under way holds from the end of that
// answer.
func TestCrawler13DelayReadFromTheAnswerItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := time.Second
		rt := transport(t, newWeb(0, nil), comity.Config{PolicyFor: func(string) comity.Policy {
			return comity.Policy{MaxWait: -1, Delay: comity.Delay{Min: delay}}
		}})
		for _, delay = range []time.Duration{5 * time.Second, time.Second} {
			res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/robots.txt"))
			require.NoError(t, err)
			rt.Refresh("a.example")
			res.Body.Close()
			require.Equal(t, delay, readyIn(t, rt, "a.example"))
			time.Sleep(delay)
		}
	})
}
