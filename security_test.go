package comity_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// What a hostile or broken server can say, and what it must not be able to do.

// absurd are delays that no call can wait for, in the header that carries them.
var absurd = []string{
	"99999999999", "9223372037", "9223372036854775807", "9223372036854775808", "18446744073709551616",
	strings.Repeat("9", 20), strings.Repeat("9", 400), "99999999999.5", "Fri, 31 Dec 9999 23:59:59 GMT",
}

func TestAbsurdDelayIsLeftToTheCaller(t *testing.T) {
	for _, value := range absurd {
		for _, code := range []int{429, 503} {
			t.Run(fmt.Sprintf("%d %.30s", code, value), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					base := replies(func() (*http.Response, error) {
						return answer(code, "wait", "Retry-After", value, "Date", time.Now().UTC().Format(http.TimeFormat)), nil
					})
					rt := transport(t, base, comity.Config{})
					began := time.Now()
					res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/"))
					require.NoError(t, err)
					require.Equal(t, code, res.StatusCode)
					body, err := io.ReadAll(res.Body)
					require.NoError(t, err)
					require.Equal(t, "wait", string(body))
					require.LessOrEqual(t, time.Since(began), 2*time.Minute+time.Second, "MaxWait is two minutes")
					require.LessOrEqual(t, base.count(), 10, "no storm")
					for i := 1; i < len(base.times); i++ {
						require.Positive(t, base.times[i].Sub(base.times[i-1]))
					}
				})
			})
		}
	}
}

// A server may close itself for a day at most, and whoever is refused meanwhile is
// told for how long.
func TestHeldDestinationSaysForHowLongAndOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(answer(429, "", "Retry-After", "2592000"), 200) // 30 days
		rt := transport(t, base, comity.Config{})
		res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/"))
		require.NoError(t, err)
		require.Equal(t, 429, res.StatusCode)
		began := time.Now()
		_, err = rt.RoundTrip(get(t, t.Context(), "http://a.example/"))
		require.Zero(t, time.Since(began))
		var refused *comity.ThrottledError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, comity.ReasonHeld, refused.Reason)
		require.Positive(t, refused.RetryAfter)
		require.LessOrEqual(t, refused.RetryAfter, 25*time.Hour)
		wait, ok := comity.RetryAfter(nil, err)
		require.True(t, ok)
		require.Equal(t, refused.RetryAfter, wait)
		time.Sleep(refused.RetryAfter)
		res, err = rt.RoundTrip(get(t, t.Context(), "http://a.example/"))
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
	})
}

// nonsense is what no delay can be made of, or none above zero.
var nonsense = []string{
	"NaN", "Inf", "-Inf", "+Inf", "1e309", "-1", "-9223372036854775808", "0", "0.0", "-0", "", " ", "soon", "0x10",
	"1e-400", "\x00", "1,2", "1;2", "١", "--1", "++1", "1 s", "P1D", "1_000", "00:00:01",
	"Thu, 01 Jan 1970 00:00:00 GMT", strings.Repeat("1", 100_000),
}

func TestNonsenseInHeadersIsNoDelayAndNoStorm(t *testing.T) {
	for _, name := range []string{"Retry-After", "X-RateLimit-Reset", "RateLimit-Reset", "RateLimit"} {
		t.Run(name, func(t *testing.T) {
			for _, value := range nonsense {
				for _, code := range []int{200, 429, 503} {
					synctest.Test(t, func(t *testing.T) {
						base := replies(func() (*http.Response, error) {
							return answer(code, "x", name, value, "X-RateLimit-Limit", value, "X-RateLimit-Remaining", value), nil
						})
						rt := transport(t, base, comity.Config{})
						began := time.Now()
						res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/"))
						require.NoError(t, err)
						res.Body.Close()
						require.LessOrEqual(t, time.Since(began), 2*time.Minute+time.Second, "%d %s %.40q", code, name, value)
						for i := 1; i < len(base.times); i++ {
							require.Positive(t, base.times[i].Sub(base.times[i-1]), "%d %s %.40q", code, name, value)
						}
						require.LessOrEqual(t, base.count(), 100, "%d %s %.40q", code, name, value)
					})
				}
			}
		})
	}
}

// measured is a body that counts what is read of it.
type measured struct {
	io.Reader
	read   atomic.Int64
	closed chan struct{}
}

func (m *measured) Read(p []byte) (int, error) {
	select {
	case <-m.closed:
		return 0, net.ErrClosed
	default:
	}
	n, err := m.Reader.Read(p)
	m.read.Add(int64(n))
	return n, err
}

func (m *measured) Close() error {
	select {
	case <-m.closed:
	default:
		close(m.closed)
	}
	return nil
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// stalled gives nothing until it is closed.
type stalled struct{ closed chan struct{} }

func (s stalled) Read([]byte) (int, error) { <-s.closed; return 0, net.ErrClosed }

func TestErrorBodyIsReadForFourKilobytesAndFiftyMilliseconds(t *testing.T) {
	for _, name := range []string{"endless", "stalled"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := &measured{closed: make(chan struct{}), Reader: zeros{}}
				if name == "stalled" {
					body.Reader = stalled{body.closed}
				}
				first := answer(503, "")
				first.Body, first.ContentLength = body, -1
				base := replies(first, 200)
				rt := transport(t, base, every(comity.Policy{Retry: comity.Retry{Base: time.Millisecond}}))
				began := time.Now()
				res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/"))
				require.NoError(t, err)
				require.Equal(t, 200, res.StatusCode)
				require.LessOrEqual(t, time.Since(began), 52*time.Millisecond)
				require.LessOrEqual(t, body.read.Load(), int64(4<<10))
				select {
				case <-body.closed:
				default:
					t.Error("the body is still open")
				}
			})
		})
	}
}

