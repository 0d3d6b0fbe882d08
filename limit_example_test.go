package comity_test

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/comity/comity"
)

func ExampleNewLimiter() {
	l, err := comity.NewLimiter(comity.Limit{N: 5, Per: time.Second, Burst: 2})
	if err != nil {
		panic(err)
	}
	now := time.Now()
	for range 3 {
		wait, _ := l.Take(now, 1)
		fmt.Println(wait)
	}
	l.Adjust(now, -1) // one of them was not used
	wait, _ := l.Take(now, 1)
	fmt.Println(wait)
	// Output:
	// 0s
	// 0s
	// 200ms
	// 0s
}

func ExampleRateLimiter() {
	l := comity.RateLimiter(rate.NewLimiter(rate.Every(time.Minute), 1))
	now := time.Now()
	first, _ := l.Take(now, 1)
	second, _ := l.Take(now, 1)
	fmt.Println(first, second)
	// Output: 0s 1m0s
}

func ExampleLimit_UnmarshalText() {
	var l comity.Limit
	if err := l.UnmarshalText([]byte("5000/h burst 50")); err != nil {
		panic(err)
	}
	fmt.Println(l.N, l.Per, l.Burst, l.Algorithm)
	fmt.Println(comity.Limit{N: 10, Per: time.Minute, Algorithm: comity.SlidingLog})
	// Output:
	// 5000 1h0m0s 50 token-bucket
	// 10/m sliding-log
}
