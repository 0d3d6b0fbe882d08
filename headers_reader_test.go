package comity

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noonUTC = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func TestReaderReplacesTheAdvice(t *testing.T) {
	var r reader
	h := http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Limit": {"x"}, "Retry-After": {"2"}}
	a := Advice{Retry: 1, Malformed: []string{"Retry-After"}, Quotas: make([]Quota, 3)}
	r.read(nil, h, noonUTC, true, &a)
	require.Equal(t, Advice{
		RetryAfter: 2 * time.Second, Malformed: []string{"X-Ratelimit-Limit"},
		Quotas: []Quota{{Unit: "requests", Limit: -1, Remaining: 3, Window: -1, Reset: -1}},
	}, a)

	r.read(nil, http.Header{}, noonUTC, true, &a)
	require.Equal(t, Advice{RetryAfter: -1, Malformed: []string{}, Quotas: []Quota{}}, a)

	own := &Dialect{Parse: func(http.Header, time.Time) Advice { return Advice{RetryAfter: time.Hour} }}
	r.read(own, h, noonUTC, false, &a)
	require.Equal(t, Advice{RetryAfter: time.Hour}, a)

	r.read(&Dialect{Name: "only a quota"}, h, noonUTC, false, &a)
	require.Equal(t, 2*time.Second, a.RetryAfter)
}

// corpusHeaders are the responses of the corpus.
func corpusHeaders(t testing.TB) (hs []http.Header, now []time.Time) {
	text, err := os.ReadFile("testdata/headers/corpus.json")
	require.NoError(t, err)
	var cases []struct {
		Date    time.Time
		Headers [][2]string
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	for _, c := range cases {
		h := http.Header{}
		for _, f := range c.Headers {
			h.Add(f[0], f[1])
		}
		hs, now = append(hs, h), append(now, c.Date)
	}
	return hs, now
}

// requireRead reads h as an accepted answer and in full, and compares.
func requireRead(t *testing.T, r *reader, h http.Header, now time.Time) {
	t.Helper()
	var a Advice
	r.read(nil, h, now, false, &a)
	want := ParseAdvice(h, now)
	require.Equal(t, want.RetryAfter, a.RetryAfter, "%v", h)
	require.Equal(t, want.Retry, a.Retry, "%v", h)
	require.ElementsMatch(t, want.Quotas, a.Quotas, "%v", h)
	require.Subset(t, want.Malformed, a.Malformed, "%v", h) // a field that decides nothing is not looked at
}

// A server that sends the same fields each time is read by memory as in full:
// now, later, and with another number in any of its fields.
func TestLearnedAnswerIsReadAsInFull(t *testing.T) {
	hs, now := corpusHeaders(t)
	for i, h := range hs {
		var r reader
		for later := range 5 {
			requireRead(t, &r, h, now[i].Add(time.Duration(later)*700*time.Millisecond))
		}
		for key, lines := range h {
			for _, v := range []string{"0", "1", "7.5", "100", "2000", "1780315260", "x", "", "-1", "99999999999999999999", "60s",
				"1, 2", `"default";r=3;t=4`, `"default";r=0`, `"default";r=3;t=-4`, "Mon, 01 Jun 2026 12:01:00 GMT"} {
				h[key] = []string{v}
				requireRead(t, &r, h, now[i])
			}
			h[key] = []string{lines[0], lines[0]}
			requireRead(t, &r, h, now[i])
			h[key] = lines
			requireRead(t, &r, h, now[i])
		}
	}
}

// So is one that answers differently on each route.
func TestAnswersOfManyKindsAreReadAsInFull(t *testing.T) {
	var r reader
	for round := range 40 {
		for i, c := range readerCases {
			if (round+i)%3 == 0 {
				requireRead(t, &r, usual(), noonUTC)
			}
			requireRead(t, &r, c.header, noonUTC)
		}
	}

	// Answers with as many fields as others, at the latest the hundredth time.
	hs, now := corpusHeaders(t)
	for i, h := range hs {
		var a Advice
		want := ParseAdvice(h, now[i])
		r.read(nil, h, now[i], true, &a)
		require.ElementsMatch(t, want.Quotas, a.Quotas)
		for n := 0; ; n++ {
			r.read(nil, h, now[i], false, &a)
			if len(a.Quotas) == len(want.Quotas) && a.RetryAfter == want.RetryAfter {
				break
			}
			require.Less(t, n, 100, "%v", h)
		}
		require.ElementsMatch(t, want.Quotas, a.Quotas)
	}
}

func TestFieldThatBeginsIsNoticed(t *testing.T) {
	quota := Quota{Unit: "requests", Limit: 10, Remaining: 3, Window: -1, Reset: 5 * time.Second}
	begins := func(h http.Header) http.Header {
		h = h.Clone()
		h.Set("RateLimit-Limit", "10")
		h.Set("RateLimit-Remaining", "3")
		h.Set("RateLimit-Reset", "5")
		return h
	}
	for _, before := range []http.Header{usual(), usual("X-RateLimit-Limit", "9", "X-RateLimit-Remaining", "8")} {
		var r reader
		var a Advice
		for range 250 {
			r.read(nil, before, noonUTC, false, &a)
		}
		r.read(nil, begins(before), noonUTC, false, &a)
		require.Contains(t, a.Quotas, quota, "the number of fields has changed")

		// With as many fields as before only a full reading can tell.
		r = reader{}
		for range 250 {
			r.read(nil, before, noonUTC, false, &a)
		}
		after := begins(before)
		for _, key := range []string{"Etag", "Vary", "Server"} {
			delete(after, key)
		}
		noticed := 0
		for noticed < 100 {
			noticed++
			if r.read(nil, after, noonUTC, false, &a); len(a.Quotas) > 0 && a.Quotas[0] == quota {
				break
			}
		}
		require.Contains(t, a.Quotas, quota)
		require.LessOrEqual(t, noticed, 100)

		r.read(nil, after, noonUTC, true, &a)
		require.Contains(t, a.Quotas, quota, "a refusal is read in full")
	}
}

// A change of policies may change the dialect under a reader.
func TestReaderFollowsItsDialect(t *testing.T) {
	var r reader
	var a Advice
	h := usual("X-Rate-Limit-Limit", "10", "X-Rate-Limit-Remaining", "3", "X-Rate-Limit-Reset", "5000")
	for range 3 {
		r.read(nil, h, noonUTC, false, &a)
		require.Equal(t, 5000*time.Second, a.Quotas[0].Reset)
	}
	for range 3 {
		r.read(DeltaMillis, h, noonUTC, false, &a)
		require.Equal(t, 5*time.Second, a.Quotas[0].Reset)
	}
	r.read(Auto, h, noonUTC, false, &a)
	require.Equal(t, 5000*time.Second, a.Quotas[0].Reset)
}

func TestReaderServesManyAtOnce(t *testing.T) {
	var r reader
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var a Advice
			for i := range 300 {
				h := usual("Date", "Mon, 01 Jun 2026 12:00:00 GMT", "X-RateLimit-Limit", fmt.Sprint(g*i%7),
					"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1780315260")
				r.read(nil, h, noonUTC, i%9 == 0, &a)
				if len(a.Quotas) != 1 || a.Quotas[0].Limit != int64(g*i%7) || a.Quotas[0].Reset != time.Minute {
					t.Errorf("%v read as %+v", h, a)
				}
			}
		})
	}
	wg.Wait()
}

