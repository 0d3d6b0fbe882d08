package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// direct calls a handler without a network, so that time may be fake.
type direct struct{ http.Handler }

func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// The whole program on fake time.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs []*fleetRun
		for _, f := range fleets {
			r := newRun(f)
			r.url, r.base = "http://backend.example/", direct{&r.backend}
			runs = append(runs, r)
		}
		play(context.Background(), runs, show(io.Discard, runs))
		var out strings.Builder
		table(&out, runs)
		t.Log(out.String())

		goodput := func(r *fleetRun) float64 {
			return float64(r.sum(overloadAt, recoverAt).ok) / capacity / (recoverAt - overloadAt).Seconds()
		}
		require.Less(t, goodput(runs[0]), 0.1, "a loop")
		for _, r := range runs[2:] {
			require.Greater(t, goodput(r), 0.7, r.name)
			after := r.sum(recoverAt, recoverAt+10e9)
			require.Greater(t, float64(after.ok), 0.85*float64(after.asked), r.name)
		}

		plot := draw(runs)
		if path := os.Getenv("COMITY_PLOT"); path != "" {
			require.NoError(t, os.WriteFile(path, []byte(plot), 0o644))
		}
		d := xml.NewDecoder(strings.NewReader(plot))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err)
			}
		}
	})
}
