package comity_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// stub answers as a small API does, from memory: 200, a body of 35 bytes and 10
// headers. It allocates the response and its body, so that they are in the figure
// of the bare stub too.
type stub struct {
	header http.Header
}

func newStub() *stub {
	return &stub{header: http.Header{
		"Date":                  {time.Now().UTC().Format(http.TimeFormat)},
		"Content-Type":          {"application/json"},
		"Content-Length":        {"35"},
		"Server":                {"nginx"},
		"Vary":                  {"Accept-Encoding"},
		"Cache-Control":         {"no-store"},
		"X-Request-Id":          {"7f3c1f0e"},
		"X-Ratelimit-Limit":     {"5000"},
		"X-Ratelimit-Remaining": {"4999"},
		"X-Ratelimit-Reset":     {strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)},
	}}
}

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "200 OK", StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: s.header, ContentLength: 35, Request: req,
		Body: io.NopCloser(strings.NewReader("{\"id\":1234567,\"name\":\"a partner api\"}")),
	}, nil
}

// The budget of a call that is not held back: at most 300 ns over the base, and
// one allocation.
func BenchmarkRoundTrip(b *testing.B) {
	base := newStub()
	for _, c := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"stub", base},
		{"transport", must(comity.New(base, comity.Config{}))},
	} {
		b.Run("base="+c.name, func(b *testing.B) {
			req, _ := http.NewRequest(http.MethodGet, "https://api.partner.example/v1/things/1", nil)
			b.ReportAllocs()
			for b.Loop() {
				res, err := c.rt.RoundTrip(req)
				if err != nil || res.StatusCode != 200 {
					b.Fatal(res, err)
				}
			}
		})
	}
}

func TestRoundTripAllocatesOnce(t *testing.T) {
	base := newStub()
	req, _ := http.NewRequest(http.MethodGet, "https://api.partner.example/v1/things/1", nil)
	count := func(rt http.RoundTripper) float64 {
		return testing.AllocsPerRun(1000, func() {
			if _, err := rt.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		})
	}
	bare := count(base)
	require.LessOrEqual(t, count(must(comity.New(base, comity.Config{})))-bare, 1.0)
}

func must(t *comity.Transport, err error) *comity.Transport {
	if err != nil {
		panic(err)
	}
	return t
}
