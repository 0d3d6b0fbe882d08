package interop

import (
	"net/http"
	"testing"
)

// Without anything between the client and the servers calls must fail, or the
// jobs of this package would show nothing.
func TestBareClientIsRefused(t *testing.T) {
	slow(t)
	urls := startExpress(t)
	urls["httprate"] = startHTTPRate(t)
	urls["nginx 429"], urls["nginx 503"] = startNginx(t)
	for name, url := range urls {
		bare := run(t.Context(), url, 100, jobWorkers, func(base http.RoundTripper) http.RoundTripper { return base })
		t.Logf("%s: %v", name, bare)
		if bare.refused == 0 || bare.failed != bare.refused {
			t.Errorf("%s: want refusals, and each a failed call: %v", name, bare)
		}
	}
}
