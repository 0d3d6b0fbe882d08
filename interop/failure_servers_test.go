package interop

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A victim is a base and the server, or the lack of one, that it talks to.
type victim struct {
	base *http.Transport
	url  string
	hits atomic.Int32 // requests the server has received
}

// raw starts a server on loopback that reads requests itself. act gets each one,
// numbered from 1 over all connections, and says whether the connection stays.
func raw(t *testing.T, act func(c *net.TCPConn, n int) (keep bool)) *victim {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	v := &victim{base: &http.Transport{}, url: "http://" + ln.Addr().String()}
	t.Cleanup(func() {
		ln.Close()
		v.base.CloseIdleConnections()
	})
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			tcp := c.(*net.TCPConn)
			go v.converse(tcp, func(n int) bool { return act(tcp, n) })
		}
	}()
	return v
}

// converse reads requests from c until act has enough of it.
func (v *victim) converse(c net.Conn, act func(n int) bool) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		n := int(v.hits.Add(1))
		if req.ContentLength < 1<<20 { // larger ones are cut by act
			_, _ = io.Copy(io.Discard, req.Body)
		}
		if !act(n) {
			return
		}
	}
}

// piped is raw over pipes, for a bubble. Its connections end with the test.
func piped(t *testing.T, act func(c net.Conn)) *victim {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	v := &victim{base: &http.Transport{}, url: "http://h1.example"}
	v.base.DialContext = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		context.AfterFunc(ctx, func() { server.Close() })
		go v.converse(server, func(int) bool { act(server); return true })
		return client, nil
	}
	t.Cleanup(func() {
		cancel()
		v.base.CloseIdleConnections()
	})
	return v
}

// reset ends c with a RST instead of a FIN.
func reset(c *net.TCPConn) bool {
	_ = c.SetLinger(0)
	return false
}

// says writes an answer and closes, as a server does that is cut.
func says(text string) func(*net.TCPConn, int) bool {
	return func(c *net.TCPConn, _ int) bool {
		_, _ = io.WriteString(c, text)
		return false
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// accepting starts a listener whose connections go to serve without a request
// being read.
func accepting(t *testing.T, scheme string, serve func(net.Conn)) *victim {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	v := &victim{base: &http.Transport{}, url: scheme + "://" + ln.Addr().String()}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			v.hits.Add(1)
			go serve(c)
		}
	}()
	return v
}

// dialing returns a base whose connections are made by d, to a port that is
// open.
func dialing(t *testing.T, d net.Dialer) *victim {
	t.Helper()
	v := accepting(t, "http", func(c net.Conn) { c.Close() })
	v.base.DialContext = d.DialContext
	return v
}

// secure starts a server of TLS.
func secure(t *testing.T, server, client *tls.Config) *victim {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = server
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return &victim{base: &http.Transport{TLSClientConfig: client}, url: srv.URL}
}

// closedPort returns an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

// named returns a base that asks a name server of its own, which answers with
// code, or never if code is negative.
func named(t *testing.T, code int) *victim {
	t.Helper()
	ns, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	v := &victim{base: &http.Transport{}, url: "http://host.test."}
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := ns.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || code < 0 {
				continue
			}
			m.Response, m.RCode, m.Additionals = true, dnsmessage.RCode(code), nil
			answer, err := m.Pack()
			if err == nil {
				_, _ = ns.WriteTo(answer, from)
			}
		}
	}()
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.DialUDP("udp", nil, ns.LocalAddr().(*net.UDPAddr))
	}}
	v.base.DialContext = (&net.Dialer{Resolver: resolver, Timeout: 100 * time.Millisecond}).DialContext
	return v
}

// frames starts a server of HTTP/2 in clear text over pipes, for a bubble. act
// gets each request's stream, numbered from 1 over all connections.
func frames(t *testing.T, act func(c *h2conn, stream uint32, n int)) *victim {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	proto := new(http.Protocols)
	proto.SetUnencryptedHTTP2(true)
	v := &victim{base: &http.Transport{Protocols: proto}, url: "http://h2.example"}
	v.base.DialContext = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		context.AfterFunc(ctx, func() { server.Close() })
		go v.frame(server, act)
		return client, nil
	}
	t.Cleanup(func() {
		cancel()
		v.base.CloseIdleConnections()
	})
	return v
}

// h2conn is a server's side of a connection.
type h2conn struct {
	*http2.Framer
	net.Conn
	silent bool // pings are not answered
}

// frame reads frames in one goroutine and answers in another: a pipe holds
// nothing, and both ends may write at once.
func (v *victim) frame(c net.Conn, act func(*h2conn, uint32, int)) {
	defer c.Close()
	todo := make(chan func(*h2conn), 10_000)
	defer close(todo)
	go func() {
		conn := &h2conn{Framer: http2.NewFramer(c, nil), Conn: c}
		_ = conn.WriteSettings()
		for f := range todo {
			f(conn)
		}
	}()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	received := func(stream uint32) { // the whole request
		n := int(v.hits.Add(1))
		todo <- func(c *h2conn) { act(c, stream, n) }
	}
	in := http2.NewFramer(nil, c)
	for {
		f, err := in.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				todo <- func(c *h2conn) { _ = c.WriteSettingsAck() }
			}
		case *http2.PingFrame:
			if data := f.Data; !f.IsAck() {
				todo <- func(c *h2conn) {
					if !c.silent {
						_ = c.WritePing(true, data)
					}
				}
			}
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				received(f.StreamID)
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				received(f.StreamID)
			}
		}
	}
}

// ok answers a stream with 200.
func (c *h2conn) ok(stream uint32) {
	var block writer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true, EndStream: true})
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
