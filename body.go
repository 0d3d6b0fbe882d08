package comity

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// body is the body of a response whose end something waits for: the first of EOF,
// an error, Close and the end of the request's context. Read and Close may be
// called at once, as net/http allows.
type body struct {
	io.ReadCloser
	a    *try
	stop func() bool
	done atomic.Bool
}

// endsNow reports whether a has no body whose end something needs, or none that
// can end.
func (a *try) endsNow() bool {
	res := a.Response
	if res == nil || res.Body == nil || res.Body == http.NoBody || a.root.Method == http.MethodHead {
		return true
	}
	switch res.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return true
	}
	if res.ContentLength == 0 && res.ProtoMajor == 2 { // net/http gives HTTP/1 NoBody
		return true
	}
	if a.own != nil {
		return false
	}
	return a.Call.Stream || !a.turn.pol.ends && len(a.entered) == 0
}

// wrap makes b the body of a's response.
func (b *body) wrap(a *try) {
	b.a, b.ReadCloser = a, a.Response.Body
	a.Response.Body = b
	if a.Call.Stream {
		a.leavePlace(a.now) // and only the try's own context is left to end
	}
	if ctx := a.root.Context(); ctx.Done() != nil {
		b.stop = context.AfterFunc(ctx, b.finish)
	}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.over()
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.over()
	return err
}

// over ends the call from the caller's side.
func (b *body) over() {
	if b.done.Load() {
		return
	}
	if b.stop != nil {
		b.stop()
	}
	b.finish()
}

func (b *body) finish() {
	if !b.done.Swap(true) {
		b.a.end(time.Now())
	}
}
