package comitytest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

var errorFlaws = []flaw{
	onError("E1", "prints the error", func(err error) error { return fmt.Errorf("failed: %v", err) }),
	onError("E2", "wraps the error", func(err error) error { return fmt.Errorf("failed: %w", err) }),
	onError("E3", "wraps the error", func(err error) error { return fmt.Errorf("failed: %w", err) }),
	onRequest("E4", "detaches the context", detach),
	inRetrier("E5", "sleeps through a cancel"),
	inRetrier("E6", "sleeps past the deadline"),
	inRetrier("E7", "sleeps past the deadline"),
	inRetrier("E8", "hides the cause"),
	{"retries any error", "E9_callers", patient},
	{"retries any error", "E9_bad", patient},
	inRetrier("E10", "retries any method"),
	inRetrier("E11", "returns 429"),
	inRetrier("E12", "caps Retry-After at a second"),
	beforeRetrier("E13", "turns a panic into an error", func(next http.RoundTripper, r *http.Request) (res *http.Response, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = errors.New("panic")
			}
		}()
		return next.RoundTrip(r)
	}),
	{"holds a lock over the base", "E13", func(base http.RoundTripper) http.RoundTripper {
		place := make(chan struct{}, 1)
		return flawed{&retrier{base: base}, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			place <- struct{}{}
			res, err := next.RoundTrip(r)
			<-place
			return res, err
		}}
	}},
	inRetrier("E14", "keeps idle connections"),
	{"has four places for all hosts", "E15", func(base http.RoundTripper) http.RoundTripper {
		places := make(chan struct{}, 4)
		return flawed{&retrier{base: base}, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			places <- struct{}{}
			defer func() { <-places }()
			return next.RoundTrip(r)
		}}
	}},
	beforeRetrier("E16", "goes on after a cancel", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		type result struct {
			res *http.Response
			err error
		}
		done := make(chan result, 1)
		go func() {
			res, err := next.RoundTrip(detach(r))
			done <- result{res, err}
		}()
		select {
		case d := <-done:
			return d.res, d.err
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}),
	beforeRetrier("E17", "returns response and error", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(r)
		if err == nil && res.StatusCode >= 400 {
			err = errors.New(res.Status)
		}
		return res, err
	}),
	{"keeps a goroutine", "E19", func(base http.RoundTripper) http.RoundTripper {
		go func() {
			for range time.Tick(time.Minute) {
			}
		}()
		return &retrier{base: base}
	}},
	inRetrier("E20", "does not wait"),
}

// patient tries everything again.
func patient(base http.RoundTripper) http.RoundTripper {
	return &retrier{base: base, flaws: []string{"retries any error"}}
}

func detach(r *http.Request) *http.Request {
	return r.WithContext(context.WithoutCancel(r.Context()))
}
