package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

const want = `200
it goes down
500
500
500
refused by "breaker open": circuit breaker is open
refused by "breaker open": circuit breaker is open
it is up again
refused by "breaker open": circuit breaker is open
200
[breaker closed]
`

func TestBreakerOpensAndClosesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		base := tripper(func(req *http.Request) (*http.Response, error) {
			res := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}
			if down.Load() {
				res.StatusCode = http.StatusInternalServerError
			}
			return res, nil
		})
		var out strings.Builder
		if err := run(&out, "http://backend.example/", base, &down, time.Sleep); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
	})
}
