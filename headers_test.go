package comity_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comity/comity"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestRetryAfterTellsWhoAskedForHowLong(t *testing.T) {
	throttled := &comity.ThrottledError{Reason: comity.ReasonLimit, RetryAfter: 7 * time.Second}
	for _, c := range []struct {
		name   string
		err    error
		status int
		header http.Header
		want   time.Duration
		ok     bool
	}{
		{name: "nothing"},
		{name: "refused by us", err: fmt.Errorf("get: %w", throttled), want: 7 * time.Second, ok: true},
		{name: "refused by us, wait not known", err: &comity.ThrottledError{}},
		{name: "other error", err: http.ErrHandlerTimeout},
		{name: "delay", status: 429, header: header("Retry-After", "30"), want: 30 * time.Second, ok: true},
		{name: "delay on a success", status: 200, header: header("Retry-After", "5"), want: 5 * time.Second, ok: true},
		{name: "zero on a refusal", status: 429, header: header("Retry-After", "0"), ok: true},
		{name: "zero on a success", status: 200, header: header("Retry-After", "0")},
		{
			name: "quota used up", status: 403, want: 90 * time.Second, ok: true,
			header: header("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "90"),
		},
		{
			name: "quota used up by an accepted call", status: 200,
			header: header("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "90"),
		},
		{
			name: "two quotas, one used up", status: 429, want: 1200 * time.Millisecond, ok: true,
			header: header("X-RateLimit-Remaining-Requests", "45", "X-RateLimit-Reset-Requests", "0s",
				"X-RateLimit-Remaining-Tokens", "0", "X-RateLimit-Reset-Tokens", "1.2s"),
		},
		{
			name: "zero delay and a quota used up", status: 429, want: 3 * time.Second, ok: true,
			header: header("Retry-After", "0", "RateLimit-Remaining", "0", "RateLimit-Reset", "3"),
		},
		{name: "only a reset", status: 429, header: header("X-RateLimit-Reset", "15"), want: 15 * time.Second, ok: true},
		{name: "room left", status: 429, header: header("X-RateLimit-Remaining", "9", "X-RateLimit-Reset", "15")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var res *http.Response
			if c.status != 0 {
				res = &http.Response{StatusCode: c.status, Header: c.header}
			}
			d, ok := comity.RetryAfter(res, c.err)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.want, d)
		})
	}
}

// In a bubble the clock begins in 2000 and nothing sends a Date: epochs count
// from that clock.
func TestEpochCountsFromAFakeClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := header("X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "0",
			"X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Minute).Unix()))
		require.Equal(t, time.Minute, comity.ParseAdvice(h, time.Now()).Quotas[0].Reset)
	})
}

func TestStoredAnswerSaysNothingOfQuotas(t *testing.T) {
	for _, c := range []struct {
		name   string
		header http.Header
		want   time.Duration
		quotas int
	}{
		{"delta", header("Age", "10", "Retry-After", "30", "X-RateLimit-Remaining", "x"), 20 * time.Second, 0},
		{"delta used up", header("Age", "40", "Retry-After", "30", "RateLimit", `"a";r=1;t=2`), 0, 0},
		{
			"date", header("Age", "10", "Date", "Mon, 01 Jun 2026 11:59:50 GMT", "Retry-After", "Mon, 01 Jun 2026 12:00:30 GMT"),
			30 * time.Second, 0,
		},
		{"fresh", header("Age", "0", "Retry-After", "30", "X-RateLimit-Remaining", "3"), 30 * time.Second, 1},
		{"no age", header("Age", "old", "Retry-After", "30", "X-RateLimit-Remaining", "3"), 30 * time.Second, 1},
		{"older than a day", header("Age", "86401", "Retry-After", "30", "X-RateLimit-Remaining", "3"), 30 * time.Second, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := comity.ParseAdvice(c.header, noon)
			require.Equal(t, c.want, a.RetryAfter)
			require.Len(t, a.Quotas, c.quotas)
			require.Empty(t, a.Malformed)
		})
	}
}