// What net/http unpacks counts as unpacked: 1 MiB of gzip may be 1 GiB.
func TestPackedErrorBodyIsReadForFourKilobytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bomb bytes.Buffer
		z := gzip.NewWriter(&bomb)
		_, err := io.CopyN(z, zeros{}, 1<<20)
		require.NoError(t, err)
		z.Close()
		var calls atomic.Int32
		serve := func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) > 1 {
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(503)
			_, _ = w.Write(bomb.Bytes())
		}
		base := pipeServer(t, serve)
		var unpacked *measured
		spy := tripper(func(r *http.Request) (*http.Response, error) {
			res, err := base.RoundTrip(r)
			if err == nil && unpacked == nil {
				require.True(t, res.Uncompressed)
				unpacked = &measured{Reader: res.Body, closed: make(chan struct{})}
				res.Body = unpacked
			}
			return res, err
		})
		rt := transport(t, spy, comity.Config{})
		res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example/"))
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
		res.Body.Close()
		require.LessOrEqual(t, unpacked.read.Load(), int64(4<<10))
	})
}

// pipeServer serves over pipes, for a bubble.
func pipeServer(t *testing.T, h http.HandlerFunc) *http.Transport {
	t.Helper()
	ln := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h}
	go srv.Serve(ln)
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		select {
		case ln.conns <- server:
			return client, nil
		case <-ln.done:
			return nil, net.ErrClosed
		}
	}}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		srv.Close()
	})
	return tr
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func TestManyHostsTakeBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, hosts = 200, 5_000
		rt := transport(t, &ok200{}, comity.Config{
			Policies:        map[string]comity.Policy{"": {Limits: []comity.Limit{comity.PerSecond(1000)}}},
			MaxDestinations: most,
		})
		for i := range hosts {
			res, err := rt.RoundTrip(get(t, t.Context(), fmt.Sprintf("http://h%d.example/", i)))
			require.NoError(t, err)
			res.Body.Close()
			if i%50 == 0 {
				time.Sleep(time.Second)
			}
		}
		require.LessOrEqual(t, len(rt.Destinations()), most)
	})
}

const secret = "s3cr3t"

// secretly returns a request that has a secret in each place where there may be
// one.
func secretly(t *testing.T, ctx context.Context) *http.Request {
	req := get(t, ctx, "http://user:"+secret+"@a.example/p?token="+secret)
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Cookie", "session="+secret)
	return req
}

func TestSecretsAppearNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		key := comity.CredentialKey("Authorization", "Cookie")
		base := replies(429, errors.New("lost"), 503, 200, 429)
		rt := transport(t, base, comity.Config{
			Policies: map[string]comity.Policy{"": {
				Key:     key,
				Limits:  []comity.Limit{{Name: "own", N: 1, Per: time.Second, Key: key}},
				MaxWait: 10 * time.Second,
				Guards:  []comity.Guard{comity.Adaptive{}},
			}},
			Trace: comity.LogTrace(logger),
		})
		var said []string
		note := func(err error) {
			for ; err != nil; err = errors.Unwrap(err) {
				said = append(said, fmt.Sprintf("%v %+v %#v", err, err, err))
			}
		}
		for range 6 {
			res, err := rt.RoundTrip(secretly(t, t.Context()))
			note(err)
			if err == nil {
				res.Body.Close()
			}
		}
		for _, d := range rt.Destinations() {
			rt.Hold(d.Key, time.Now().Add(time.Hour))
			said = append(said, fmt.Sprintf("%+v", d))
		}
		_, err := rt.RoundTrip(secretly(t, t.Context()))
		require.ErrorIs(t, err, comity.ErrThrottled)
		note(err)
		said = append(said, fmt.Sprintf("%+v", rt.Next(secretly(t, t.Context()))), key(secretly(t, t.Context())), log.String())
		require.NotEmpty(t, log.String())
		for _, s := range said {
			require.NotContains(t, s, secret)
		}
	})
}

// A redirect is the caller's: whoever follows it by itself carries credentials to
// another host.
func TestCredentialsStayAtTheirHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []int{301, 302, 303, 307, 308} {
			base := replies(answer(code, "", "Location", "http://evil.example/", "Retry-After", "1"), 200)
			rt := transport(t, base, comity.Config{})
			res, err := rt.RoundTrip(secretly(t, t.Context()))
			require.NoError(t, err)
			require.Equal(t, code, res.StatusCode)
			require.Equal(t, 1, base.count())
		}
		base := replies(503, 429, 200)
		rt := transport(t, base, comity.Config{})
		res, err := rt.RoundTrip(secretly(t, t.Context()))
		require.NoError(t, err)
		res.Body.Close()
		for _, r := range base.seen {
			require.Equal(t, "a.example", r.URL.Host)
		}
	})
}
