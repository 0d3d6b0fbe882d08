// Command internal overloads a backend, four times at once: eight instances of a
// service call one backend of fixed capacity over HTTP on loopback, at first with
// half of what it can do, then with five times as much, then with half again. One
// fleet retries in a loop, one throttles itself by the rule of the Site Reliability
// Engineering book to the letter, and two as comity does, with K = 2 and K = 1.5.
//
// It needs no network and takes a minute. At the end it prints a table and writes a
// plot of what the backend did, internal.svg by default.
//
//	go run ./examples/internal
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"github.com/comity/comity"
)

// The backend does capacity calls a second; a refusal costs it a quarter of a call.
// Its clients are the instances of one service.
const (
	capacity   = 60.
	refusal    = 0.25
	instances  = 8
	patience   = 2 * time.Second // of a user
	loadBefore = 0.5
	loadDuring = 5.
)

// The acts: healthy, overload, recovery.
const (
	overloadAt = 10 * time.Second
	recoverAt  = 40 * time.Second
	theEnd     = 60 * time.Second
)

// load returns what users ask for at a time, as part of the capacity.
func load(at time.Duration) float64 {
	if at >= overloadAt && at < recoverAt {
		return loadDuring
	}
	return loadBefore
}

// fleet is a way for the instances to call the backend.
type fleet struct {
	name  string
	color string
	wrap  func(base http.RoundTripper) http.RoundTripper
}

var fleets = []fleet{
	{"retries in a loop", "#d55e00", func(base http.RoundTripper) http.RoundTripper { return retrier{base} }},
	{"the book's rule, K = 2", "#e69f00", with(comity.Adaptive{K: 2, Plain: true})},
	{"comity, K = 2", "#0072b2", with(comity.Adaptive{})},
	{"comity, K = 1.5", "#009e73", with(comity.Adaptive{K: 1.5})},
}

// with returns the fleet's Transport: everything but the throttle by default.
func with(ad comity.Adaptive) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		rt, err := comity.New(base, comity.Config{Policies: map[string]comity.Policy{"": {Adaptive: ad}}})
		if err != nil {
			panic(err)
		}
		return rt
	}
}

func main() {
	plot := flag.String("o", "internal.svg", "`file` for the plot")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *plot); err != nil {
		fmt.Fprintln(os.Stderr, "internal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plot string) error {
	var runs []*fleetRun
	for _, f := range fleets {
		r := newRun(f)
		server := httptest.NewServer(&r.backend)
		defer server.Close()
		base := &http.Transport{MaxIdleConnsPerHost: 1000}
		defer base.CloseIdleConnections()
		r.url, r.base = server.URL, base
		runs = append(runs, r)
	}
	fmt.Printf("%d instances, a backend that does %.0f calls a second, users ask for %.0f, then %.0f, then %.0f.\n\n",
		instances, capacity, capacity*loadBefore, capacity*loadDuring, capacity*loadBefore)
	play(ctx, runs, show(os.Stdout, runs))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	table(os.Stdout, runs)
	if err := os.WriteFile(plot, []byte(draw(runs)), 0o644); err != nil {
		return err
	}
	fmt.Println("\nThe plot is in", plot)
	return nil
}
