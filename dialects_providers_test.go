package comity_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/comity/comity"
	"github.com/stretchr/testify/require"
)

var providers = []*comity.Dialect{
	comity.Shopify, comity.Twitter, comity.Discogs, comity.Groq, comity.Etsy, comity.Xero, comity.Zendesk, comity.Riot,
	comity.PathOfExile, comity.Trakt, comity.Meta,
}

// What the corpus cannot ask of Auto, a provider's own dialect reads.
func TestProvidersReadWhatAutoCannot(t *testing.T) {
	for id, d := range map[string]*comity.Dialect{
		"riot-200": comity.Riot, "riot-200-reordered": comity.Riot, "riot-429": comity.Riot, "poe-200": comity.PathOfExile,
		"etsy-200": comity.Etsy, "etsy-429": comity.Etsy, "trakt-429-json": comity.Trakt,
	} {
		cases := readCorpus(t)
		i := slices.IndexFunc(cases, func(c headerCase) bool { return c.ID == id })
		require.GreaterOrEqual(t, i, 0, id)
		a := d.Parse(cases[i].header(), cases[i].Date)
		for i := range a.Quotas { // the corpus leaves open whether a name carries its window
			a.Quotas[i].Name, _, _ = strings.Cut(a.Quotas[i].Name, " ")
		}
		require.Empty(t, cases[i].differs(a), id)
	}
}

func TestProvidersCompleteWhatFieldsLeaveOut(t *testing.T) {
	percent := func(name string, remaining int64, reset time.Duration) comity.Quota {
		q := quota(name, 100, remaining, -1, reset)
		q.Unit = "percent"
		return q
	}
	tokens := quota("tokens", 18000, 17997, time.Minute, 7660*time.Millisecond)
	tokens.Unit = "tokens"
	for _, c := range []struct {
		dialect *comity.Dialect
		pairs   []string
		want    []comity.Quota
	}{
		{
			comity.Shopify, []string{"X-Shopify-Shop-Api-Call-Limit", "32/40"},
			[]comity.Quota{quota("", 40, 8, 20*time.Second, -1)},
		},
		{
			comity.Twitter, []string{"X-Rate-Limit-Limit", "900", "X-Rate-Limit-Remaining", "1", "X-Rate-Limit-Reset", "1780315260"},
			[]comity.Quota{quota("", 900, 1, 15*time.Minute, time.Minute)},
		},
		{
			comity.Discogs, []string{"X-Discogs-Ratelimit", "60", "X-Discogs-Ratelimit-Remaining", "37"},
			[]comity.Quota{quota("", 60, 37, time.Minute, -1)},
		},
		{
			comity.Groq, []string{
				"X-Ratelimit-Limit-Requests", "14400", "X-Ratelimit-Remaining-Requests", "14370", "X-Ratelimit-Limit-Tokens", "18000",
				"X-Ratelimit-Remaining-Tokens", "17997", "X-Ratelimit-Reset-Tokens", "7.66s",
			},
			[]comity.Quota{quota("requests", 14400, 14370, 24*time.Hour, -1), tokens},
		},
		{
			comity.Xero, []string{"X-MinLimit-Remaining", "59", "X-DayLimit-Remaining", "4000", "X-AppMinLimit-Remaining", "9988"},
			[]comity.Quota{
				quota("minute", -1, 59, time.Minute, -1), quota("day", -1, 4000, 24*time.Hour, -1),
				quota("app-minute", -1, 9988, time.Minute, -1),
			},
		},
		{
			comity.Zendesk, []string{
				"X-Rate-Limit", "700", "X-Rate-Limit-Remaining", "699", "Ratelimit-Limit", "700", "Ratelimit-Remaining", "699",
				"Ratelimit-Reset", "30", "Zendesk-Ratelimit-Tickets-Index", "total=100; remaining=99; resets=56",
			},
			[]comity.Quota{quota("", 700, 699, -1, 30*time.Second), quota("tickets-index", 100, 99, -1, 56*time.Second)},
		},
		{
			comity.PathOfExile, []string{"X-Rate-Limit-Rules", "Ip", "X-Rate-Limit-Ip", "7:15:60,15:90:120", "X-Rate-Limit-Ip-State", "1:15:0,15:90:14"},
			[]comity.Quota{quota("ip 15s", 7, 6, 15*time.Second, -1), quota("ip 90s", 15, 0, 90*time.Second, 14*time.Second)},
		},
		{
			comity.Meta, []string{
				"X-App-Usage", `{"call_count":28,"total_time":25,"total_cputime":25.5}`, "X-Business-Use-Case-Usage",
				`{"1":[{"type":"ads","call_count":100,"total_time":1,"estimated_time_to_regain_access":5}]}`,
			},
			[]comity.Quota{
				percent("call_count", 72, -1), percent("total_time", 75, -1), percent("total_cputime", 74, -1),
				percent("ads call_count", 0, 5*time.Minute), percent("ads total_time", 99, -1),
			},
		},
	} {
		t.Run(c.dialect.Name, func(t *testing.T) {
			a := c.dialect.Parse(header(c.pairs...), noon)
			require.Equal(t, c.want, a.Quotas)
			require.Empty(t, a.Malformed)

			// A stored answer says nothing of quotas.
			stored := c.dialect.Parse(header(append(c.pairs, "Age", "5")...), noon)
			require.Empty(t, stored.Quotas)
			require.Equal(t, time.Duration(-1), stored.RetryAfter)
		})
	}
}

func TestProvidersDropWhatTheyCannotBelieve(t *testing.T) {
	for _, c := range []struct {
		dialect *comity.Dialect
		pairs   []string
	}{
		{comity.Etsy, []string{"X-Limit-Per-Second", "many"}},
		{comity.Xero, []string{"X-Minlimit-Remaining", "-1"}},
		{comity.Zendesk, []string{"Zendesk-Ratelimit-Tickets", "total=x"}},
		{comity.Riot, []string{"X-App-Rate-Limit", "20:0"}},
		{comity.Riot, []string{"X-App-Rate-Limit", "20:1:1:1"}},
		{comity.PathOfExile, []string{"X-Rate-Limit-Ip", "a:b", "X-Rate-Limit-Rules", "Ip"}},
		{comity.Trakt, []string{"X-Ratelimit", "{"}},
		{comity.Meta, []string{"X-App-Usage", "[]"}},
		{comity.Meta, []string{"X-Business-Use-Case-Usage", "{"}},
	} {
		a := c.dialect.Parse(header(c.pairs...), noon)
		require.Equal(t, comity.Advice{RetryAfter: -1, Malformed: []string{c.pairs[0]}}, a, "%s %q", c.dialect.Name, c.pairs)
	}
}

func TestProvidersReadWhatAutoReads(t *testing.T) {
	h := header("Retry-After", "7", "Ratelimit", `"default";r=1;t=2`)
	for _, d := range providers {
		require.Equal(t, comity.ParseAdvice(h, noon), d.Parse(h, noon), d.Name)
		require.Nil(t, d.Write)
	}
}
