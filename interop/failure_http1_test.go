package interop

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	errCause = errors.New("the caller's cause")
	errBody  = errors.New("the body's own error")
)

// answering starts a server that says so much and closes.
func answering(s string) func(*testing.T) *victim {
	return func(t *testing.T) *victim { return raw(t, says(s)) }
}

// hanging starts a server in memory that never answers.
func hanging(t *testing.T) *victim { return piped(t, func(net.Conn) {}) }

// dying starts a server that answers its first request and kills every other.
func dying(heals bool) func(*testing.T) *victim {
	return func(t *testing.T) *victim {
		return raw(t, func(c *net.TCPConn, n int) bool {
			if n == 1 || heals && n > 2 {
				_, _ = io.WriteString(c, okAnswer)
				return true
			}
			return false
		})
	}
}

// http1Failures are those of a connection that stands.
func http1Failures() []failure {
	all := []failure{
		{name: "E16 request read, then closed", again: idem, match: is(io.EOF),
			start: func(t *testing.T) *victim {
				return raw(t, func(*net.TCPConn, int) bool { return false })
			}},
		{name: "E17 request read, then reset", again: idem, match: both(op("read"), is(syscall.ECONNRESET)),
			start: func(t *testing.T) *victim {
				return raw(t, func(c *net.TCPConn, _ int) bool { return reset(c) })
			}},
		{name: "E18 reused connection lost", again: never, methods: []string{"GET"}, primed: true, start: dying(true)},
		{name: "E19 reused connection lost", again: idem, methods: []string{"POST", "PUT", "DELETE"}, primed: true, varies: true,
			match: is(io.EOF, syscall.ECONNRESET), start: dying(false)},
		{name: "E20 headers cut", again: idem, match: is(io.ErrUnexpectedEOF), start: answering("HTTP/1.1 200 OK\r\nX-Half: ")},
		{name: "E22 headers too large", again: never, match: text("response headers exceeded"),
			start: func(t *testing.T) *victim {
				v := raw(t, says("HTTP/1.1 200 OK\r\nX-Large: "+strings.Repeat("x", 64<<10)+"\r\n\r\n"))
				v.base.MaxResponseHeaderBytes = 1 << 10
				return v
			}},
		{name: "E23 body short", again: never, inBody: true, match: is(io.ErrUnexpectedEOF),
			start: answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\ncut")},
		{name: "E23 chunk cut", again: never, inBody: true, match: is(io.ErrUnexpectedEOF),
			start: answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\ncut")},
		{name: "E23 gzip cut", again: never, inBody: true, match: is(io.ErrUnexpectedEOF), start: answering(halfGzip())},
		{name: "E24 reset in the body", again: never, inBody: true, match: both(op("read"), is(syscall.ECONNRESET)),
			start: func(t *testing.T) *victim {
				return raw(t, func(c *net.TCPConn, _ int) bool {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\ncut")
					time.Sleep(20 * time.Millisecond) // lets the client read what a reset would discard
					return reset(c)
				})
			}},
		{name: "E25 headers late", again: idem, match: is(context.DeadlineExceeded), bubble: true,
			start: func(t *testing.T) *victim {
				v := hanging(t)
				v.base.ResponseHeaderTimeout = 50 * time.Millisecond
				return v
			}},
		{name: "E27 deadline before the headers", again: never, limit: 50 * time.Millisecond, bubble: true,
			match: is(context.DeadlineExceeded), start: hanging},
		{name: "E27 deadline before a connection is free", again: never, limit: 50 * time.Millisecond, bubble: true,
			match: is(context.DeadlineExceeded), start: func(t *testing.T) *victim {
				v := hanging(t)
				v.base.MaxConnsPerHost = 1
				req := failure{}.fresh(t, "GET", v.url).WithContext(t.Context())
				go func() { _, _ = v.base.RoundTrip(req) }()
				synctest.Wait()
				return v
			}},
		{name: "E27 deadline in the body", again: never, limit: 50 * time.Millisecond, inBody: true, bubble: true,
			match: is(context.DeadlineExceeded), start: func(t *testing.T) *victim {
				return piped(t, func(c net.Conn) {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\ncut")
				})
			}},
		{name: "E28 canceled", again: never, cause: context.Canceled, match: is(context.Canceled), bubble: true, start: hanging},
		{name: "E29 Client.Timeout", again: never, client: 50 * time.Millisecond, bubble: true, varies: true,
			match: both(is(context.DeadlineExceeded), timeout), start: hanging},
		{name: "E30 canceled with a cause", again: never, cause: errCause, bubble: true,
			match: both(is(errCause), not(is(context.Canceled))), start: hanging},
		{name: "E31 deadline with a cause", again: never, cause: errCause, limit: 50 * time.Millisecond, bubble: true,
			match: both(is(errCause), not(is(context.DeadlineExceeded))), start: hanging},
		{name: "E33 body shorter than its length", again: never, unequal: true, racy: true, bubble: true, methods: []string{"PUT"}, match: text("ContentLength=10 with Body length 7"),
			start: hanging, request: func(t *testing.T, method, url string) *http.Request {
				req := failure{}.fresh(t, method, url)
				req.ContentLength = 10
				return req
			}},
		{name: "E33 body longer than its length", again: never, unequal: true, racy: true, bubble: true, methods: []string{"PUT"}, match: text("ContentLength=3 with Body length"),
			start: hanging, request: func(t *testing.T, method, url string) *http.Request {
				req := failure{}.fresh(t, method, url)
				req.ContentLength = 3
				return req
			}},
		{name: "E34 body cannot be read", again: never, unequal: true, bubble: true, methods: []string{"PUT", "POST"}, match: is(errBody),
			start: hanging, request: func(t *testing.T, method, url string) *http.Request {
				req := failure{}.fresh(t, method, url)
				req.Body = io.NopCloser(iotest.ErrReader(errBody))
				req.ContentLength = -1
				return req
			}},
		{name: "E35 reset while the body is sent", again: idem, varies: true, methods: []string{"PUT", "POST"}, match: is(syscall.EPIPE, syscall.ECONNRESET, net.ErrClosed),
			start: func(t *testing.T) *victim {
				return raw(t, func(c *net.TCPConn, _ int) bool { return reset(c) })
			}, request: func(t *testing.T, method, url string) *http.Request {
				req, err := http.NewRequest(method, url, bytes.NewReader(make([]byte, 16<<20)))
				require.NoError(t, err)
				return req
			}},
	}
	for name, answer := range map[string]string{
		"status":         "HTTP/1.1 what\r\n\r\n",
		"protocol":       "SSH-2.0-OpenSSH\r\n\r\n",
		"header":         "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"Content-Length": "HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n",
		"two lengths":    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"unknown coding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: zip\r\n\r\n",
	} {
		all = append(all, failure{name: "E21 malformed " + name, again: never, match: text("transport connection broken"), start: answering(answer)})
	}
	for name, spoil := range map[string]func(*http.Request){
		"unknown scheme": func(r *http.Request) { r.URL.Scheme = "gopher" },
		"no host":        func(r *http.Request) { r.URL.Host = "" },
		"bad method":     func(r *http.Request) { r.Method = "G E T" },
		"bad header":     func(r *http.Request) { r.Header["X-Bad"] = []string{"a\nb"} },
	} {
		all = append(all, failure{name: "E32 " + name, again: never, bubble: true, match: func(err error) bool { return err != nil },
			start: hanging, request: func(t *testing.T, method, url string) *http.Request {
				req := failure{}.fresh(t, method, url)
				spoil(req)
				return req
			}})
	}
	return all
}

// halfGzip is an answer whose coding ends early.
func halfGzip() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, strings.Repeat("content", 1000))
	z.Close()
	half := b.Bytes()[:b.Len()/2]
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(half), half)
}
