package interop

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/comity/comity"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// A spelling says by hand what the fields of one server mean, from the bytes that
// it sent: patterns with one group each, and how the reset counts. It shares no
// code with what is tested.
type spelling struct {
	name                     string // of the quota
	limit, remaining, window pattern
	reset, retryAfter        pattern
	absolute                 func(value string) (time.Time, error) // nil if resets count from now
	dated                    bool                                  // Retry-After counts as resets do
}

type pattern struct{ field, text string }

func (p pattern) in(h http.Header) (string, bool) {
	if p.field == "" || h.Get(p.field) == "" {
		return "", false
	}
	m := regexp.MustCompile(p.text).FindStringSubmatch(h.Get(p.field))
	if m == nil {
		return "no match of " + p.text + " in " + h.Get(p.field), true
	}
	return m[1], true
}

func epoch(value string) (time.Time, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	return time.Unix(n, 0), err
}

func rfc1123(value string) (time.Time, error) { return time.Parse(time.RFC1123, value) }

var legacy = spelling{
	limit: pattern{"X-RateLimit-Limit", `^(\d+)$`}, remaining: pattern{"X-RateLimit-Remaining", `^(\d+)$`},
	reset: pattern{"X-RateLimit-Reset", `^(\d+)$`}, retryAfter: pattern{"Retry-After", `^(\d+)$`}, absolute: epoch,
}

// What limiters in use send is read exactly: every answer until they refuse, and
// the refusal.
func TestEmittersAreReadExactly(t *testing.T) {
	delta, dated := legacy, legacy
	delta.absolute = nil
	dated.reset.text, dated.retryAfter.text, dated.absolute, dated.dated = `^(.*)$`, `^(.*)$`, rfc1123, true

	t.Run("httprate", func(t *testing.T) { checkEmitter(t, startHTTPRate(t), legacy) })
	t.Run("ulule", func(t *testing.T) { checkEmitter(t, startUlule(t), legacy) })
	t.Run("go-limiter", func(t *testing.T) { checkEmitter(t, startGoLimiter(t), dated) })
	t.Run("throttled", func(t *testing.T) { checkEmitter(t, startThrottled(t), delta) })
	t.Run("express", func(t *testing.T) {
		urls := startExpress(t)
		retryAfter := pattern{"Retry-After", `^(\d+)$`}
		checkEmitter(t, urls["legacy"], legacy)
		checkEmitter(t, urls["draft-6"], spelling{
			limit: pattern{"RateLimit-Limit", `^(\d+)$`}, remaining: pattern{"RateLimit-Remaining", `^(\d+)$`},
			window: pattern{"RateLimit-Policy", `^20;w=(\d+)$`}, reset: pattern{"RateLimit-Reset", `^(\d+)$`}, retryAfter: retryAfter,
		})
		checkEmitter(t, urls["draft-7"], spelling{
			limit: pattern{"RateLimit", `limit=(\d+)`}, remaining: pattern{"RateLimit", `remaining=(\d+)`},
			window: pattern{"RateLimit-Policy", `^20;w=(\d+)$`}, reset: pattern{"RateLimit", `reset=(\d+)`}, retryAfter: retryAfter,
		})
		checkEmitter(t, urls["draft-8"], spelling{
			name:  "20-in-2sec",
			limit: pattern{"RateLimit-Policy", `; *q=(\d+)`}, remaining: pattern{"RateLimit", `; *r=(\d+)`},
			window: pattern{"RateLimit-Policy", `; *w=(\d+)`}, reset: pattern{"RateLimit", `; *t=(\d+)`}, retryAfter: retryAfter,
		})
	})
}

// checkEmitter calls url until it has refused and compares each answer.
func checkEmitter(t *testing.T, url string, s spelling) {
	t.Helper()
	for n := 1; n <= 4*burst; n++ {
		res, err := http.Get(url)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, s.reads(t, res.Header), comity.ParseAdvice(res.Header, time.Now()), "call %d: %v", n, res.Header)
		if res.StatusCode == http.StatusTooManyRequests {
			require.GreaterOrEqual(t, n, burst)
			return
		}
	}
	t.Fatalf("%s never refused", url)
}

// reads is what h means.
func (s spelling) reads(t *testing.T, h http.Header) comity.Advice {
	date, err := http.ParseTime(h.Get("Date"))
	require.NoError(t, err)
	wait := func(p pattern, absolute func(string) (time.Time, error)) time.Duration {
		value, ok := p.in(h)
		if !ok {
			return -1
		}
		if absolute == nil {
			return time.Duration(number(t, value)) * time.Second
		}
		at, err := absolute(value)
		require.NoError(t, err)
		return max(at.Sub(date), 0)
	}
	count := func(p pattern) int64 {
		value, ok := p.in(h)
		if !ok {
			return -1
		}
		return number(t, value)
	}
	after := s.absolute
	if !s.dated {
		after = nil
	}
	q := comity.Quota{
		Name: s.name, Unit: "requests", Limit: count(s.limit), Remaining: count(s.remaining), Window: wait(s.window, nil),
		Reset: wait(s.reset, s.absolute),
	}
	return comity.Advice{RetryAfter: wait(s.retryAfter, after), Quotas: []comity.Quota{q}}
}

func number(t *testing.T, value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	require.NoError(t, err)
	return n
}

func serve(t *testing.T, wrap func(http.Handler) http.Handler) string {
	srv := httptest.NewServer(wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })))
	t.Cleanup(srv.Close)
	return srv.URL
}

// startUlule serves ulule/limiter: a fixed window of 20 per 2 s.
func startUlule(t *testing.T) string {
	l := limiter.New(memory.NewStore(), limiter.Rate{Period: 2 * time.Second, Limit: burst})
	return serve(t, stdlib.NewMiddleware(l).Handler)
}

// startGoLimiter serves sethvargo/go-limiter: a bucket of 20 refilled each 2 s.
func startGoLimiter(t *testing.T) string {
	store, err := memorystore.New(&memorystore.Config{Tokens: burst, Interval: 2 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { store.Close(t.Context()) })
	m, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	require.NoError(t, err)
	return serve(t, m.Handle)
}

// startThrottled serves throttled: GCRA, 10 per s with a burst of 20.
func startThrottled(t *testing.T) string {
	store, err := memstore.NewCtx(16)
	require.NoError(t, err)
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(10), MaxBurst: burst - 1})
	require.NoError(t, err)
	m := throttled.HTTPRateLimiterCtx{RateLimiter: l}
	return serve(t, m.RateLimit)
}
