package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/comity/comity"
)

// next is what a call to the same place would do now.
type next struct {
	Wait   string `json:"wait"` // "0s" is at once
	Reason string `json:"reason,omitempty"`
	Limit  string `json:"limit,omitempty"`
	Text   string `json:"text"`
}

// try lets a Transport get the response, and asks it when the next call could go.
func try(res *response, d *comity.Dialect, now time.Time) (verdict string, n next, err error) {
	read := *d
	read.Parse = func(h http.Header, _ time.Time) comity.Advice { return d.Parse(h, now) }
	var trace comity.Trace
	trace.Done = func(a *comity.Attempt) { verdict = a.Verdict.String() }
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: res.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: res.header.Clone(),
			Body: io.NopCloser(strings.NewReader("")), Request: req,
		}, nil
	})
	t, err := comity.New(base, comity.Config{
		Policies: map[string]comity.Policy{"": {Dialect: &read, MaxWait: -1, Retry: comity.Retry{Max: -1}}},
		Trace:    &trace,
	})
	if err != nil {
		return "", n, err
	}
	req, err := http.NewRequest(http.MethodGet, "http://server.example/", nil)
	if err != nil {
		return "", n, err
	}
	answer, err := t.RoundTrip(req)
	if err != nil {
		return "", n, err
	}
	if err := answer.Body.Close(); err != nil {
		return "", n, err
	}
	began := time.Now()
	ready := t.Next(req)
	wait := max(ready.At.Sub(began).Round(10*time.Millisecond), 0)
	n = next{Wait: wait.String(), Reason: string(ready.Reason), Limit: ready.Limit}
	switch {
	case ready.Reason == "" || wait == 0:
		n.Text = "goes at once"
	case ready.Reason == comity.ReasonLimit:
		n.Text = fmt.Sprintf("waits about %s for %s", wait, ready.Limit)
	default:
		n.Text = fmt.Sprintf("waits about %s: %s", wait, reasons[ready.Reason])
	}
	return verdict, n, nil
}

var reasons = map[comity.Reason]string{
	comity.ReasonHeld: "the destination is held; one call goes first then, the others follow it",
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
