package egress_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/egress"
)

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestInboundReadsTheCriticality(t *testing.T) {
	for value, want := range map[string]comity.Criticality{
		"sheddable":       comity.Sheddable,
		"sheddable-plus":  comity.SheddablePlus,
		"critical":        comity.Critical,
		"critical-plus":   comity.CriticalPlus,
		" Critical-Plus ": comity.CriticalPlus,
		"":                0,
		"most-critical":   0,
		"2":               0,
	} {
		var got comity.Criticality
		h := egress.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = comity.CallFrom(r.Context()).Criticality
		}))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(egress.Header, value)
		h.ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, want, got, "%q", value)
	}
}

func TestOutboundStatesTheCriticality(t *testing.T) {
	var seen *http.Request
	res := &http.Response{StatusCode: 200, Body: http.NoBody}
	rt := egress.Outbound(roundTripper(func(r *http.Request) (*http.Response, error) {
		seen, res.Request = r, r
		return res, nil
	}))
	send := func(c comity.Criticality, stated string) *http.Request {
		ctx := comity.WithCall(context.Background(), comity.Call{Criticality: c})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://backend.example/", nil)
		require.NoError(t, err)
		if stated != "" {
			req.Header.Set(egress.Header, stated)
		}
		got, err := rt.RoundTrip(req)
		require.NoError(t, err)
		require.Same(t, req, got.Request)
		require.Equal(t, stated, req.Header.Get(egress.Header), "the caller's request is left alone")
		return seen
	}
	require.Equal(t, "sheddable-plus", send(comity.SheddablePlus, "").Header.Get(egress.Header))
	require.Equal(t, "critical", send(comity.Critical, "sheddable").Header.Get(egress.Header))
	require.Equal(t, "sheddable", send(0, "sheddable").Header.Get(egress.Header), "no criticality is nothing to state")
}

// What one service was called with, it calls the next with.
func TestCriticalityGoesFromServiceToService(t *testing.T) {
	var got comity.Criticality
	last := httptest.NewServer(egress.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = comity.CallFrom(r.Context()).Criticality
	})))
	defer last.Close()
	client := &http.Client{Transport: egress.Outbound(new(comity.Transport))}
	defer client.CloseIdleConnections()
	middle := httptest.NewServer(egress.Inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, last.URL, nil)
		if res, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	})))
	defer middle.Close()

	ctx := comity.WithCall(t.Context(), comity.Call{Criticality: comity.Sheddable})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, middle.URL, nil)
	require.NoError(t, err)
	res, err := client.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, comity.Sheddable, got)
}

type closer struct {
	http.RoundTripper
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }

func TestOutboundPassesOnWhatClientsLookFor(t *testing.T) {
	base := &closer{RoundTripper: http.DefaultTransport}
	client := &http.Client{Transport: egress.Outbound(base)}
	client.CloseIdleConnections()
	require.Equal(t, 1, base.closed)
	u, ok := client.Transport.(interface{ Unwrap() http.RoundTripper })
	require.True(t, ok)
	require.Same(t, base, u.Unwrap())
	require.Equal(t, http.DefaultTransport, egress.Outbound(nil).(interface{ Unwrap() http.RoundTripper }).Unwrap())
}
