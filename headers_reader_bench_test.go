package comity

import (
	"net/http"
	"testing"
	"time"
)

// usual is a response of 10 fields, with those of a limit among them.
func usual(pairs ...string) http.Header {
	h := http.Header{
		"Date": {"Mon, 01 Jun 2026 12:00:00 GMT"}, "Content-Type": {"application/json"}, "Content-Length": {"35"},
		"Cache-Control": {"no-cache"}, "Etag": {`W/"1"`}, "Server": {"nginx"}, "Vary": {"Accept-Encoding"},
	}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

var readerCases = []struct {
	name   string
	header http.Header
}{
	{"none", usual("X-Request-Id", "1", "Via", "1.1 a", "X-Frame-Options", "DENY")},
	{"delta", usual("X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", "48")},
	{"epoch", usual("X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", "1780318800")},
	{"github", usual("X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", "1780318800",
		"X-RateLimit-Used", "1", "X-RateLimit-Resource", "core")},
	{"draft-10", usual("RateLimit-Policy", `"default";q=100;w=60`, "RateLimit", `"default";r=50;t=30`)},
	{"draft-7", usual("RateLimit-Policy", "20;w=2", "RateLimit", "limit=20, remaining=19, reset=2", "X-Request-Id", "1")},
	{"openai", usual("X-RateLimit-Limit-Requests", "60", "X-RateLimit-Remaining-Requests", "59", "X-RateLimit-Reset-Requests", "1s",
		"X-RateLimit-Limit-Tokens", "150000", "X-RateLimit-Remaining-Tokens", "149984", "X-RateLimit-Reset-Tokens", "6m0s")},
}

// Budget: three learned fields at most 80 ns and 0 allocations.
func BenchmarkReader(b *testing.B) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range readerCases {
		b.Run("fields="+c.name, func(b *testing.B) {
			var r reader
			var a Advice
			b.ReportAllocs()
			for b.Loop() {
				r.read(nil, c.header, now, false, &a)
			}
		})
	}
}
