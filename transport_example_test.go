package comity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// limited returns a Transport for a partner that allows one call an hour.
func limited(trace *comity.Trace) *comity.Transport {
	rt, err := comity.New(&comitytest.API{}, comity.Config{
		Policies: map[string]comity.Policy{"api.partner.example": {
			Limits:  []comity.Limit{{Name: "trial", N: 1, Per: time.Hour}},
			MaxWait: -1, // refuse at once
		}},
		Trace: trace,
	})
	if err != nil {
		panic(err)
	}
	return rt
}

// The zero Transport needs no configuration.
func ExampleTransport() {
	client := &http.Client{Transport: new(comity.Transport)}
	fmt.Println(client.Transport.(*comity.Transport).Unwrap() == http.DefaultTransport)
	// Output: true
}

// A frontier asks when a call could go, instead of waiting in it.
func ExampleTransport_Next() {
	rt := limited(nil)
	client := &http.Client{Transport: rt}
	req, _ := http.NewRequest(http.MethodGet, "https://api.partner.example/", nil)
	fmt.Printf("before: %q\n", rt.Next(req).Reason)
	if _, err := client.Do(req); err != nil {
		fmt.Println(err)
	}
	ready := rt.Next(req)
	fmt.Printf("after: %q by %q, in about %s\n", ready.Reason, ready.Limit, time.Until(ready.At).Round(time.Minute))
	// Output:
	// before: ""
	// after: "limit" by "trial", in about 1h0m0s
}

// An operator stops a destination, and lets it go again.
func ExampleTransport_Hold() {
	rt := limited(nil)
	client := &http.Client{Transport: rt}
	rt.Hold("api.partner.example", time.Now().Add(time.Hour))
	_, err := client.Get("https://api.partner.example/")
	fmt.Println(errors.Is(err, comity.ErrThrottled))
	rt.Hold("api.partner.example", time.Time{})
	_, err = client.Get("https://api.partner.example/")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// Policies may be replaced while calls run. What was spent stays spent.
func ExampleTransport_SetPolicies() {
	rt := limited(nil)
	client := &http.Client{Transport: rt}
	_, err := client.Get("https://api.partner.example/")
	fmt.Println(err)
	err = rt.SetPolicies(map[string]comity.Policy{"https://api.partner.example": {}})
	fmt.Println(err)
	err = rt.SetPolicies(map[string]comity.Policy{"api.partner.example": {}})
	fmt.Println(err)
	// Output:
	// <nil>
	// comity: Policies["https://api.partner.example"]: a pattern has no scheme: use "api.partner.example"
	// <nil>
}

// A host's policy may come from a function, and change when more is known of it.
func ExampleTransport_Refresh() {
	delay := time.Second
	rt, _ := comity.New(&comitytest.API{}, comity.Config{PolicyFor: func(host string) comity.Policy {
		return comity.Policy{Delay: comity.Delay{Min: delay}, MaxWait: -1}
	}})
	client := &http.Client{Transport: rt}
	res, err := client.Get("https://www.site.example/robots.txt")
	if err != nil {
		fmt.Println(err)
		return
	}
	res.Body.Close()
	delay = 10 * time.Second // what robots.txt said
	rt.Refresh("www.site.example")
	req, _ := http.NewRequest(http.MethodGet, "https://www.site.example/", nil)
	fmt.Println(rt.Next(req).Reason)
	// Output: delay
}

// A page for operators shows what is known of each destination.
func ExampleTransport_Destinations() {
	rt := limited(nil)
	client := &http.Client{Transport: rt}
	if _, err := client.Get("https://api.partner.example/"); err != nil {
		fmt.Println(err)
	}
	for _, d := range rt.Destinations() {
		fmt.Println(d.Key, d.InFlight, d.Requests, d.Limits[0].Name, int(d.Limits[0].Available))
	}
	// Output: api.partner.example 0 1 trial 0
}

// A call says what it needs beyond its destination's policy.
func ExampleWithCall() {
	ctx := comity.WithCall(context.Background(), comity.Call{Criticality: comity.Sheddable, MaxWait: -1})
	ctx = comity.WithCall(ctx, comity.Call{Idempotent: true}) // keeps the rest
	call := comity.CallFrom(ctx)
	fmt.Println(call.Criticality, call.Idempotent, call.MaxWait < 0)
	// Output: sheddable true true
}

// Some refusals are only in the body. Report teaches them to the destination.
func ExampleReport() {
	rt, _ := comity.New(&comitytest.API{}, comity.Config{Policies: map[string]comity.Policy{"": {MaxWait: -1}}})
	client := &http.Client{Transport: rt}
	ctx := comity.WithCall(context.Background(), comity.Call{})
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://graphql.partner.example/", nil)
	if _, err := client.Do(req); err != nil {
		fmt.Println(err)
	}
	// The body said: {"errors":[{"extensions":{"code":"THROTTLED"}}]}
	comity.Report(ctx, comity.Limited, comity.Advice{RetryAfter: time.Minute})
	_, err := client.Get("https://graphql.partner.example/")
	fmt.Println(errors.Is(err, comity.ErrThrottled))
	// Output: true
}

// Several traces at once: one logs, one counts.
func ExampleTee() {
	refused := map[comity.Reason]int{}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case "destination", "reason", slog.MessageKey, slog.LevelKey:
				return a
			}
			return slog.Attr{}
		},
	}))
	rt := limited(comity.Tee(comity.LogTrace(log), &comity.Trace{
		Refused: func(_ *comity.Attempt, err *comity.ThrottledError) { refused[err.Reason]++ },
	}))
	client := &http.Client{Transport: rt}
	for range 2 {
		_, _ = client.Get("https://api.partner.example/")
	}
	fmt.Println(refused)
	// Output:
	// level=WARN msg="call refused" destination=api.partner.example reason=limit
	// map[limit:1]
}
