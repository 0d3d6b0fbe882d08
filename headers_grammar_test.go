package comity_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/comity/comity"
	"github.com/stretchr/testify/require"
)

// Names are read by a grammar, not from a list: what these providers document
// follows from it.
func TestGrammarReadsProvidersThatAreNotInTheCorpus(t *testing.T) {
	tokens := func(q comity.Quota) comity.Quota {
		q.Unit = "tokens"
		return q
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		name  string
		pairs []string
		want  []comity.Quota
	}{
		{
			"HubSpot", []string{
				"X-HubSpot-RateLimit-Daily", "250000", "X-HubSpot-RateLimit-Daily-Remaining", "249999",
				"X-HubSpot-RateLimit-Secondly", "19", "X-HubSpot-RateLimit-Secondly-Remaining", "18",
				"X-HubSpot-RateLimit-Interval-Milliseconds", "10000", "X-HubSpot-RateLimit-Max", "190", "X-HubSpot-RateLimit-Remaining", "189",
			},
			[]comity.Quota{
				quota("", 190, 189, 10*time.Second, -1), quota("daily", 250000, 249999, day, -1), quota("secondly", 19, 18, time.Second, -1),
			},
		},
		{
			"Trello", []string{
				"X-Rate-Limit-Api-Token-Interval-Ms", "10000", "X-Rate-Limit-Api-Token-Max", "100", "X-Rate-Limit-Api-Token-Remaining", "99",
				"X-Rate-Limit-Api-Key-Interval-Ms", "10000", "X-Rate-Limit-Api-Key-Max", "300", "X-Rate-Limit-Api-Key-Remaining", "299",
			},
			[]comity.Quota{quota("api-key", 300, 299, 10*time.Second, -1), quota("api-token", 100, 99, 10*time.Second, -1)},
		},
		{
			"Contentful", []string{
				"X-Contentful-RateLimit-Hour-Limit", "36000", "X-Contentful-RateLimit-Hour-Remaining", "35883",
				"X-Contentful-RateLimit-Second-Limit", "10", "X-Contentful-RateLimit-Second-Remaining", "0", "X-Contentful-RateLimit-Reset", "1",
			},
			[]comity.Quota{quota("", -1, -1, -1, time.Second), quota("hour", 36000, 35883, time.Hour, -1), quota("second", 10, 0, time.Second, -1)},
		},
		{
			"Imgur", []string{
				"X-RateLimit-UserLimit", "500", "X-RateLimit-UserRemaining", "499", "X-RateLimit-UserReset", "1780318800",
				"X-RateLimit-ClientLimit", "12500", "X-RateLimit-ClientRemaining", "12499",
			},
			[]comity.Quota{quota("client", 12500, 12499, -1, -1), quota("user", 500, 499, -1, time.Hour)},
		},
		{
			"hapi-rate-limit", []string{"X-RateLimit-PathLimit", "50", "X-RateLimit-PathRemaining", "49", "X-RateLimit-PathReset", "1780315260000"},
			[]comity.Quota{quota("path", 50, 49, -1, time.Minute)},
		},
		{
			"SambaNova", []string{
				"X-RateLimit-Limit-Requests", "120", "X-RateLimit-Limit-Requests-Day", "12000", "X-RateLimit-Remaining-Requests-Day", "11999",
				"X-RateLimit-Reset-Requests-Day", "4h17m",
			},
			[]comity.Quota{quota("requests", 120, -1, -1, -1), quota("requests-day", 12000, 11999, day, 4*time.Hour+17*time.Minute)},
		},
		{
			"RapidAPI", []string{
				"X-RateLimit-Requests-Limit", "500", "X-RateLimit-Requests-Remaining", "497", "X-RateLimit-Requests-Reset", "1046073",
				"X-RateLimit-Rapid-Free-Plans-Hard-Limit-Limit", "500000", "X-RateLimit-Rapid-Free-Plans-Hard-Limit-Remaining", "499997",
			},
			[]comity.Quota{
				quota("rapid-free-plans-hard-limit", 500000, 499997, -1, -1), quota("requests", 500, 497, -1, 1046073*time.Second),
			},
		},
		{
			"Fireworks", []string{"X-RateLimit-Limit-Tokens-Prompt", "60000", "X-RateLimit-Limit-Tokens-Generated", "6000"},
			[]comity.Quota{tokens(quota("tokens-generated", 6000, -1, -1, -1)), tokens(quota("tokens-prompt", 60000, -1, -1, -1))},
		},
		{
			"Nexus Mods", []string{
				"X-RL-Hourly-Limit", "100", "X-RL-Hourly-Remaining", "99", "X-RL-Hourly-Reset", "2026-06-01T13:00:00+00:00",
				"X-RL-Daily-Limit", "2500", "X-RL-Daily-Remaining", "2499", "X-RL-Daily-Reset", "2026-06-02 00:00:00 +0000",
			},
			[]comity.Quota{quota("daily", 2500, 2499, day, 12*time.Hour), quota("hourly", 100, 99, time.Hour, time.Hour)},
		},
		{
			"AspNetCoreRateLimit", []string{"X-Rate-Limit-Limit", "1m", "X-Rate-Limit-Remaining", "59", "X-Rate-Limit-Reset", "2026-06-01T12:00:30.1234567Z"},
			[]comity.Quota{quota("", -1, 59, time.Minute, 30124*time.Millisecond)},
		},
		{
			"Azure DevOps", []string{
				"X-RateLimit-Resource", "DBCPU", "X-RateLimit-Delay", "1.5", "X-RateLimit-Limit", "200", "X-RateLimit-Remaining", "0",
				"X-RateLimit-Reset", "1780315260",
			},
			[]comity.Quota{quota("DBCPU", 200, 0, -1, time.Minute)},
		},
		{
			"Hugging Face", []string{"RateLimit", `"api";r=489;t=189`, "RateLimit-Policy", `"fixed window";"api";q=500;w=300`},
			[]comity.Quota{quota("api", 500, 489, 5*time.Minute, 189*time.Second)},
		},
		{
			"express draft 8", []string{"RateLimit", `"20-in-2sec"; r=19; t=2`, "RateLimit-Policy", `"20-in-2sec"; q=20; w=2; pk=:MTI3LjAuMC4x:`},
			[]comity.Quota{quota("20-in-2sec", 20, 19, 2*time.Second, 2*time.Second)},
		},
		{
			"Freshdesk", []string{"X-RateLimit-Total", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Used-CurrentRequest", "1"},
			[]comity.Quota{quota("", 5000, 4999, -1, -1)},
		},
		{
			"WHOOP", []string{"X-RateLimit-Limit", "100, 100;window=60, 10000;window=86400", "X-RateLimit-Remaining", "98", "X-RateLimit-Reset", "3"},
			[]comity.Quota{quota("", 100, 98, time.Minute, 3*time.Second), quota("", 10000, -1, day, -1)},
		},
		{
			"Zendesk", []string{
				"X-Rate-Limit", "700", "X-Rate-Limit-Remaining", "699", "RateLimit-Limit", "700", "RateLimit-Remaining", "699", "RateLimit-Reset", "41",
			},
			[]comity.Quota{quota("", 700, 699, -1, 41*time.Second)},
		},
		{
			"Crossref", []string{"X-Rate-Limit-Limit", "50", "X-Rate-Limit-Interval", "1s", "X-Concurrency-Limit", "5"},
			[]comity.Quota{quota("", 50, -1, time.Second, -1)},
		},
		{
			"Confluence Data Center", []string{
				"X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "9", "X-RateLimit-FillRate", "2", "X-RateLimit-Interval-Seconds", "1",
			},
			[]comity.Quota{quota("", 10, 9, 5*time.Second, -1)},
		},
		{
			"Akamai", []string{"X-RateLimit-Limit", "50", "X-RateLimit-Remaining", "0", "X-RateLimit-Next", "2026-06-01T12:00:00.750Z"},
			[]comity.Quota{quota("", 50, 0, -1, 750*time.Millisecond)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, comity.Advice{RetryAfter: -1, Quotas: c.want}, comity.ParseAdvice(header(c.pairs...), noon))
		})
	}
}

