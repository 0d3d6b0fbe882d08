package comitytest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// Any Limiter can prove itself in a test of its own.
func ExampleTestLimiter() {
	_ = func(t *testing.T) {
		l := comity.Limit{N: 100, Per: time.Second, Burst: 20}
		comitytest.TestLimiter(t, l, func() comity.Limiter {
			m, err := comity.NewLimiter(l) // yours
			if err != nil {
				t.Fatal(err)
			}
			return m
		})
	}
	// Output:
}

// A partner that allows two calls in any hour, and then fails once on purpose.
func ExampleAPI() {
	api := &comitytest.API{
		Limits:  []comity.Limit{{N: 2, Per: time.Hour, Algorithm: comity.SlidingLog}},
		Dialect: comitytest.RetryAfterOnly,
	}
	client := &http.Client{Transport: api}
	for range 3 {
		res, err := client.Get("https://api.partner.example/orders")
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d %q\n", res.StatusCode, res.Header.Get("Retry-After"))
	}
	api.Fail(1, http.StatusBadGateway, nil)
	res, _ := client.Get("https://api.partner.example/orders")
	fmt.Println(res.StatusCode)
	fmt.Println(len(api.Hits()), "calls, over the limit:", len(api.Over()))
	// Output:
	// 200 ""
	// 200 ""
	// 429 "3600"
	// 502
	// 4 calls, over the limit: 1
}
