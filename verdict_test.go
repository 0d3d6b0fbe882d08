package comity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// verdictOf sends one call that ends as given and returns the Verdict of its only
// try.
func verdictOf(t *testing.T, ends any, p comity.Policy) comity.Verdict {
	t.Helper()
	var got comity.Verdict
	cfg := every(p)
	cfg.Trace = &comity.Trace{Done: func(a *comity.Attempt) { got = a.Verdict }}
	ctx := comity.WithCall(t.Context(), comity.Call{Retries: -1})
	_, _ = transport(t, replies(ends), cfg).RoundTrip(get(t, ctx, "http://a.example"))
	return got
}

func TestVerdictOfAStatus(t *testing.T) {
	for want, answers := range map[comity.Verdict][]*http.Response{
		comity.Accepted: {answer(200, ""), answer(301, ""), answer(400, ""), answer(403, ""), answer(404, ""), answer(408, ""), answer(409, ""),
			answer(413, ""), answer(418, ""), answer(420, ""), answer(421, ""), answer(425, ""), answer(409, "", "Retry-After", "5"),
			answer(403, "", "Retry-After", "0"), answer(403, "", "RateLimit-Limit", "10", "RateLimit-Remaining", "3", "RateLimit-Reset", "5"),
			answer(202, "", "Retry-After", "5")},
		comity.Limited: {answer(429, ""), answer(429, "", "Retry-After", "5"), answer(403, "", "Retry-After", "5"),
			answer(403, "", "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "5"), answer(400, "", "Retry-After", "5"),
			answer(413, "", "Retry-After", "5"), answer(418, "", "Retry-After", "5"), answer(420, "", "Retry-After", "5")},
		comity.Overloaded: {answer(502, ""), answer(503, ""), answer(504, ""), answer(520, ""), answer(524, ""), answer(529, ""), answer(503, "", "Retry-After", "5")},
		comity.Broken:     {answer(500, ""), answer(501, ""), answer(505, ""), answer(525, ""), answer(599, "")},
	} {
		for _, a := range answers {
			synctest.Test(t, func(t *testing.T) {
				require.Equal(t, want, verdictOf(t, a, comity.Policy{}), "%d %v", a.StatusCode, a.Header)
			})
		}
	}
}

func TestVerdictOfAnError(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	sys := func(e syscall.Errno) error { return os.NewSyscallError("connect", e) }
	for want, errs := range map[comity.Verdict][]error{
		comity.Unsent: {errNoHost, errNoFile, dial(sys(syscall.ENFILE)), dial(sys(syscall.ENOBUFS)), dial(sys(syscall.ENOMEM)),
			dial(sys(syscall.EADDRNOTAVAIL)), dial(sys(syscall.ENETUNREACH)), dial(sys(syscall.ENETDOWN)),
			&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"},
			tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, http.ErrSchemeMismatch,
			&net.OpError{Op: "remote error", Err: tls.AlertError(70)},
			errors.New(`net/http: invalid header field value for "X"`), errors.New(`unsupported protocol scheme "foo"`)},
		comity.Overloaded: {errRefusedDial, errServfail, errReset, io.EOF, io.ErrUnexpectedEOF, errors.New("anything"),
			&net.OpError{Op: "proxyconnect", Net: "tcp", Err: dial(sys(syscall.ECONNREFUSED))}, dial(os.ErrDeadlineExceeded), dial(sys(syscall.EHOSTUNREACH)),
			errors.New("net/http: TLS handshake timeout"), os.ErrDeadlineExceeded, context.DeadlineExceeded,
			fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", io.ErrUnexpectedEOF),
			streamError{1, 2, nil}, streamError{1, 7, nil}, errors.New("http2: client connection lost"),
			errors.New("http2: Transport: cannot retry err [stream error: stream ID 1; REFUSED_STREAM] after Request.Body was written; define Request.GetBody to avoid this error")},
		comity.Limited: {streamError{3, 0xb, nil}, errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"),
			errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=ENHANCE_YOUR_CALM, debug=\"\"")},
		comity.Broken: {errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP status code "x"`),
			errors.New("net/http: server response headers exceeded 100 bytes; aborted")},
	} {
		for _, err := range errs {
			synctest.Test(t, func(t *testing.T) {
				require.Equal(t, want, verdictOf(t, err, comity.Policy{}), "%T %v", err, err)
			})
		}
	}
}

// streamError lets itself be found as net/http's does: by a type with its fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("stream error: stream ID %d", e.StreamID) }

func (e streamError) As(target any) bool { return copyFields(e, target) }

func TestClassifyHasTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before comity.Verdict
		classify := func(a *comity.Attempt) comity.Verdict {
			before = a.Verdict
			return comity.Broken
		}
		require.Equal(t, comity.Broken, verdictOf(t, 429, comity.Policy{Classify: classify}))
		require.Equal(t, comity.Limited, before)
	})
}

func TestCallersOwnDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		usual, deadline time.Duration
		call            comity.Call
		meanwhile       bool
		want            comity.Verdict
	}{
		"too short to tell":    {0, 99 * time.Millisecond, comity.Call{}, false, comity.Canceled},
		"long enough":          {0, 200 * time.Millisecond, comity.Call{}, false, comity.Overloaded},
		"half the usual":       {time.Second, 400 * time.Millisecond, comity.Call{}, false, comity.Canceled},
		"more than half of it": {time.Second, 600 * time.Millisecond, comity.Call{}, false, comity.Overloaded},
		"others are answered":  {0, time.Second, comity.Call{}, true, comity.Canceled},
		"a stream":             {0, time.Second, comity.Call{Stream: true}, false, comity.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got comity.Verdict
				base := tripper(func(req *http.Request) (*http.Response, error) {
					if req.URL.Path == "/fast" {
						time.Sleep(c.usual)
						return answer(200, ""), nil
					}
					<-req.Context().Done()
					return nil, req.Context().Err()
				})
				rt := transport(t, base, comity.Config{Trace: &comity.Trace{Done: func(a *comity.Attempt) { got = a.Verdict }}})
				fast := func() { _, _ = rt.RoundTrip(get(t, t.Context(), "http://a.example/fast")) }
				if c.usual > 0 {
					fast()
				}
				if c.meanwhile {
					time.AfterFunc(c.deadline/2, fast)
				}
				ctx, cancel := context.WithTimeout(comity.WithCall(t.Context(), c.call), c.deadline)
				defer cancel()
				_, err := rt.RoundTrip(get(t, ctx, "http://a.example/slow"))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, c.want, got)
			})
		})
	}
}

func TestCancelIsAskedBeforeTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got comity.Verdict
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the user left")
		base := tripper(func(req *http.Request) (*http.Response, error) {
			cancel(cause)
			return nil, context.Cause(req.Context())
		})
		rt := transport(t, base, comity.Config{Trace: &comity.Trace{Done: func(a *comity.Attempt) { got = a.Verdict }}})
		_, err := rt.RoundTrip(get(t, ctx, "http://a.example"))
		require.Equal(t, cause, err)
		require.Equal(t, comity.Canceled, got)
	})
}

// copyFields is how net/http/h2_error.go does it.
func copyFields(e streamError, target any) bool {
	dst := reflect.ValueOf(target).Elem()
	src := reflect.ValueOf(e)
	if dst.Kind() != reflect.Struct || dst.NumField() != src.NumField() {
		return false
	}
	for i := range src.NumField() {
		sf, df := src.Type().Field(i), dst.Type().Field(i)
		if sf.Name != df.Name || !sf.Type.ConvertibleTo(df.Type) {
			return false
		}
	}
	for i := range src.NumField() {
		dst.Field(i).Set(src.Field(i).Convert(dst.Field(i).Type()))
	}
	return true
}