// Words that look like fields are none, and no fault of the server.
func TestGrammarLeavesOtherNamesAlone(t *testing.T) {
	for _, name := range []string{
		"X-RateLimit-Reason", "X-RateLimit-Scope", "X-RateLimit-Type", "X-RateLimit-Global", "X-RateLimit-NearLimit", "X-RateLimit-Policy",
		"X-RateLimit-Problem", "X-RateLimit-Delay", "X-RateLimit-Source", "X-RateLimit-Status", "X-RateLimit-Rules", "X-RateLimit-Who",
		"X-Figma-Rate-Limit-Type", "X-Envoy-Ratelimited", "X-RateLimits", "X-RateLimit-", "X-RateLimit--", "X-RateLimit-Limit-", "RateLimitLimit",
		"Http_X_RateLimit_Limit", "Access-Control-Expose-Headers", "X-RL", "Rl-Limit", "Beta-RateLimit-Limit", "Gw-Rl-Limit", "Foo-RateLimit-Limit",
		"X-RateLimit", "X-Rate-Limit", "X-Discogs-Ratelimit", "X-RateLimit-Requested-Tokens", "Docker-Ratelimit-Source",
	} {
		h := http.Header{name: {"word"}, "Retry-After": {"1"}}
		require.Equal(t, comity.Advice{RetryAfter: time.Second}, comity.ParseAdvice(h, noon), name)
	}
}

