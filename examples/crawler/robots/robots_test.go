package robots

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const agent = "comity-example/1"

func TestBrokenDelayCostsNoOtherLine(t *testing.T) {
	for _, delay := range []string{"0,5", "10s", "-5", "soon", ""} {
		r := Parse([]byte("Crawl-delay: "+delay+"\nUser-agent: *\nCrawl-delay: "+delay+"\nDisallow: /private/\n"), agent)
		require.False(t, r.Allowed("/private/1"), delay)
		require.True(t, r.Allowed("/1"), delay)
		require.Zero(t, r.Delay(), delay)
	}
}

func TestDelay(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0.5": 500 * time.Millisecond, "7": 7 * time.Second, "0": 0, "86400": MaxDelay,
		"99999999999999": 0, // no duration
	} {
		require.Equal(t, want, Parse([]byte("User-agent: *\nCrawl-delay: "+text+"\n"), agent).Delay(), text)
	}
	other := Parse([]byte("User-agent: other\nCrawl-delay: 9\nDisallow: /\n\nUser-agent: *\nDisallow: /x\n"), agent)
	require.Zero(t, other.Delay(), "of another agent")
	require.True(t, other.Allowed("/"))
}

func TestStatusSaysWhetherTheFileIsThere(t *testing.T) {
	for code, want := range map[int]struct{ allowed, known bool }{
		200: {true, true}, 404: {true, true}, 403: {true, true},
		429: {false, false}, 500: {false, false}, 503: {false, false}, 302: {false, false},
	} {
		r, known := FromStatus(code, nil, agent)
		require.Equal(t, want.known, known, code)
		require.Equal(t, want.allowed, r.Allowed("/"), code)
	}
}

func TestLargeFileOfWildcardsIsCutAndAskedOnce(t *testing.T) {
	r := Parse([]byte("User-agent: *\n"+strings.Repeat("Disallow: /*a*b*c\n", 40_000)), agent)
	r.Allowed("/nothing")
	start := time.Now()
	for range 100 {
		r.Allowed("/nothing")
	}
	require.Less(t, time.Since(start), time.Second)
}