// Budget: the usual answer allocates nothing, whatever it reports.
func TestLearnedAnswerAllocatesNothing(t *testing.T) {
	for _, c := range readerCases {
		var r reader
		var a Advice
		for range 3 {
			r.read(nil, c.header, noonUTC, false, &a)
		}
		require.Zero(t, testing.AllocsPerRun(250, func() { r.read(nil, c.header, noonUTC, false, &a) }), c.name)
	}
}

// A reading in full allocates its quotas and nothing else.
func TestFullReadingAllocatesItsQuotas(t *testing.T) {
	if raceEnabled {
		t.Skip("a sync.Pool forgets at random under the race detector")
	}
	for _, pairs := range [][]string{
		{"RateLimit-Policy", `"burst";q=100;w=60, "daily";q=1000;w=86400`, "RateLimit", `"burst";r=50;t=30`},
		{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", "1780318800"},
		{"Retry-After", "Mon, 01 Jun 2026 12:00:40 GMT", "RateLimit-Limit", "10, 10;w=1, 50;w=60", "RateLimit-Remaining", "9"},
	} {
		h := usual(pairs...)
		require.LessOrEqual(t, testing.AllocsPerRun(200, func() { ParseAdvice(h, noonUTC) }), 1.0, "%q", pairs)
	}
}

func TestGlanceMissesNoField(t *testing.T) {
	names := []string{"X-Rl-Max", "x-rl-left", "Gw-Ratelimit-Max"}
	for i := range special {
		names = append(names, special[i].name, http.CanonicalHeaderKey(special[i].name))
	}
	for _, prefix := range append([]string{"", "X-"}, vendors[:]...) {
		for _, family := range []string{"RateLimit", "rate-limit", "rl"} {
			for i := range words {
				names = append(names, prefix+family+"-"+words[i].text, prefix+family+"-a-"+words[i].text)
			}
			names = append(names, prefix+family)
		}
	}
	for _, name := range names {
		if fieldOf(name).kind != noKind {
			require.Equal(t, someField, glance(name), name)
		}
	}
	require.Equal(t, dateField, glance("date"))
	require.Equal(t, ageField, glance("Age"))
}

func TestLongerWordsComeFirst(t *testing.T) {
	for i := range words {
		for j := range i {
			require.False(t, len(words[j].text) < len(words[i].text) && hasPrefixFold(words[i].text, words[j].text+"-"),
				"%s hides %s", words[j].text, words[i].text)
		}
	}
}

// The names that fieldOf knows by heart are what the grammar makes of them.
func TestUsualNamesFollowTheGrammar(t *testing.T) {
	for _, name := range []string{"Retry-After", "Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining",
		"Ratelimit-Reset", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		b := []byte(name)
		b[2] ^= 0x20
		want := fieldOf(string(b))
		require.NotEqual(t, noKind, want.kind)
		want.key = name
		require.Equal(t, want, fieldOf(name))
	}
}
