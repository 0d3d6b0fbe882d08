package comity_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/comity/comity"
)

// A backend that refuses everything is soon left alone, but for a call now and then.
func ExampleAdaptive() {
	asked := 0
	backend := tripper(func(*http.Request) (*http.Response, error) {
		asked++
		return answer(http.StatusServiceUnavailable, ""), nil
	})
	rt, err := comity.New(backend, comity.Config{Policies: map[string]comity.Policy{
		"orders.internal.example": {
			Adaptive: comity.Adaptive{K: 1.5}, // stricter than the default of 2: the backend is our own
			Retry:    comity.Retry{Max: -1},
		},
	}})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: rt}
	refused := 0
	for range 100 {
		if _, err := client.Get("http://orders.internal.example/"); errors.Is(err, comity.ErrThrottled) {
			refused++
		}
	}
	fmt.Println("asked:", asked, "refused here:", refused)
	// Output: asked: 11 refused here: 89
}
