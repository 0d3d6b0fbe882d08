package interop

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"
)

// op holds for an OpError of that operation.
func op(name string) func(error) bool {
	return as(func(e *net.OpError) bool { return e.Op == name })
}

// failing returns a dialer whose connections fail with errno.
func failing(call string, errno syscall.Errno) net.Dialer {
	return net.Dialer{Control: func(string, string, syscall.RawConn) error {
		return os.NewSyscallError(call, errno)
	}}
}

// connectFailures are those before a connection stands.
func connectFailures() []failure {
	return []failure{
		{name: "E1 connection refused", again: always, match: both(op("dial"), is(syscall.ECONNREFUSED)),
			start: func(t *testing.T) *victim {
				return &victim{base: &http.Transport{}, url: "http://" + closedPort(t)}
			}},
		{name: "E2 proxy refused", again: always, match: both(op("proxyconnect"), is(syscall.ECONNREFUSED)),
			start: func(t *testing.T) *victim {
				proxy := &url.URL{Scheme: "http", Host: closedPort(t)}
				return &victim{base: &http.Transport{Proxy: http.ProxyURL(proxy)}, url: "https://host.test"}
			}},
		{name: "E3 no such host", again: never, match: as(func(e *net.DNSError) bool { return e.IsNotFound && !e.IsTemporary }),
			start: func(t *testing.T) *victim { return named(t, 3) }},
		{name: "E4 name server fails", again: always, match: as(func(e *net.DNSError) bool { return e.IsTemporary }),
			start: func(t *testing.T) *victim { return named(t, 2) }},
		{name: "E5 name server silent", again: always,
			match: both(as(func(e *net.DNSError) bool { return e.IsTimeout }), is(context.DeadlineExceeded)),
			start: func(t *testing.T) *victim { return named(t, -1) }},
		{name: "E6 dial times out", again: always, match: both(op("dial"), is(context.DeadlineExceeded)),
			start: func(t *testing.T) *victim { return dialing(t, net.Dialer{Timeout: time.Nanosecond}) }},
		{name: "E7 context over while dialing", again: never, match: is(context.DeadlineExceeded), limit: 50 * time.Millisecond,
			start: func(t *testing.T) *victim {
				v := dialing(t, net.Dialer{})
				v.base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return v
			}},
		{name: "E8 reset before accept", again: always, match: both(op("dial"), is(syscall.ECONNRESET)),
			start: func(t *testing.T) *victim { return dialing(t, failing("connect", syscall.ECONNRESET)) }},
		{name: "E9 out of descriptors", again: always, match: both(op("dial"), is(syscall.EMFILE)),
			start: func(t *testing.T) *victim { return dialing(t, failing("socket", syscall.EMFILE)) }},
		{name: "E10 TLS handshake times out", again: always,
			match: both(text("TLS handshake timeout"), not(is(context.DeadlineExceeded))),
			start: func(t *testing.T) *victim {
				v := accepting(t, "https", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
				v.base.TLSHandshakeTimeout = 50 * time.Millisecond
				return v
			}},
		{name: "E11 reset in the handshake", again: idem, varies: true, match: is(syscall.ECONNRESET, io.EOF, io.ErrUnexpectedEOF),
			start: func(t *testing.T) *victim {
				return accepting(t, "https", func(c net.Conn) {
					_, _ = c.Read(make([]byte, 1))
					reset(c.(*net.TCPConn))
					c.Close()
				})
			}},
		{name: "E12 unknown authority", again: never, match: as(func(*tls.CertificateVerificationError) bool { return true }),
			start: func(t *testing.T) *victim { return secure(t, nil, nil) }},
		{name: "E13 client certificate wanted", again: never, match: both(op("remote error"), text("tls:")),
			start: func(t *testing.T) *victim {
				return secure(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12},
					&tls.Config{InsecureSkipVerify: true})
			}},
		{name: "E13 version not spoken", again: never, match: both(op("remote error"), text("protocol version")),
			start: func(t *testing.T) *victim {
				return secure(t, &tls.Config{MaxVersion: tls.VersionTLS12},
					&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
			}},
		{name: "E14 TLS to a plain port", again: never, match: is(http.ErrSchemeMismatch),
			start: func(t *testing.T) *victim {
				return accepting(t, "https", func(c net.Conn) {
					_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
					_, _ = c.Read(make([]byte, 1))
					c.Close()
				})
			}},
		{name: "E15 accepted, then closed", again: idem, varies: true, match: is(syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF),
			start: func(t *testing.T) *victim {
				return accepting(t, "http", func(c net.Conn) {
					_, _ = c.Read(make([]byte, 1)) // else the client may take it for one that was idle
					c.Close()
				})
			}},
		{name: "E36 proxy answers CONNECT with 407", again: idem, match: text("Proxy Authentication Required"),
			start: proxy("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")},
		{name: "E36 proxy answers CONNECT with 503", again: idem, match: text("Nope"),
			start: proxy("HTTP/1.1 503 Nope\r\n\r\n")},
	}
}

// proxy starts one that answers CONNECT so.
func proxy(answer string) func(*testing.T) *victim {
	return func(t *testing.T) *victim {
		v := raw(t, says(answer))
		at, _ := url.Parse(v.url)
		v.base.Proxy = http.ProxyURL(at)
		v.url = "https://host.test"
		return v
	}
}
