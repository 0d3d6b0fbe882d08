package comity_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// server is a base of which every call takes a while and gets the answer that say
// makes of it. It records when calls came, counted from its start.
type server struct {
	trip time.Duration // of each call, there and back
	say  func(n int, r *http.Request) *http.Response

	mu    sync.Mutex
	start time.Time
	sent  []time.Duration
	paths []string
	now   int // calls under way
	most  int
}

// serve returns a server whose round trips take 20 ms. It belongs to a bubble.
func serve(say func(n int, r *http.Request) *http.Response) *server {
	return &server{trip: 20 * time.Millisecond, say: say, start: time.Now()}
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.sent)
	s.sent = append(s.sent, time.Since(s.start))
	s.paths = append(s.paths, r.URL.Path)
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	err := pause(r.Context(), s.trip/2)
	var res *http.Response
	if err == nil {
		s.mu.Lock()
		res = s.say(n, r)
		s.mu.Unlock()
		err = pause(r.Context(), s.trip/2)
	}
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return res, nil
}

// times returns when calls came.
func (s *server) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.sent...)
}

// seen returns the paths of the calls that came.
func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.paths...)
}

// ok is an answer that says nothing of limits.
func ok(int, *http.Request) *http.Response { return answer(200, "") }

// call makes one call to path at a.example, and closes its answer.
func call(t testing.TB, rt http.RoundTripper, ctx context.Context, path string) (int, error) {
	t.Helper()
	res, err := rt.RoundTrip(get(t, ctx, "http://a.example"+path))
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// accepted makes a call that has to end well.
func accepted(t testing.TB, rt http.RoundTripper, path string) {
	t.Helper()
	code, err := call(t, rt, context.Background(), path)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
}

// throttled returns the refusal that err is.
func throttled(t testing.TB, err error) *comity.ThrottledError {
	t.Helper()
	var te *comity.ThrottledError
	require.ErrorAs(t, err, &te)
	require.ErrorIs(t, err, comity.ErrThrottled)
	return te
}

// anyTime is a policy under which calls wait as long as it takes.
func anyTime(limits ...comity.Limit) comity.Policy {
	return comity.Policy{MaxWait: comity.Forever, Limits: limits}
}
