package main

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comity/comity"
)

// newTransport is what a service copies: what is published of each partner, and
// how long its own callers can wait.
func newTransport(base http.RoundTripper) (*comity.Transport, error) {
	return comity.New(base, comity.Config{Policies: map[string]comity.Policy{
		"pay.example": {
			Limits:  []comity.Limit{comity.PerSecond(100), refunds},
			MaxWait: 2 * time.Second, // then fail instead of queueing
		},
		"ship.example": {
			Limits:      []comity.Limit{labels},
			MaxInFlight: 2,
			MaxWaiting:  4,
			MaxWait:     10 * time.Second,
		},
	}})
}

var (
	// refunds of each merchant are limited apart, inside the limit of the account.
	refunds = comity.Limit{
		Name: "refunds", N: 10, Per: time.Second,
		For: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/refunds") },
		Key: func(r *http.Request) string { return r.Header.Get("Merchant-Id") },
	}
	labels = comity.Limit{Name: "labels", N: 60, Per: time.Minute, Burst: 5}
)

// relay tells one's own caller why a call to a partner brought nothing: 503 with
// Retry-After for a refusal, 504 where the caller's own deadline was too near,
// 502 for anything else.
func relay(w http.ResponseWriter, err error) {
	var refused *comity.ThrottledError
	switch {
	case !errors.As(err, &refused):
		http.Error(w, "the partner cannot be reached", http.StatusBadGateway)
	case refused.Timeout():
		http.Error(w, "not enough time for the partner's limits", http.StatusGatewayTimeout)
	default:
		if refused.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refused.RetryAfter.Seconds()))))
		}
		http.Error(w, "the partner is busy", http.StatusServiceUnavailable)
	}
}
