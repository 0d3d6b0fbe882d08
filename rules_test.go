package comity_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

func TestNewNamesEveryFaultAtOnce(t *testing.T) {
	_, err := comity.New(nil, comity.Config{
		Limits: []comity.Limit{{N: 0, Per: time.Second}},
		Policies: map[string]comity.Policy{
			"https://api.x.example": {},
			"a.example": {
				Spread:   2,
				Delay:    comity.Delay{Factor: math.NaN()},
				Adaptive: comity.Adaptive{K: 0.5},
				Guards:   []comity.Guard{nil},
				Limits:   []comity.Limit{{N: 1, Per: time.Second}, {N: 1}},
				Name:     "a#b",
			},
		},
	})
	require.Error(t, err)
	for _, text := range []string{
		`comity: Policies["https://api.x.example"]: a pattern has no scheme: use "api.x.example"`,
		`comity: Limits[0]: N is 0`,
		`comity: Policies["a.example"].Limits[1]: Per is 0s`,
		`comity: Policies["a.example"].Spread: `,
		`comity: Policies["a.example"].Delay: `,
		`comity: Policies["a.example"].Adaptive.K: `,
		`comity: Policies["a.example"].Guards[0]: `,
		`comity: Policies["a.example"].Name: `,
	} {
		require.ErrorContains(t, err, text)
	}
}

func TestPatternThatCannotMatchIsRefused(t *testing.T) {
	for pattern, text := range map[string]string{
		"https://x.example/v1":   `use "x.example/v1/"`,
		"http://X.example:80/":   `use "x.example"`,
		"https://x.example:8443": `use "x.example:8443"`,
		"API.example":            `use "api.example"`,
		"api.example.":           `use "api.example"`,
		"bücher.example":         `use "xn--bcher-kva.example"`,
		"*.API.example":          `use "*.api.example"`,
		"[0:0:0:0:0:0:0:1]:80":   `use "[::1]:80"`,
		"api.example/v1":         `use "api.example/v1/"`,
		"api.example/":           `use "api.example"`,
		"api.example/a b/":       `a pattern is`,
		"api.example/ü/":         `use "api.example/%C3%BC/"`,
		"*.example/v1/":          `has no path`,
		"api.*.example":          `wildcard`,
		"*":                      `wildcard`,
		"*.":                     `host`,
		"/v1/":                   `host`,
		"api.example?x":          `a pattern is`,
		"me@api.example":         `no user`,
		"*.[::1]":                `address`,
	} {
		_, err := comity.New(nil, comity.Config{Policies: map[string]comity.Policy{pattern: {}}})
		require.ErrorContains(t, err, text, pattern)
		require.ErrorContains(t, err, fmt.Sprintf("Policies[%q]", pattern))
	}
	for _, pattern := range []string{"", "x", "x.example", "x.example:8080", "127.0.0.1:80", "[::1]", "[::1]:8080",
		"*.example", "*.example.com:8443", "x.example/v1/", "x.example:8080/a%20b/c/", "x.example/a%2Fb/"} {
		_, err := comity.New(nil, comity.Config{Policies: map[string]comity.Policy{pattern: {}}})
		require.NoError(t, err, pattern)
	}
}

func TestTheNarrowestPatternMatches(t *testing.T) {
	policies := map[string]comity.Policy{"": {}}
	for _, p := range []string{"api.example.com", "api.example.com/v1/", "api.example.com/v1/users/", "api.example.com:8080",
		"*.example.com", "*.eu.example.com", "paths.example.com/only/", "*.example.org:8443", "esc.example/a%2Fb/"} {
		policies[p] = comity.Policy{}
	}
	rt := transport(t, replies(200), comity.Config{Policies: policies})
	for url, want := range map[string]string{
		"http://api.example.com/":                "api.example.com",
		"https://API.example.com:443/v1":         "api.example.com",
		"http://api.example.com/v1/":             "api.example.com/v1/",
		"http://api.example.com/v1/x":            "api.example.com/v1/",
		"http://api.example.com/v1/users/7":      "api.example.com/v1/users/",
		"http://api.example.com:8080/v1/users/7": "api.example.com:8080",
		"http://www.example.com/":                "*.example.com",
		"http://a.b.example.com/":                "*.example.com",
		"http://x.eu.example.com/":               "*.eu.example.com",
		"http://eu.example.com/":                 "*.example.com",
		"http://example.com/":                    "",
		"http://notexample.com/":                 "",
		"http://paths.example.com/other":         "*.example.com",
		"http://paths.example.com/only/this":     "paths.example.com/only/",
		"https://a.example.org:8443/":            "*.example.org:8443",
		"https://a.example.org/":                 "",
		"http://esc.example/a%2Fb/c":             "esc.example/a%2Fb/",
		"http://esc.example/a/b/c":               "",
	} {
		res, err := rt.RoundTrip(get(t, context.Background(), url))
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
		found := false
		for _, d := range rt.Destinations() {
			found = found || d.Pattern == want && time.Since(d.LastUsed) < time.Minute
		}
		require.True(t, found, url)
		rt = transport(t, replies(200), comity.Config{Policies: policies})
	}
}

func TestPoliciesOfOneNameShareTheirLimits(t *testing.T) {
	shared := func(n int) comity.Policy {
		return comity.Policy{Name: "account", MaxWait: -1, Limits: []comity.Limit{{N: n, Per: time.Hour, Burst: n}}}
	}
	_, err := comity.New(nil, comity.Config{Policies: map[string]comity.Policy{"a.example": shared(2), "b.example": shared(3)}})
	require.ErrorContains(t, err, `Policies["b.example"].Limits[0]: differs from Limits[0] of Policies["a.example"]`)

	rt := transport(t, replies(200), comity.Config{Policies: map[string]comity.Policy{"a.example": shared(2), "b.example": shared(2)}})
	for i, url := range []string{"http://a.example", "http://b.example", "http://a.example", "http://b.example"} {
		_, err := rt.RoundTrip(get(t, context.Background(), url))
		if i < 2 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, comity.ErrThrottled)
	}
	ds := rt.Destinations()
	require.Len(t, ds, 1)
	require.Equal(t, "account", ds[0].Key)
	require.Equal(t, "a.example", ds[0].Pattern)
}

func TestMatchingAllocatesNothing(t *testing.T) {
	base := newStub()
	req := get(t, context.Background(), "https://api.partner.example/v1/things/1")
	count := func(cfg comity.Config) float64 {
		rt := transport(t, base, cfg)
		return testing.AllocsPerRun(1000, func() { _, _ = rt.RoundTrip(req) })
	}
	require.Equal(t, count(comity.Config{}), count(comity.Config{Policies: map[string]comity.Policy{
		"api.partner.example": {}, "api.partner.example/v1/": {}, "*.example": {}}}))
}
