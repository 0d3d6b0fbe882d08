package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/egress"
)

// always answers at once.
var always = roundTripper(func(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
})

// Calls in flight to each service adapt to how fast it answers.
func ExampleConcurrency() {
	rt, err := comity.New(always, comity.Config{Policies: map[string]comity.Policy{
		"*.internal.example": {
			Adaptive: comity.Adaptive{K: 1.5},
			Guards:   []comity.Guard{egress.Concurrency{Target: 100 * time.Millisecond, Wait: 50 * time.Millisecond}},
		},
	}})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: rt}
	for range 10 {
		if _, err := client.Get("http://orders.internal.example/"); err != nil {
			panic(err)
		}
	}
	for _, d := range rt.Destinations() {
		fmt.Println(d.Key, d.Gates)
	}
	// Output: orders.internal.example [concurrency 10]
}

// Two services share 2 places; the third call finds none, whichever it is for.
func ExampleBulkhead() {
	bulkhead := &egress.Bulkhead{Max: 2}
	rt, err := comity.New(always, comity.Config{Policies: map[string]comity.Policy{
		"images.example": {Guards: []comity.Guard{bulkhead}},
		"videos.example": {Guards: []comity.Guard{bulkhead}},
	}})
	if err != nil {
		panic(err)
	}
	// Two calls that have not ended.
	gate := bulkhead.NewGate("elsewhere")
	for range 2 {
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://elsewhere/", nil)
		_ = gate.Enter(&comity.Attempt{Request: req})
	}
	_, err = (&http.Client{Transport: rt}).Get("http://images.example/")
	var refused *comity.ThrottledError
	if errors.As(err, &refused) {
		fmt.Println(refused.Reason, refused.Limit)
		fmt.Println(refused)
	}
	// Output:
	// guard bulkhead 2
	// comity: images.example: gate "bulkhead 2": full
}

// Batch work may fill half of the places, so that users find one.
func ExampleShares() {
	bulkhead := &egress.Bulkhead{Max: 4, Shares: egress.Shares{comity.Sheddable: 0.5}}
	gate := bulkhead.NewGate("reports.example")
	enter := func(c comity.Criticality) error {
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://reports.example/", nil)
		return gate.Enter(&comity.Attempt{Request: req, Call: comity.Call{Criticality: c}})
	}
	for range 3 {
		fmt.Println("batch:", enter(comity.Sheddable))
	}
	fmt.Println("user:", enter(comity.Critical))
	// Output:
	// batch: <nil>
	// batch: <nil>
	// batch: full
	// user: <nil>
}

// A service reads how critical the calls it serves are.
func ExampleInbound() {
	handler := egress.Inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("serving a", comity.CallFrom(r.Context()).Criticality, "call")
	}))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set(egress.Header, "sheddable")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	// Output: serving a sheddable call
}

// A service tells those it calls how critical its calls are.
func ExampleOutbound() {
	backend := roundTripper(func(r *http.Request) (*http.Response, error) {
		fmt.Println(egress.Header+":", r.Header.Get(egress.Header))
		return always(r)
	})
	client := &http.Client{Transport: egress.Outbound(backend)}
	ctx := comity.WithCall(context.Background(), comity.Call{Criticality: comity.CriticalPlus})
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://orders.internal.example/", nil)
	if _, err := client.Do(req); err != nil {
		panic(err)
	}
	// Output: Request-Criticality: critical-plus
}
