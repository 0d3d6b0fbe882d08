// Package benchmarks does the same work through comity and through its peers.
package benchmarks

import (
	"log"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/time/rate"

	"github.com/comity/comity"
)

// The quota that every peer that can be told one is told.
const (
	allowed = 20
	window  = 2 * time.Second
)

// A peer is one way to call a service that limits its callers.
type peer struct {
	name string
	told bool // it has to be told the limit
	wrap func(base http.RoundTripper) http.RoundTripper
}

// Retries are unlimited as far as a peer allows, so that it loses no call that it
// could have finished by asking again.
const tries = 1000

var peers = []peer{
	{"bare", false, func(base http.RoundTripper) http.RoundTripper { return base }},
	{"x/time/rate", true, func(base http.RoundTripper) http.RoundTripper {
		return waiting{base, rate.NewLimiter(rate.Limit(allowed/window.Seconds()), allowed)}
	}},
	{"go-retryablehttp", false, func(base http.RoundTripper) http.RoundTripper {
		c := retryablehttp.NewClient()
		c.HTTPClient = &http.Client{Transport: base}
		c.Logger = nil
		c.RetryMax = tries
		return &retryablehttp.RoundTripper{Client: c}
	}},
	{"failsafehttp", false, func(base http.RoundTripper) http.RoundTripper {
		retry := failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(tries).WithBackoff(100*time.Millisecond, 2*time.Second).Build()
		return failsafehttp.NewRoundTripper(base, retry)
	}},
	{"comity", false, func(base http.RoundTripper) http.RoundTripper {
		return mustNew(base, comity.Config{})
	}},
	{"comity, told the limit", true, func(base http.RoundTripper) http.RoundTripper {
		return mustNew(base, comity.Config{Policies: map[string]comity.Policy{"": {
			Limits: []comity.Limit{{N: allowed, Per: window, Algorithm: comity.SlidingLog}},
		}}})
	}},
}

func mustNew(base http.RoundTripper, cfg comity.Config) *comity.Transport {
	t, err := comity.New(base, cfg)
	if err != nil {
		log.Fatal(err)
	}
	return t
}

// waiting is the transport that is written by hand with x/time/rate.
type waiting struct {
	base http.RoundTripper
	l    *rate.Limiter
}

func (w waiting) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := w.l.Wait(req.Context()); err != nil {
		return nil, err
	}
	return w.base.RoundTrip(req)
}
