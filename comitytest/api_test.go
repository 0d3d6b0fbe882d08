package comitytest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

const ms = time.Millisecond

// plain writes all that an API reports, for tests to read.
var plain = &comity.Dialect{Name: "plain", Write: func(h http.Header, _ time.Time, a comity.Advice) {
	if a.RetryAfter >= 0 {
		h.Set("Wait", a.RetryAfter.String())
	}
	for _, q := range a.Quotas {
		h.Add("Quota", fmt.Sprintf("%s %s %d/%d per %v, resets in %v", q.Name, q.Unit, q.Remaining, q.Limit, q.Window, q.Reset))
	}
}}

// send makes n calls and returns the statuses.
func send(t *testing.T, rt http.RoundTripper, n int, url string) (codes []int) {
	t.Helper()
	for range n {
		codes = append(codes, get(t, rt, url).StatusCode)
	}
	return codes
}

func get(t *testing.T, rt http.RoundTripper, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	require.NoError(t, err)
	res, err := rt.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res
}

func count(codes []int, code int) (n int) {
	for _, c := range codes {
		if c == code {
			n++
		}
	}
	return n
}

func TestAPIAcceptsEverythingByDefault(t *testing.T) {
	res := get(t, new(comitytest.API), "http://x.example/")
	require.Equal(t, 200, res.StatusCode)
	require.Zero(t, res.ContentLength)
	require.Equal(t, "http://x.example/", res.Request.URL.String())
	require.Equal(t, []string{"Date"}, slices.Collect(mapKeys(res.Header)))
}

func mapKeys(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range h {
			if !yield(k) {
				return
			}
		}
	}
}

func TestAPIEnforcesEveryAlgorithm(t *testing.T) {
	for _, c := range []struct {
		algorithm   comity.Algorithm
		burst       int
		first       int // of 20 calls at 900 ms
		then        int // of 20 at 1100 ms
		wait, quota string
	}{
		{comity.TokenBucket, 0, 1, 1, "100ms", " requests 0/10 per 1s, resets in 100ms"},
		{comity.TokenBucket, 5, 5, 2, "100ms", " requests 0/10 per 1s, resets in 500ms"},
		{comity.GCRA, 20, 20, 2, "100ms", " requests 0/20 per 2s, resets in 2s"},
		{comity.LeakyBucket, 4, 5, 2, "100ms", " requests 0/10 per 1s, resets in 500ms"},
		{comity.FixedWindow, 0, 10, 10, "100ms", " requests 0/10 per 1s, resets in 100ms"},
		{comity.SlidingLog, 0, 10, 0, "1s", " requests 0/10 per 1s, resets in 1s"},
		{comity.SlidingWindow, 0, 10, 1, "200ms", " requests 0/10 per 1s, resets in 100ms"},
	} {
		t.Run(fmt.Sprint(c.algorithm, c.burst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &comitytest.API{Dialect: plain, Limits: []comity.Limit{
					{N: 10, Per: time.Second, Burst: c.burst, Algorithm: c.algorithm},
				}}
				time.Sleep(900 * ms)
				burst := func() (ok int, refused *http.Response) {
					done := make(chan *http.Response, 20)
					for range 20 {
						go func() { done <- get(t, api, "http://x.example/") }()
					}
					synctest.Wait() // those that wait in a queue have entered it
					for range 20 {
						res := <-done
						if res.StatusCode == 200 {
							ok++
							continue
						}
						require.Equal(t, 429, res.StatusCode)
						refused = res
					}
					return ok, refused
				}
				start := time.Now()
				ok, refused := burst()
				require.Equal(t, c.first, ok)
				if refused != nil {
					require.Equal(t, c.wait, refused.Header.Get("Wait"))
					require.Equal(t, c.quota, refused.Header.Get("Quota"))
				}
				require.Len(t, api.Over(), 20-ok)
				if c.algorithm == comity.LeakyBucket {
					require.Equal(t, 400*ms, time.Since(start), "the last of the queue leaves")
					return
				}
				time.Sleep(200*ms - time.Since(start))
				ok, _ = burst()
				require.Equal(t, c.then, ok)
			})
		})
	}
}

func TestAPITakesFromAllLimitsOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &comitytest.API{Dialect: plain, Limits: []comity.Limit{
			{N: 10, Per: time.Minute, Algorithm: comity.SlidingLog},
			{
				Name: "refunds", N: 2, Per: time.Minute, Algorithm: comity.SlidingLog,
				For: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/refunds") },
				Key: func(r *http.Request) string { return r.URL.Query().Get("merchant") },
			},
			{
				Name: "tokens", N: 100, Per: time.Minute, Algorithm: comity.FixedWindow, Unit: "tokens",
				Cost: func(r *http.Request) int { n, _ := strconv.Atoi(r.URL.Query().Get("tokens")); return n },
			},
			{Name: "shadow", N: 1, Per: time.Hour, Shadow: true},
		}}
		require.Equal(t, []int{200, 200, 429, 429}, send(t, api, 4, "http://x.example/refunds?merchant=a"))
		require.Equal(t, []int{200, 200, 429}, send(t, api, 3, "http://x.example/refunds?merchant=b"))
		require.Equal(t, []int{429}, send(t, api, 1, "http://x.example/?tokens=101"))
		require.Equal(t, []int{200, 429}, send(t, api, 2, "http://x.example/?tokens=60"))
		require.Equal(t, []int{200}, send(t, api, 1, "http://x.example/?tokens=40"))
		require.Equal(t, []int{200, 200, 200, 200, 429}, send(t, api, 5, "http://x.example/"))
		over := map[string]int{}
		for _, h := range api.Over() {
			over[h.Over]++
		}
		require.Equal(t, map[string]int{"10/m": 1, "refunds": 3, "tokens": 2}, over)
		require.Equal(t, []string{
			"10/m requests 0/10 per 1m0s, resets in 1m0s", "tokens tokens 0/100 per 1m0s, resets in 1m0s", "shadow requests 0/1 per 1h0m0s, resets in 10h0m0s",
		}, get(t, api, "http://x.example/").Header["Quota"])
	})
}

func TestAPICountsRefusedCallsIfToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &comitytest.API{CountsAll: true, Limits: []comity.Limit{{N: 2, Per: time.Second, Algorithm: comity.SlidingLog}}}
		send(t, api, 3, "http://x.example/")
		for range 5 { // who keeps asking is refused for ever
			time.Sleep(300 * ms)
			require.Equal(t, 429, get(t, api, "http://x.example/").StatusCode)
		}
		time.Sleep(time.Second)
		require.Equal(t, 200, get(t, api, "http://x.example/").StatusCode)
	})
}

func TestAPICapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &comitytest.API{Capacity: 50}
		require.Equal(t, 50, count(send(t, api, 60, "http://x.example/"), 200))
		require.Empty(t, api.Over(), "a 503 is no matter of limits")
		time.Sleep(time.Minute)
		for _, c := range []struct{ each, want int }{{1, 50}, {2, 44}, {5, 27}, {20, 0}} {
			time.Sleep(10 * time.Second)
			send(t, api, 60, "http://x.example/") // now it has no time left
			served := 0
			for range 50 * 10 {
				time.Sleep(20 * ms)
				served += count(send(t, api, c.each, "http://x.example/"), 200)
			}
			require.InDelta(t, c.want, served/10, 3, "%d times its capacity", c.each)
		}
	})
}

func TestAPIFailsWhenAsked(t *testing.T) {
	served := 0
	api := &comitytest.API{
		Limits:  []comity.Limit{comity.Every(time.Hour)},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served++ }),
	}
	api.Fail(2, 503, http.Header{"Retry-After": {"7"}})
	api.Fail(1, 0, nil)
	api.Fail(0, 500, nil)
	require.Equal(t, "7", get(t, api, "http://x.example/").Header.Get("Retry-After"))
	require.Equal(t, 503, get(t, api, "http://x.example/").StatusCode)
	require.Zero(t, served)
	_, err := api.RoundTrip(httptest.NewRequest("GET", "http://x.example/", nil))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 1, served, "the call was carried out, then the connection was lost")
	require.Equal(t, 200, get(t, api, "http://x.example/").StatusCode, "what failed has spent nothing")
	var codes []int
	for _, h := range api.Hits() {
		codes = append(codes, h.Status)
	}
	require.Equal(t, []int{503, 503, 0, 200}, codes)
}

func TestAPIClockMayBeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &comitytest.API{Skew: 700 * ms, Dialect: plain, Limits: []comity.Limit{{N: 1, Per: time.Second, Algorithm: comity.FixedWindow}}}
		time.Sleep(400 * ms)
		res := get(t, api, "http://x.example/")
		require.Equal(t, " requests 0/1 per 1s, resets in 900ms", res.Header.Get("Quota"))
		require.Equal(t, time.Now().Add(700*ms).UTC().Format(http.TimeFormat), res.Header.Get("Date"))
		require.Equal(t, time.Now(), api.Hits()[0].At)
	})
}

func TestAPITakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &comitytest.API{Latency: func() time.Duration { return 2 * time.Second }}
		start := time.Now()
		get(t, api, "http://x.example/")
		require.Equal(t, 2*time.Second, time.Since(start))

		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		body := &closing{}
		req, err := http.NewRequestWithContext(ctx, "POST", "http://x.example/", body)
		require.NoError(t, err)
		_, err = api.RoundTrip(req)
		require.ErrorIs(t, err, cause)
		require.Equal(t, 3*time.Second, time.Since(start))
		_, err = api.RoundTrip(req)
		require.ErrorIs(t, err, cause)
		require.Equal(t, 2, body.closed)
		require.Len(t, api.Hits(), 2, "a call that had ended before was not made")
	})
}

type closing struct{ closed int }

func (c *closing) Read([]byte) (int, error) { return 0, io.EOF }
func (c *closing) Close() error             { c.closed++; return nil }

func TestAPIHandlerSeesAServersRequest(t *testing.T) {
	api := &comitytest.API{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.RequestURI != "/a?b=c" || r.Host != "x.example" || r.RemoteAddr == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Header().Set("X", "late")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s, %d", body, len(r.Header))
	})}
	req := &http.Request{Method: "POST", Body: io.NopCloser(strings.NewReader("hello"))}
	req.URL = httptest.NewRequest("GET", "http://x.example/a?b=c", nil).URL
	res, err := api.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, 201, res.StatusCode)
	got, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "hello, 0", string(got))
	require.Equal(t, []comitytest.Hit{{At: api.Hits()[0].At, Method: "POST", URL: "http://x.example/a?b=c", Status: 201}}, api.Hits())
}

func TestAPIBehindAServer(t *testing.T) {
	api := &comitytest.API{
		Limits:  []comity.Limit{{N: 2, Per: time.Hour, Algorithm: comity.SlidingLog}},
		Dialect: comitytest.RetryAfterOnly,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "served") }),
	}
	srv := httptest.NewServer(api)
	defer srv.Close()
	for i, want := range []int{200, 200, 429} {
		res, err := srv.Client().Get(srv.URL + "/a")
		require.NoError(t, err)
		require.Equal(t, want, res.StatusCode, i)
		require.NoError(t, res.Body.Close())
		if want == 429 {
			require.Equal(t, "3600", res.Header.Get("Retry-After"))
		}
	}
	api.Fail(1, 0, nil)
	_, err := srv.Client().Post(srv.URL, "", strings.NewReader("x"))
	require.ErrorIs(t, err, io.EOF)
	hits := api.Hits()
	require.Len(t, hits, 4)
	require.Equal(t, srv.URL+"/a", hits[0].URL)
	require.Equal(t, "2/h", hits[2].Over)
}

func TestAPINamesAnInvalidLimit(t *testing.T) {
	api := &comitytest.API{Limits: []comity.Limit{comity.PerSecond(1), {N: 1}}}
	_, err := api.RoundTrip(httptest.NewRequest("GET", "http://x.example/", nil))
	require.EqualError(t, err, "comitytest: Limits[1]: comity: limit 1/0s: Per is 0s, must be above 0")
	rec := httptest.NewRecorder()
	api.ServeHTTP(rec, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, 500, rec.Code)
}

func TestAPITakesALimiterOfOnesOwn(t *testing.T) {
	api := &comitytest.API{Dialect: plain, Limits: []comity.Limit{{
		Name: "own", New: func(_, key string) comity.Limiter { return &three{} },
	}}}
	require.Equal(t, 3, count(send(t, api, 5, "http://x.example/"), 200))
}

// three allows three units, ever.
type three struct{ spent int }

func (l *three) Take(_ time.Time, n int) (time.Duration, error) {
	if l.spent+n > 3 {
		return comity.Forever, nil
	}
	l.spent += n
	return 0, nil
}

func (l *three) Adjust(_ time.Time, n int) { l.spent += n }
