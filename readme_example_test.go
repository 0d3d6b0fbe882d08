package comity_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// One line obeys Retry-After and rate-limit headers.
func Example() {
	client := &http.Client{Transport: new(comity.Transport)}
	res, err := client.Get("https://api.github.com/repos/golang/go")
	if wait, ok := comity.RetryAfter(res, err); ok {
		log.Fatalf("rate limited; try again in %s", wait)
	}
}

// A partner with published limits: 100 calls a second, and 10 refunds a second
// for each merchant.
func ExampleNew() {
	rt, err := comity.New(nil, comity.Config{Policies: map[string]comity.Policy{
		"api.partner.example": {
			Limits: []comity.Limit{comity.PerSecond(100), {
				Name: "refunds", N: 10, Per: time.Second,
				For: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/refunds") },
				Key: func(r *http.Request) string { return r.Header.Get("Merchant-Id") },
			}},
			MaxWait: 5 * time.Second, // then fail instead of queueing
		},
	}})
	fmt.Println(rt != nil, err)
	// Output: true <nil>
}

// Each credential of a host gets limits, holds and quotas of its own.
func ExampleCredentialKey() {
	rt, err := comity.New(nil, comity.Config{Policies: map[string]comity.Policy{
		"": {Key: comity.CredentialKey("Authorization")},
	}})
	fmt.Println(rt != nil, err)
	// Output: true <nil>
}

// A batch job under a token quota: estimate before the call, settle after it.
func ExampleSettle() {
	policy := comity.Policy{
		Limits:  []comity.Limit{comity.PerMinute(500), {N: 200_000, Per: time.Minute, Unit: "tokens"}},
		MaxWait: comity.Forever,
	}
	rt, err := comity.New(&comitytest.API{}, comity.Config{Policies: map[string]comity.Policy{"llm.example": policy}})
	if err != nil {
		log.Fatal(err)
	}

	client := &http.Client{Transport: rt}
	fmt.Println(complete(context.Background(), client, "how much is six times seven?", 1200))
	// Output: 42 <nil>
}

func complete(ctx context.Context, client *http.Client, prompt string, estimate int) (string, error) {
	ctx = comity.WithCall(ctx, comity.Call{Cost: comity.Cost{"tokens": estimate}, Idempotent: true})
	answer, used, err := ask(ctx, client, prompt)
	if err != nil {
		return "", err
	}
	comity.Settle(ctx, comity.Cost{"tokens": used})
	return answer, nil
}

func ask(ctx context.Context, client *http.Client, prompt string) (answer string, tokens int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://llm.example/v1/chat", strings.NewReader(prompt))
	if err != nil {
		return "", 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	return "42", 900, nil
}

// A refusal is passed on to one's own callers.
func ExampleThrottledError() {
	rt, err := comity.New(&comitytest.API{}, comity.Config{Policies: map[string]comity.Policy{
		"api.partner.example": {MaxWait: time.Second},
	}})
	if err != nil {
		log.Fatal(err)
	}
	rt.Hold("api.partner.example", time.Now().Add(30*time.Second))
	client := &http.Client{Transport: rt}

	handler := func(w http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, "https://api.partner.example/rates", nil)
		res, err := client.Do(req)
		if err != nil {
			refuse(w, err)
			return
		}
		res.Body.Close()
	}
	rec := httptest.NewRecorder()
	handler(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(rec.Code, rec.Header().Get("Retry-After"))
	// Output: 503 30
}

func refuse(w http.ResponseWriter, err error) {
	var refused *comity.ThrottledError
	if errors.As(err, &refused) {
		status := http.StatusServiceUnavailable
		if refused.Timeout() { // the caller's own deadline was too near
			status = http.StatusGatewayTimeout
		}
		if wait, ok := comity.RetryAfter(nil, err); ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		}
		http.Error(w, "the partner is busy", status)
	}
}
