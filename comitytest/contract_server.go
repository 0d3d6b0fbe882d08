package comitytest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
)

const (
	http1 = "http1"
	http2 = "http2"
)

// quiet takes what servers say of clients that leave.
var quiet = log.New(io.Discard, "", 0)

// server is a real server and the base that reaches it.
type server struct {
	*http.Transport
	url   string
	dials atomic.Int32
}

// serve starts h as a server of the case's protocol: on loopback, over TLS for
// HTTP/2; or in memory in a bubble, where a socket would stop the clock.
func (t *trial) serve(h http.HandlerFunc) *server {
	t.Helper()
	if t.bubble {
		return t.serveInMemory(h)
	}
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = quiet
	s := &server{Transport: &http.Transport{}}
	s.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	if t.proto == http2 {
		srv.EnableHTTP2 = true
		srv.StartTLS()
		roots := x509.NewCertPool()
		roots.AddCert(srv.Certificate())
		s.TLSClientConfig = &tls.Config{RootCAs: roots}
		s.ForceAttemptHTTP2 = true
	} else {
		srv.Start()
	}
	s.url = srv.URL
	t.Cleanup(func() {
		s.CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
	})
	return s
}

// serveInMemory serves over pipes, HTTP/2 in clear text.
func (t *trial) serveInMemory(h http.HandlerFunc) *server {
	ln := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	proto := new(http.Protocols)
	if t.proto == http2 {
		proto.SetUnencryptedHTTP2(true)
	} else {
		proto.SetHTTP1(true)
	}
	srv := &http.Server{Handler: h, Protocols: proto, ErrorLog: quiet}
	s := &server{Transport: &http.Transport{Protocols: proto}, url: "http://" + hostA}
	s.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		s.dials.Add(1)
		return ln.dial(ctx)
	}
	go srv.Serve(ln)
	t.Cleanup(func() {
		s.CloseIdleConnections()
		srv.Close()
	})
	return s
}

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// setbackFirst answers the first call with what the wrapper tries again after,
// if there is such a thing, and every other by h.
func (t *trial) setbackFirst(h http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 && t.c.trigger != nil {
			_, _ = io.Copy(io.Discard, r.Body)
			t.c.trigger.serve(w)
			return
		}
		h(w, r)
	}
}

// tap is a base that looks at what passes.
type tap struct {
	http.RoundTripper
	look func(*http.Request)
	n    atomic.Int32
}

func (p *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	p.n.Add(1)
	if p.look != nil {
		p.look(r)
	}
	return p.RoundTripper.RoundTrip(r)
}
