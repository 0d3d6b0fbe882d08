package main

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// What every partner allows, in its own way of counting.
const (
	allowed = 20
	window  = 2 * time.Second
)

// A server is one way of counting the calls of a client.
type server struct {
	algorithm comity.Algorithm
	burst     int
	rule      string
}

var servers = map[string]server{
	"sliding-log":    {comity.SlidingLog, 0, "20 calls in any 2 s"},
	"fixed-window":   {comity.FixedWindow, 0, "20 calls in each 2 s of the clock"},
	"sliding-window": {comity.SlidingWindow, 0, "20 calls in any 2 s, estimated from two counters"},
	"token-bucket":   {comity.TokenBucket, allowed, "10 calls a second and 20 at once"},
	"gcra":           {comity.GCRA, allowed, "10 calls a second and 20 at once"},
	"leaky-bucket":   {comity.LeakyBucket, allowed, "10 calls a second and keeps 20 waiting"},
}

// headers are the spellings in which a partner reports its limit.
var headers = map[string]*comity.Dialect{
	"ietf":        comity.IETF,
	"ietf-fields": comity.IETFFields,
	"x-ratelimit": comity.XRateLimit,
	"github":      comity.GitHub,
	"retry-after": comitytest.RetryAfterOnly,
	"none":        nil,
}

// choices lists the names of m for a flag's usage.
func choices[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// partner is a fake partner API that listens on a free loopback port.
type partner struct {
	url string
	srv *http.Server
}

func openPartner(s server, reports *comity.Dialect) (*partner, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &partner{
		url: fmt.Sprintf("http://%s/", l.Addr()),
		srv: &http.Server{Handler: &comitytest.API{
			Limits:  []comity.Limit{{N: allowed, Per: window, Burst: s.burst, Algorithm: s.algorithm}},
			Dialect: reports,
		}},
	}
	go p.srv.Serve(l) // ends with Close
	return p, nil
}

func (p *partner) Close() error { return p.srv.Close() }

// ideal is the least time in which the partner serves n calls, give or take a
// window where windows are those of the clock.
func (s server) ideal(n int) time.Duration {
	if s.algorithm == comity.LeakyBucket {
		return time.Duration(n-1) * window / allowed // it serves nothing at once
	}
	return time.Duration((n-1)/allowed) * window
}

// offered is how many calls the partner serves from start on within d.
func (s server) offered(start time.Time, d time.Duration) float64 {
	steady := allowed * d.Seconds() / window.Seconds()
	switch s.algorithm {
	case comity.FixedWindow:
		at := func(t time.Time) int64 { return t.UnixNano() / int64(window) }
		return allowed * float64(1+at(start.Add(d))-at(start))
	case comity.LeakyBucket:
		return 1 + steady
	}
	return allowed + steady
}