func TestHostileHeaderIsCutOff(t *testing.T) {
	h := http.Header{}
	for i := range 5000 {
		h.Set(fmt.Sprintf("X-RateLimit-Limit-N%04d", i), "10")
	}
	a := comity.ParseAdvice(h, noon)
	require.Len(t, a.Quotas, 16)
	require.Equal(t, "n0000", a.Quotas[0].Name)
	require.NotEmpty(t, a.Malformed)
	for range 10 {
		require.Equal(t, a, comity.ParseAdvice(h, noon), "a map has no order, its reading has one")
	}

	long := `"a";r=1;t=1`
	for i := range 1000 {
		long += fmt.Sprintf(`, "n%d";r=1;t=1`, i)
	}
	a = comity.ParseAdvice(header("RateLimit", long), noon)
	require.Len(t, a.Quotas, 16)
	require.Equal(t, []string{"Ratelimit"}, a.Malformed)

	// What stands before the cut counts.
	for _, c := range []struct{ key, first, more string }{
		{"X-Sentry-Rate-Limits", "60:error", "," + strings.Repeat("x", 5000) + ":1"},
		{"Sforce-Limit-Info", "a=1/2", ";" + strings.Repeat("x", 5000) + "=1/2"},
		{"X-Ratelimit-Limit", "100", strings.Repeat(",                ", 400) + "7"},
		{"Ratelimit-Policy", "100;w=60", "," + strings.Repeat("x", 5000)},
		{"X-Ms-Ratelimit-Remaining-Resource", "a;1", strings.Repeat(",b;2", 16)},
	} {
		a = comity.ParseAdvice(http.Header{c.key: {c.first + c.more}}, noon)
		require.NotEmpty(t, a.Quotas, c.key)
		require.Equal(t, comity.ParseAdvice(http.Header{c.key: {c.first}}, noon).Quotas[0], a.Quotas[0], c.key)
		require.Equal(t, []string{c.key}, a.Malformed)
	}

	// So do eight lines, and no ninth.
	h = http.Header{"Retry-After": {"1", "2", "3", "4", "5", "6", "7", "8", "9"}}
	a = comity.ParseAdvice(h, noon)
	require.Equal(t, 8*time.Second, a.RetryAfter)
	require.Equal(t, []string{"Retry-After"}, a.Malformed)
}

func TestNoFieldIsCheap(t *testing.T) {
	h := plainHeader()
	require.Zero(t, testing.AllocsPerRun(100, func() { comity.ParseAdvice(h, noon) }))
}

// plainHeader is a usual response of 16 fields without a limit.
func plainHeader() http.Header {
	return header("Date", "Mon, 01 Jun 2026 12:00:00 GMT", "Content-Type", "application/json", "Content-Length", "512",
		"Cache-Control", "no-cache", "Etag", `W/"1"`, "Server", "nginx", "Set-Cookie", "a=b", "Vary", "Accept-Encoding",
		"Strict-Transport-Security", "max-age=31536000", "X-Content-Type-Options", "nosniff", "X-Frame-Options", "DENY",
		"X-Request-Id", "8f14e45f", "Access-Control-Allow-Origin", "*", "Via", "1.1 varnish", "Last-Modified",
		"Mon, 01 Jun 2026 11:00:00 GMT", "Referrer-Policy", "no-referrer")
}

func quota(name string, limit, remaining int64, window, reset time.Duration) comity.Quota {
	return comity.Quota{Name: name, Unit: "requests", Limit: limit, Remaining: remaining, Window: window, Reset: reset}
}

// What a dialect writes is read back as less or the same, and never as sooner.
func TestWhatIsWrittenIsReadBack(t *testing.T) {
	minute := quota("", 100, 3, time.Minute, 1500*time.Millisecond)
	hour := quota("", 5000, 4000, time.Hour, time.Hour)
	named := quota("search", 30, 0, -1, 12*time.Second)
	tokens := quota("tokens", 90000, 12, -1, 7*time.Second)
	tokens.Unit = "tokens"
	bytes := quota("transfer", 1<<20, 4096, time.Second, time.Second)
	bytes.Unit = "content-bytes"
	for _, c := range []struct {
		name    string
		dialect *comity.Dialect
		in      []comity.Quota
		want    []comity.Quota
		header  http.Header
	}{
		{
			"ietf", comity.IETF, []comity.Quota{named, tokens, bytes}, []comity.Quota{named, tokens, bytes},
			header("Ratelimit-Policy", `"search";q=30, "tokens";q=90000, "transfer";q=1048576;qu="content-bytes";w=1`,
				"Ratelimit", `"search";r=0;t=12, "tokens";r=12;t=7, "transfer";r=4096;t=1`),
		},
		{
			"fields", comity.IETFFields, []comity.Quota{hour, minute},
			[]comity.Quota{quota("", 100, 3, time.Minute, 2*time.Second), quota("", 5000, -1, time.Hour, -1)},
			header("Ratelimit-Limit", "100", "Ratelimit-Remaining", "3", "Ratelimit-Reset", "2",
				"Ratelimit-Policy", "5000;w=3600, 100;w=60"),
		},
		{
			"x", comity.XRateLimit, []comity.Quota{minute, named, tokens},
			[]comity.Quota{quota("", 100, 3, -1, 2*time.Second), named, tokens},
			header("X-Ratelimit-Limit", "100", "X-Ratelimit-Remaining", "3", "X-Ratelimit-Reset", "1780315202",
				"X-Ratelimit-Limit-Search", "30", "X-Ratelimit-Remaining-Search", "0", "X-Ratelimit-Reset-Search", "1780315212",
				"X-Ratelimit-Limit-Tokens", "90000", "X-Ratelimit-Remaining-Tokens", "12", "X-Ratelimit-Reset-Tokens", "1780315207"),
		},
		{
			"x, one quota", comity.XRateLimit, []comity.Quota{named}, []comity.Quota{named},
			header("X-Ratelimit-Limit", "30", "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1780315212", "X-Ratelimit-Name", "search"),
		},
		{
			"github", comity.GitHub, []comity.Quota{named}, []comity.Quota{named},
			header("X-Ratelimit-Limit", "30", "X-Ratelimit-Remaining", "0", "X-Ratelimit-Used", "30", "X-Ratelimit-Reset",
				"1780315212", "X-Ratelimit-Resource", "search"),
		},
		{
			"kucoin", comity.KuCoin, []comity.Quota{minute}, []comity.Quota{quota("", 100, 3, -1, 1500*time.Millisecond)},
			header("Gw-Ratelimit-Limit", "100", "Gw-Ratelimit-Remaining", "3", "Gw-Ratelimit-Reset", "1500"),
		},
		{
			"delta-ms", comity.DeltaMillis, []comity.Quota{minute}, []comity.Quota{quota("", 100, 3, -1, 1500*time.Millisecond)},
			header("X-Rate-Limit-Limit", "100", "X-Rate-Limit-Remaining", "3", "X-Rate-Limit-Reset", "1500"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := comity.Advice{RetryAfter: 1200 * time.Millisecond, Quotas: c.in, Retry: -1}
			h := http.Header{}
			c.dialect.Write(h, noon, a)
			b := c.dialect.Parse(h, noon)
			c.header.Set("Retry-After", "2")
			c.header.Set("X-Should-Retry", "false")
			require.Equal(t, c.header, h)
			require.Equal(t, comity.Advice{RetryAfter: 2 * time.Second, Quotas: c.want, Retry: -1}, b)
		})
	}
}

