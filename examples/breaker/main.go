// Breaker shows how to put a circuit breaker of another library in a policy: a
// [comity.Guard] of some twenty lines. The destination works, is down for a while,
// and works again; the breaker refuses at once while it is open.
//
//	go run .
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/comity/comity"
)

func main() {
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	if err := run(os.Stdout, server.URL, http.DefaultTransport, &down, time.Sleep); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// open is how long the breaker stays open before it lets a call try.
const open = time.Second

func run(w io.Writer, url string, base http.RoundTripper, down *atomic.Bool, sleep func(time.Duration)) error {
	rt, err := comity.New(base, comity.Config{Policies: map[string]comity.Policy{"": {
		Adaptive: comity.Adaptive{K: -1}, // the breaker does its work
		Guards: []comity.Guard{Breaker{
			Timeout:     open,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
		}},
	}}})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: rt}
	call := func() {
		res, err := client.Get(url)
		var refused *comity.ThrottledError
		switch {
		case errors.As(err, &refused):
			fmt.Fprintf(w, "refused by %q: %v\n", refused.Limit, refused.Err)
		case err != nil:
			fmt.Fprintln(w, err)
		default:
			res.Body.Close()
			fmt.Fprintln(w, res.StatusCode)
		}
	}
	call()
	fmt.Fprintln(w, "it goes down")
	down.Store(true)
	for range 5 {
		call()
	}
	fmt.Fprintln(w, "it is up again")
	down.Store(false)
	call()
	sleep(open + open/10)
	call()
	fmt.Fprintln(w, rt.Destinations()[0].Gates)
	return nil
}