func TestFamiliesAreMerged(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []string
		want  []comity.Quota
	}{
		{
			"equal limits are one quota: less remains, the later reset counts", []string{
				"RateLimit-Limit", "60", "RateLimit-Remaining", "9", "RateLimit-Reset", "5", "RateLimit-Policy", "60;w=60",
				"X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "8", "X-RateLimit-Reset", "1780315207",
			},
			[]comity.Quota{quota("", 60, 8, time.Minute, 7*time.Second)},
		},
		{
			"a family without a limit joins the other", []string{"RateLimit-Reset", "5", "X-Rate-Limit-Limit", "60", "X-Rate-Limit-Remaining", "8"},
			[]comity.Quota{quota("", 60, 8, -1, 5*time.Second)},
		},
		{
			"different limits are different quotas", []string{"RateLimit-Limit", "60", "X-RateLimit-Limit", "70"},
			[]comity.Quota{quota("", 60, -1, -1, -1), quota("", 70, -1, -1, -1)},
		},
		{
			"equal names are one quota, whatever the limits", []string{"X-RateLimit-Limit-User", "60", "X-Rate-Limit-User-Limit", "70", "X-Rate-Limit-User-Remaining", "8"},
			[]comity.Quota{quota("user", 60, 8, -1, -1)},
		},
		{
			"a value names the unnamed quota, not the policies that are left", []string{
				"X-RateLimit-Limit", "10, 10;w=1, 99;w=60", "X-RateLimit-Remaining", "5", "X-RateLimit-Name", "Api",
			},
			[]comity.Quota{quota("Api", 10, 5, time.Second, -1), quota("", 99, -1, time.Minute, -1)},
		},
		{
			"the first field that names one counts", []string{"X-RateLimit-Zone", "z", "X-RateLimit-Bucket", "b", "X-RateLimit-Remaining", "5"},
			[]comity.Quota{quota("b", -1, 5, -1, -1)},
		},
		{
			"the copy of the only item is absorbed", []string{
				"RateLimit", `"a";r=5;t=9`, "RateLimit-Policy", `"a";q=10;w=60`, "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "5",
				"X-RateLimit-Reset", "1780315211",
			},
			[]comity.Quota{quota("a", 10, 5, time.Minute, 11*time.Second)},
		},
		{
			"one that differs is not", []string{
				"RateLimit", `"a";r=5;t=9`, "RateLimit-Policy", `"a";q=10;w=60`, "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "4",
			},
			[]comity.Quota{quota("a", 10, 5, time.Minute, 9*time.Second), quota("", 10, 4, -1, -1)},
		},
		{
			"the only policy gives a limit that is not stated", []string{"RateLimit-Remaining", "5", "RateLimit-Policy", "10;w=60"},
			[]comity.Quota{quota("", 10, 5, time.Minute, -1)},
		},
		{
			"a limit below one is one in a longer window", []string{"X-RateLimit-Limit", "0.4;w=1"},
			[]comity.Quota{quota("", 1, -1, 2500*time.Millisecond, -1)},
		},
		{
			"lists of one length are as many quotas", []string{"X-RateLimit-Limit", "100, 10", "X-RateLimit-Usage", "10, 11"},
			[]comity.Quota{quota("", 100, 90, -1, -1), quota("", 10, 0, -1, -1)},
		},
		{
			"the remaining of two lines is the smaller", []string{"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "90", "X-RateLimit-Remaining", "3"},
			[]comity.Quota{quota("", 100, 3, -1, -1)},
		},
		{
			"a relative reset beats an absolute one", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1780315300", "X-RateLimit-Reset-After", "1.5"},
			[]comity.Quota{quota("", -1, 0, -1, 1500*time.Millisecond)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, comity.Advice{RetryAfter: -1, Quotas: c.want}, comity.ParseAdvice(header(c.pairs...), noon))
		})
	}
}
