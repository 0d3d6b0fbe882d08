package comitytest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// retrier is a small round tripper that tries again and keeps every clause, to
// show that all of them can be kept at once. Its flaws, if any, make it break
// them one by one.
type retrier struct {
	base  http.RoundTripper
	flaws []string
}

func (c *retrier) has(flaw string) bool { return slices.Contains(c.flaws, flaw) }

func (c *retrier) CloseIdleConnections() {
	if b, ok := c.base.(interface{ CloseIdleConnections() }); ok && !c.has("keeps idle connections") {
		b.CloseIdleConnections()
	}
}

func (c *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if ctx.Err() != nil {
		if req.Body != nil && !c.has("leaves the body of a dead call open") {
			req.Body.Close()
		}
		return nil, context.Cause(ctx)
	}
	attempt := req
	for n := 1; ; n++ {
		res, err := c.base.RoundTrip(attempt)
		delay, again := c.again(req, res, err, n)
		if !again {
			return c.last(res, err, n)
		}
		if d, ok := ctx.Deadline(); ok && time.Until(d) <= delay && !c.has("sleeps past the deadline") {
			return res, err
		}
		next, failed := c.next(req)
		if failed != nil {
			return res, err
		}
		c.setAside(res)
		if !c.wait(ctx, delay) {
			if next.Body != nil && !c.has("leaves the copy of a cut wait open") {
				next.Body.Close()
			}
			if c.has("hides the cause") {
				return nil, errors.New("gave up")
			}
			return nil, context.Cause(ctx)
		}
		attempt = next
	}
}

// last hands over what is not tried again.
func (c *retrier) last(res *http.Response, err error, n int) (*http.Response, error) {
	if c.has("turns the last response into an error") && err == nil && n > 1 && res.StatusCode >= 429 {
		res.Body.Close()
		return nil, errors.New("giving up")
	}
	return res, err
}

// again says whether to try again, and after what time.
func (c *retrier) again(req *http.Request, res *http.Response, err error, n int) (time.Duration, bool) {
	if n >= 3 || !c.replayable(req) {
		return 0, false
	}
	// Full jitter: random below a bound that doubles, and never nothing.
	delay := 1 + rand.N(500*time.Millisecond<<(n-1))
	if c.has("does not wait") {
		delay = 0
	}
	if err != nil {
		return delay, req.Context().Err() == nil && (c.has("retries any error") || transient(err))
	}
	switch res.StatusCode {
	case 404:
		return delay, c.has("retries 404")
	case 500:
		return delay, c.has("retries any method") && req.Method == "POST"
	case 429:
		if c.has("returns 429") {
			return 0, false
		}
	case 502, 503, 504:
	default:
		return 0, false
	}
	told, long := retryAfter(res.Header)
	if c.has("caps Retry-After at a second") {
		told, long = min(told, time.Second), false
	}
	return max(delay, told), !long
}

// replayable says whether req may be sent twice and can be.
func (c *retrier) replayable(req *http.Request) bool {
	if c.has("retries any method") {
		return true
	}
	if (req.Method == "CONNECT" || req.Header.Get("Upgrade") != "") && !c.has("retries upgrades") {
		return false
	}
	switch req.Method {
	case "", "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "CONNECT":
	default:
		if req.Header.Get("Idempotency-Key") == "" {
			return false
		}
	}
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil || c.has("replays nothing")
}

// next returns the request for another try. The copy is shallow: it shares
// Trailer, which the caller fills in while the body is read.
func (c *retrier) next(req *http.Request) (*http.Request, error) {
	r := new(http.Request)
	*r = *req
	if c.has("clones") {
		r = req.Clone(req.Context())
	}
	if c.has("doubles a header") {
		r.Header = r.Header.Clone()
		r.Header.Add("Authorization", req.Header.Get("Authorization"))
	}
	if c.has("forgets the length") && req.ContentLength > 0 {
		r.ContentLength = -1
	}
	if c.has("drops Request.Cancel") {
		//lint:ignore SA1019 the flaw is about it
		r.Cancel = nil
	}
	if c.has("drops framing") {
		r.Close, r.TransferEncoding = false, nil
	}
	if req.Body == nil || req.Body == http.NoBody || c.has("sends the same body twice") {
		return r, nil
	}
	if req.GetBody == nil && c.has("replays nothing") {
		r.Body = http.NoBody
		return r, nil
	}
	if req.GetBody == nil {
		return nil, errors.New("no GetBody")
	}
	body, err := req.GetBody()
	if err != nil && c.has("replays nothing if GetBody fails") {
		r.Body = http.NoBody
		return r, nil
	}
	r.Body = body
	return r, err
}

// setAside closes an answer that is not returned. A short body is read first, so
// that its connection is free.
func (c *retrier) setAside(res *http.Response) {
	if res == nil || c.has("abandons responses open") {
		return
	}
	if c.has("takes any body for granted") {
		res.Body.Close()
		return
	}
	if res.Body == nil {
		return
	}
	stalled := time.AfterFunc(50*time.Millisecond, func() { res.Body.Close() })
	switch {
	case c.has("drains without bound"):
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<30))
	case !c.has("closes without draining"):
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10))
	}
	stalled.Stop()
	res.Body.Close()
}

// wait returns false if ctx ended first.
func (c *retrier) wait(ctx context.Context, d time.Duration) bool {
	if c.has("sleeps through a cancel") || c.has("sleeps past the deadline") {
		time.Sleep(d)
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// transient says whether err may be the network's fault.
func transient(err error) bool {
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &cert) || errors.As(err, &unknown) {
		return false
	}
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &op) && (op.Op == "dial" || op.Op == "read") || strings.HasPrefix(err.Error(), "stream error")
}

// retryAfter reads the field; long is true for what is better left to the caller.
func retryAfter(h http.Header) (d time.Duration, long bool) {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil && n > 0 {
		return time.Duration(min(n, 3600)) * time.Second, n > 120
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, at.Sub(now)), at.Sub(now) > 2*time.Minute
}
