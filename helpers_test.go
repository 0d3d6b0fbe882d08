package comity_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// tripper is a base in the same process.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answer makes a response with headers given in pairs.
func answer(code int, body string, pairs ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	res := &http.Response{StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
	if body == "" {
		res.Body = http.NoBody
	}
	return res
}

// script is a base that gives one answer after the other, the last one for ever,
// and records what it was sent.
type script struct {
	answers []func() (*http.Response, error)

	mu     sync.Mutex
	bodies []string
	times  []time.Time
	seen   []*http.Request
}

// replies makes a script of statuses, errors, responses and functions.
func replies(answers ...any) *script {
	s := &script{}
	for _, a := range answers {
		switch a := a.(type) {
		case int:
			s.answers = append(s.answers, func() (*http.Response, error) { return answer(a, "body"), nil })
		case error:
			s.answers = append(s.answers, func() (*http.Response, error) { return nil, a })
		case *http.Response:
			s.answers = append(s.answers, func() (*http.Response, error) { return a, nil })
		case func() (*http.Response, error):
			s.answers = append(s.answers, a)
		default:
			panic("no answer")
		}
	}
	return s
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body.Close()
	}
	s.mu.Lock()
	n := len(s.times)
	s.bodies = append(s.bodies, string(body))
	s.times = append(s.times, time.Now())
	s.seen = append(s.seen, req)
	s.mu.Unlock()
	return s.answers[min(n, len(s.answers)-1)]()
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.times)
}

func get(t testing.TB, ctx context.Context, url string) *http.Request {
	return request(t, ctx, http.MethodGet, url, "")
}

func request(t testing.TB, ctx context.Context, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	require.NoError(t, err)
	return req
}

func transport(t testing.TB, base http.RoundTripper, cfg comity.Config) *comity.Transport {
	t.Helper()
	rt, err := comity.New(base, cfg)
	require.NoError(t, err)
	return rt
}

// every is a Config with one policy for all hosts.
func every(p comity.Policy) comity.Config {
	return comity.Config{Policies: map[string]comity.Policy{"": p}}
}

// watchedBody counts how often it is closed.
type watchedBody struct {
	io.Reader
	closes int
}

func (b *watchedBody) Close() error { b.closes++; return nil }
