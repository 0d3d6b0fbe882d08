package benchmarks

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// BenchmarkHappyPath is what a wrapper costs when nothing is wrong: a stub answers
// 200 with a small body and the headers of a service with a large quota.
func BenchmarkHappyPath(b *testing.B) {
	for _, p := range peers {
		if p.told {
			continue // its limit would be what is measured
		}
		b.Run("peer="+p.name, func(b *testing.B) {
			rt := p.wrap(stub())
			req, err := http.NewRequest(http.MethodGet, "http://api.example/v1/items", nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				res, err := rt.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					b.Fatal(err)
				}
				res.Body.Close()
			}
		})
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func stub() http.RoundTripper {
	body := bytes.Repeat([]byte("x"), 35)
	now := time.Now()
	header := http.Header{
		"Date":                  {now.UTC().Format(http.TimeFormat)},
		"Content-Type":          {"application/json"},
		"Content-Length":        {"35"},
		"Cache-Control":         {"no-store"},
		"Etag":                  {`"abc"`},
		"Server":                {"stub"},
		"Vary":                  {"Accept"},
		"X-Ratelimit-Limit":     {"5000000"},
		"X-Ratelimit-Remaining": {"4999999"},
		"X-Ratelimit-Reset":     {strconv.FormatInt(now.Add(time.Hour).Unix(), 10)},
	}
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: header, ContentLength: int64(len(body)), Request: req,
			Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	})
}