func TestGitHubQuotaIsThatOfTheRoute(t *testing.T) {
	for _, c := range []struct{ method, url, want string }{
		{"GET", "https://api.github.com/repos/golang/go", "core"},
		{"GET", "https://api.github.com/search/issues?q=x", "search"},
		{"GET", "https://api.github.com/search/code?q=x", "code_search"},
		{"POST", "https://api.github.com/graphql", "graphql"},
		{"GET", "https://api.github.com/rate_limit", ""},
		{"POST", "https://api.github.com/app-manifests/abc/conversions", "integration_manifest"},
		{"POST", "https://api.github.com/repos/a/b/code-scanning/sarifs", "code_scanning_upload"},
		{"GET", "https://api.github.com/repos/a/b/code-scanning/sarifs", "core"},
		{"GET", "https://api.github.com/repos/a/b/dependency-graph/sbom", "dependency_sbom"},
		{"POST", "https://api.github.com/orgs/a/actions/runners/registration-token", "actions_runner_registration"},
		{"GET", "https://api.github.com/scim/v2/organizations/a/Users", "scim"},
		{"GET", "https://ghe.example/api/v3/search/users", "search"},
		{"POST", "https://ghe.example/api/graphql", "graphql"},
	} {
		req, err := http.NewRequest(c.method, c.url, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, comity.GitHub.Quota(req), "%s %s", c.method, c.url)
	}
}

func TestLegacyDiscordTellsItsProxyApart(t *testing.T) {
	parse := comity.LegacyDiscord.Parse
	require.Equal(t, 6457*time.Millisecond, parse(header("Via", "1.1 google", "Retry-After", "6457"), noon).RetryAfter)
	require.Equal(t, 6457*time.Millisecond, parse(header("X-RateLimit-Limit", "5", "Retry-After", "6457"), noon).RetryAfter)
	require.Equal(t, 60*time.Second, parse(header("Cf-Ray", "8c00", "Retry-After", "60"), noon).RetryAfter)
}

func TestDialectReadsItsOwnFieldsOnly(t *testing.T) {
	h := header("RateLimit", `"default";r=1;t=2`, "RateLimit-Remaining", "3", "X-RateLimit-Remaining", "5", "Retry-After", "7")
	for _, c := range []struct {
		dialect   *comity.Dialect
		remaining []int64
	}{
		{comity.IETF, []int64{1}}, {comity.IETFFields, []int64{3}}, {comity.XRateLimit, []int64{5}}, {comity.GitHub, []int64{5}},
		{comity.Auto, []int64{1, 3}},
	} {
		a := c.dialect.Parse(h, noon)
		var got []int64
		for _, q := range a.Quotas {
			got = append(got, q.Remaining)
		}
		require.Equal(t, c.remaining, got, c.dialect.Name)
		require.Equal(t, 7*time.Second, a.RetryAfter)
	}
}

func TestDialectsHaveNames(t *testing.T) {
	var names []string
	for _, d := range slices.Concat(dialects, providers) {
		require.NotContains(t, names, d.Name)
		names = append(names, d.Name)
	}
	for _, want := range []string{"strava", "kucoin", "delta-ms", "discord-legacy"} {
		require.True(t, slices.Contains(names, want), want)
	}
}
