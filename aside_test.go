package comity_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// endless is a body that never ends, and counts what is read of it.
type endless struct {
	read   int
	closed bool
}

func (e *endless) Read(p []byte) (int, error) { e.read += len(p); clear(p); return len(p), nil }
func (e *endless) Close() error               { e.closed = true; return nil }

// stalling gives some bytes and then nothing until it is closed.
type stalling struct {
	io.Reader
	closed chan struct{}
}

func newStalling(start string) *stalling {
	return &stalling{strings.NewReader(start), make(chan struct{})}
}

func (s *stalling) Read(p []byte) (int, error) {
	if n, err := s.Reader.Read(p); err == nil {
		return n, nil
	}
	<-s.closed
	return 0, errors.New("read on closed body")
}

func (s *stalling) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// refuseRetry is a Config whose guard lets only first tries pass.
func refuseRetry() comity.Config {
	return every(comity.Policy{Guards: []comity.Guard{firstOnly{}}})
}

type firstOnly struct{}

func (firstOnly) NewGate(string) comity.Gate { return firstOnly{} }
func (firstOnly) Leave(*comity.Attempt)      {}
func (firstOnly) Enter(a *comity.Attempt) error {
	if a.N > 1 {
		return errors.New("only once")
	}
	return nil
}

func withBody(b io.ReadCloser) *http.Response {
	res := answer(503, "")
	res.Body, res.ContentLength = b, -1
	return res
}

func TestSmallAnswerIsSetAsideWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int{1, 511, 512, 513, 4095} {
			want := strings.Repeat("x", size)
			body := &watchedBody{Reader: strings.NewReader(want)}
			res, err := transport(t, replies(withBody(body)), refuseRetry()).RoundTrip(get(t, t.Context(), "http://a.example"))
			require.NoError(t, err)
			require.Equal(t, 1, body.closes, "the connection is free while the call waits")
			require.Equal(t, want, text(t, res))
			_, err = res.Body.Read(make([]byte, 1))
			require.Error(t, err, "closed")
		}
	})
}

func TestLargeAnswerStaysOpenUntilTheNextTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := strings.Repeat("y", 100_000)
		body := &watchedBody{Reader: strings.NewReader(want)}
		res, err := transport(t, replies(withBody(body)), refuseRetry()).RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		require.Zero(t, body.closes)
		require.Equal(t, want, text(t, res))
		require.Equal(t, 1, body.closes)

		large := &endless{}
		open := false
		n := 0
		base := tripper(func(req *http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return withBody(large), nil
			}
			open = !large.closed
			return answer(200, "fine"), nil
		})
		res, err = transport(t, base, comity.Config{}).RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
		require.False(t, open, "closed before the next try goes to the base")
		require.LessOrEqual(t, large.read, 4<<10)
	})
}

func TestStalledAnswerHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		res, err := transport(t, replies(withBody(newStalling("some"))), refuseRetry()).RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		b, err := io.ReadAll(res.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, "some", string(b))
		require.Less(t, time.Since(start), time.Second)
	})
}

func TestAnswerCutShortKeepsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := io.NopCloser(io.MultiReader(strings.NewReader("half"), broken{}))
		res, err := transport(t, replies(withBody(body)), refuseRetry()).RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		b, err := io.ReadAll(res.Body)
		require.Equal(t, "half", string(b))
		require.Equal(t, io.ErrUnexpectedEOF, err)
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
