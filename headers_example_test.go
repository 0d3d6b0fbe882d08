package comity_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/comity/comity"
)

func ExampleParseAdvice() {
	h := http.Header{}
	h.Set("Date", "Mon, 01 Jun 2026 12:00:00 GMT")
	h.Set("Retry-After", "Mon, 01 Jun 2026 12:00:30 GMT")
	h.Set("X-RateLimit-Limit-Requests", "60")
	h.Set("X-RateLimit-Remaining-Requests", "59")
	h.Set("X-RateLimit-Limit-Tokens", "150000")
	h.Set("X-RateLimit-Remaining-Tokens", "0")
	h.Set("X-RateLimit-Reset-Tokens", "6m0s")

	a := comity.ParseAdvice(h, time.Date(2026, 6, 1, 12, 0, 1, 0, time.UTC))
	fmt.Println("retry after", a.RetryAfter)
	for _, q := range a.Quotas {
		fmt.Printf("%s: %d of %d %s left, reset in %s\n", q.Name, q.Remaining, q.Limit, q.Unit, q.Reset)
	}
	// Output:
	// retry after 30s
	// requests: 59 of 60 requests left, reset in -1ns
	// tokens: 0 of 150000 tokens left, reset in 6m0s
}

// What cannot be believed is dropped and named; the rest counts.
func ExampleParseAdvice_malformed() {
	a := comity.ParseAdvice(http.Header{
		"Retry-After":           {"soon"},
		"X-Ratelimit-Remaining": {"-1"},
		"X-Ratelimit-Reset":     {"20"},
	}, time.Now())
	fmt.Println(a.RetryAfter < 0, a.Quotas[0].Remaining, a.Quotas[0].Reset)
	fmt.Println(a.Malformed)
	// Output:
	// true -1 20s
	// [Retry-After X-Ratelimit-Remaining]
}

func ExampleRetryAfter() {
	res := &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{
		"X-Ratelimit-Limit":     {"60"},
		"X-Ratelimit-Remaining": {"0"},
		"X-Ratelimit-Reset":     {"90"},
	}}
	if wait, ok := comity.RetryAfter(res, nil); ok {
		fmt.Println("rate limited; try again in", wait)
	}

	err := fmt.Errorf("list orders: %w", &comity.ThrottledError{Reason: comity.ReasonHeld, RetryAfter: 42 * time.Second})
	if wait, ok := comity.RetryAfter(nil, err); ok {
		fmt.Println("not sent; try again in", wait)
	}
	// Output:
	// rate limited; try again in 1m30s
	// not sent; try again in 42s
}

// A dialect of one's own: everything that is usual, and a field that only this
// server sends.
func ExampleDialect() {
	d := *comity.Auto
	d.Name = "partner"
	d.Parse = func(h http.Header, now time.Time) comity.Advice {
		a := comity.ParseAdvice(h, now)
		if h.Get("Partner-Busy") == "yes" && a.RetryAfter < 0 {
			a.RetryAfter = 5 * time.Second
		}
		return a
	}
	rt, err := comity.New(nil, comity.Config{Policies: map[string]comity.Policy{"api.partner.example": {Dialect: &d}}})
	fmt.Println(rt != nil, err)
	fmt.Println(d.Parse(http.Header{"Partner-Busy": {"yes"}}, time.Now()).RetryAfter)
	// Output:
	// true <nil>
	// 5s
}

// A fake server writes what a client reads.
func ExampleDialect_write() {
	h := http.Header{}
	comity.IETF.Write(h, time.Now(), comity.Advice{
		RetryAfter: 1500 * time.Millisecond,
		Quotas:     []comity.Quota{{Name: "default", Unit: "requests", Limit: 100, Remaining: 0, Window: time.Minute, Reset: 1500 * time.Millisecond}},
	})
	fmt.Println("Retry-After:", h.Get("Retry-After"))
	fmt.Println("RateLimit-Policy:", h.Get("RateLimit-Policy"))
	fmt.Println("RateLimit:", h.Get("RateLimit"))
	// Output:
	// Retry-After: 2
	// RateLimit-Policy: "default";q=100;w=60
	// RateLimit: "default";r=0;t=2
}
