package interop

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// What each server really sends, once when it serves and once when it refuses.
// If an update of one changes this, the bars of the jobs may have to change too.
func TestServersSayWhatTheJobsCountOn(t *testing.T) {
	t.Run("httprate", func(t *testing.T) {
		checkHeaders(t, startHTTPRate(t), http.StatusTooManyRequests,
			map[string]string{"X-RateLimit-Limit": `^20$`, "X-RateLimit-Remaining": `^19$`, "X-RateLimit-Reset": `^\d{10}$`},
			map[string]string{"X-RateLimit-Remaining": `^0$`, "Retry-After": `^[012]$`})
	})
	t.Run("express", func(t *testing.T) {
		urls := startExpress(t)
		const refused = http.StatusTooManyRequests
		checkHeaders(t, urls["legacy"], refused,
			map[string]string{"X-RateLimit-Limit": `^20$`, "X-RateLimit-Remaining": `^19$`, "X-RateLimit-Reset": `^\d{10}$`},
			map[string]string{"X-RateLimit-Remaining": `^0$`, "Retry-After": `^[012]$`})
		checkHeaders(t, urls["draft-6"], refused,
			map[string]string{"RateLimit-Policy": `^20;w=2$`, "RateLimit-Limit": `^20$`, "RateLimit-Remaining": `^19$`, "RateLimit-Reset": `^[12]$`},
			map[string]string{"RateLimit-Remaining": `^0$`, "Retry-After": `^[012]$`})
		checkHeaders(t, urls["draft-7"], refused,
			map[string]string{"RateLimit-Policy": `^20;w=2$`, "RateLimit": `^limit=20, remaining=19, reset=[12]$`},
			map[string]string{"RateLimit": `^limit=20, remaining=0, reset=[12]$`, "Retry-After": `^[012]$`})
		checkHeaders(t, urls["draft-8"], refused,
			map[string]string{"RateLimit-Policy": `^"20-in-2sec"; q=20; w=2; pk=:\w+=*:$`, "RateLimit": `^"20-in-2sec"; r=19; t=[12]$`},
			map[string]string{"RateLimit": `^"20-in-2sec"; r=0; t=[12]$`, "Retry-After": `^[012]$`})
	})
	t.Run("nginx", func(t *testing.T) {
		told, bare := startNginx(t)
		silent := map[string]string{"Retry-After": `^$`, "X-RateLimit-Limit": `^$`, "RateLimit": `^$`}
		checkHeaders(t, told, http.StatusTooManyRequests, silent, silent)
		checkHeaders(t, bare, http.StatusServiceUnavailable, silent, silent)
	})
}

// checkHeaders calls url until it refuses and compares the headers of the first
// and the last answer with patterns.
func checkHeaders(t *testing.T, url string, refusal int, served, refused map[string]string) {
	t.Helper()
	res := head(t, url)
	require.Equal(t, http.StatusOK, res.StatusCode)
	compare(t, url, res.Header, served)
	for range 4 * burst {
		if res = head(t, url); res.StatusCode != http.StatusOK {
			require.Equal(t, refusal, res.StatusCode)
			compare(t, url, res.Header, refused)
			return
		}
	}
	t.Fatalf("%s never refused", url)
}

func head(t *testing.T, url string) *http.Response {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	res.Body.Close()
	return res
}

func compare(t *testing.T, url string, h http.Header, want map[string]string) {
	t.Helper()
	for name, pattern := range want {
		if got := h.Get(name); !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s: %s is %q, want %s; all: %v", url, name, got, pattern, h)
		}
	}
}
