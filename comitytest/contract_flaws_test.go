package comitytest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"sync"
)

// A flaw is a wrapper that breaks one clause.
type flaw struct {
	name   string
	clause string // that has to notice
	wrap   func(http.RoundTripper) http.RoundTripper
}

// inRetrier returns the flaw of the same name of the reference.
func inRetrier(clause, name string) flaw {
	return flaw{name, clause, func(base http.RoundTripper) http.RoundTripper {
		return &retrier{base: base, flaws: []string{name}}
	}}
}

// beforeRetrier returns a flaw in a wrapper that does not try again by itself;
// one that does stands below it.
func beforeRetrier(clause, name string, f func(next http.RoundTripper, r *http.Request) (*http.Response, error)) flaw {
	return flaw{name, clause, func(base http.RoundTripper) http.RoundTripper {
		return flawed{&retrier{base: base}, f}
	}}
}

type flawed struct {
	*retrier
	f func(http.RoundTripper, *http.Request) (*http.Response, error)
}

func (f flawed) RoundTrip(r *http.Request) (*http.Response, error) { return f.f(f.retrier, r) }

// onRequest is a flaw in what is passed on.
func onRequest(clause, name string, f func(r *http.Request) *http.Request) flaw {
	return beforeRetrier(clause, name, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		return next.RoundTrip(f(r))
	})
}

// onCopy is a flaw in a shallow copy that is passed on.
func onCopy(clause, name string, f func(r *http.Request)) flaw {
	return onRequest(clause, name, func(r *http.Request) *http.Request {
		c := *r
		f(&c)
		return &c
	})
}

// onResponse is a flaw in what is handed back.
func onResponse(clause, name string, f func(*http.Response) (*http.Response, error)) flaw {
	return beforeRetrier(clause, name, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		return f(res)
	})
}

// onError is a flaw in an error.
func onError(clause, name string, f func(error) error) flaw {
	return beforeRetrier(clause, name, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(r)
		if err != nil {
			err = f(err)
		}
		return res, err
	})
}

// onBody is a flaw in a body of a response.
func onBody(clause, name string, f func(io.ReadCloser) io.ReadCloser) flaw {
	return onResponse(clause, name, func(res *http.Response) (*http.Response, error) {
		if res.Body != nil {
			res.Body = f(res.Body)
		}
		return res, nil
	})
}

// body is one whose parts can be replaced.
type body struct {
	io.Reader
	close func() error
}

func (b *body) Close() error { return b.close() }

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

var requestFlaws = []flaw{
	onRequest("R1", "adds a header to the caller's request", func(r *http.Request) *http.Request {
		if r.Header != nil {
			r.Header.Set("Traceparent", "1")
		}
		return r
	}),
	onRequest("R1", "replaces the caller's Body", func(r *http.Request) *http.Request {
		if hasBody(r) {
			r.Body = &body{r.Body, r.Body.Close}
		}
		return r
	}),
	beforeRetrier("R2", "adds a header while in flight", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Header == nil {
			return next.RoundTrip(r)
		}
		r.Header.Set("Traceparent", "1")
		defer r.Header.Del("Traceparent")
		return next.RoundTrip(r)
	}),
	onCopy("R3", "does not pass Close on", func(r *http.Request) {
		if hasBody(r) {
			r.Body = io.NopCloser(r.Body)
		}
	}),
	beforeRetrier("R4", "closes the body after a response only", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		c := *r
		if hasBody(r) {
			c.Body = io.NopCloser(r.Body)
		}
		res, err := next.RoundTrip(&c)
		if err == nil && r.Body != nil {
			r.Body.Close()
		}
		return res, err
	}),
	inRetrier("R5", "leaves the body of a dead call open"),
	inRetrier("R6", "leaves the copy of a cut wait open"),
	inRetrier("R7", "sends the same body twice"),
	onCopy("R8", "hides NoBody", func(r *http.Request) {
		if r.Body == http.NoBody {
			r.Body = &body{r.Body, r.Body.Close}
		}
	}),
	inRetrier("R9", "forgets the length"),
	inRetrier("R10", "replays nothing"),
	onCopy("R11", "buffers the upload", func(r *http.Request) {
		if hasBody(r) {
			b, _ := io.ReadAll(r.Body)
			r.Body = &body{bytes.NewReader(b), r.Body.Close}
		}
	}),
	inRetrier("R12", "clones"),
	onCopy("R13", "peeks into the upload", func(r *http.Request) {
		if hasBody(r) {
			first := make([]byte, 1)
			n, _ := io.ReadFull(r.Body, first)
			r.Body = &body{io.MultiReader(bytes.NewReader(first[:n]), r.Body), r.Body.Close}
		}
	}),
	onRequest("R14", "replaces the context", replaceContext),
	onRequest("R14", "adds the caller's hooks again", func(r *http.Request) *http.Request {
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
			again := *trace
			return r.WithContext(httptrace.WithClientTrace(r.Context(), &again))
		}
		return r
	}),
	inRetrier("R15", "doubles a header"),
	inRetrier("R16", "replays nothing if GetBody fails"),
	{"mixes answers up", "R17", mixer},
	beforeRetrier("R18", "takes the URL for granted", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		_ = r.URL.Hostname()
		return next.RoundTrip(r)
	}),
	beforeRetrier("R18", "leaves the body of an invalid request open", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.URL == nil {
			return nil, errors.New("no URL")
		}
		return next.RoundTrip(r)
	}),
	beforeRetrier("R19", "refuses RequestURI", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.RequestURI != "" {
			return nil, errors.New("RequestURI is set")
		}
		return next.RoundTrip(r)
	}),
	inRetrier("R20", "drops framing"),
	inRetrier("R21", "retries upgrades"),
	inRetrier("R22", "drops Request.Cancel"),
	onCopy("R23", "takes length zero for no body", func(r *http.Request) {
		if hasBody(r) && r.ContentLength == 0 {
			r.Body.Close()
			r.Body, r.GetBody = http.NoBody, nil
		}
	}),
}

// mixer hands the response of the last call to the next one.
func mixer(base http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	var kept *http.Response
	return flawed{&retrier{base: base}, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(r)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && kept != nil {
			res, kept = kept, res
		} else if err == nil && r.Header.Get("X-Id") == "3-3" {
			kept = res
			return next.RoundTrip(r)
		}
		return res, err
	}}
}

var responseFlaws = []flaw{
	onResponse("B1", "turns 4xx into an error", func(res *http.Response) (*http.Response, error) {
		if res.StatusCode/100 == 4 && res.Body != nil {
			res.Body.Close()
			return nil, errors.New(res.Status)
		}
		return res, nil
	}),
	inRetrier("B1", "retries 404"),
	inRetrier("B2", "turns the last response into an error"),
	beforeRetrier("B3", "follows redirects", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		c := *r
		c.RequestURI = ""
		return (&http.Client{Transport: next}).Do(&c)
	}),
	onCopy("B4", "drops Request.Response", func(r *http.Request) { r.Response = nil }),
	onResponse("B5", "drops Response.Request", func(res *http.Response) (*http.Response, error) {
		res.Request = nil
		return res, nil
	}),
	onResponse("B6", "measures the body", func(res *http.Response) (*http.Response, error) {
		if res.Request.Method == "HEAD" {
			res.ContentLength = 0
		}
		return res, nil
	}),
	onBody("B7", "hides Write", func(b io.ReadCloser) io.ReadCloser { return &body{b, b.Close} }),
	onCopy("B8", "asks for gzip itself", func(r *http.Request) {
		r.Header = r.Header.Clone()
		if r.Header != nil {
			r.Header.Set("Accept-Encoding", "gzip")
		}
	}),
	onResponse("B9", "copies the response", func(res *http.Response) (*http.Response, error) {
		c := *res
		return &c, nil
	}),
	onBody("B10", "buffers the response", func(b io.ReadCloser) io.ReadCloser {
		if _, ok := b.(io.Writer); ok {
			return b
		}
		all, _ := io.ReadAll(b)
		return &body{bytes.NewReader(all), b.Close}
	}),
	beforeRetrier("B11", "cancels what the body needs", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		return next.RoundTrip(r.WithContext(ctx))
	}),
	beforeRetrier("B12", "forgets the context after the headers", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
		stop := context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
		defer stop()
		res, err := next.RoundTrip(r.WithContext(ctx))
		if err == nil && res.Body != nil {
			b := res.Body
			done := r.Context().Done()
			res.Body = &body{readerFunc(func(p []byte) (int, error) {
				n, err := b.Read(p)
				select {
				case <-done:
					return n, io.EOF
				default:
				}
				return n, err
			}), b.Close}
			context.AfterFunc(r.Context(), func() { b.Close() })
		}
		return res, err
	}),
	onCopy("B13", "closes connections", func(r *http.Request) { r.Close = true }),
	onBody("B13", "closes once only", func(b io.ReadCloser) io.ReadCloser {
		closed := false
		return &body{b, func() error {
			if closed {
				return errors.New("closed already")
			}
			closed = true
			return b.Close()
		}}
	}),
	onBody("B14", "drains at Close", func(b io.ReadCloser) io.ReadCloser {
		return &body{b, func() error {
			_, _ = io.Copy(io.Discard, io.LimitReader(b, 1<<24))
			return b.Close()
		}}
	}),
	onRequest("B15", "replaces the context", replaceContext),
	onBody("B16", "hides a cut", func(b io.ReadCloser) io.ReadCloser {
		return &body{readerFunc(func(p []byte) (int, error) {
			n, err := b.Read(p)
			if err != nil {
				err = io.EOF
			}
			return n, err
		}), b.Close}
	}),
	onResponse("B17", "hides TLS", func(res *http.Response) (*http.Response, error) {
		res.TLS = nil
		return res, nil
	}),
	inRetrier("B18", "abandons responses open"),
	inRetrier("B18", "drains without bound"),
	inRetrier("B19", "closes without draining"),
	inRetrier("B20", "takes any body for granted"),
	{"keeps cookies", "B21", func(base http.RoundTripper) http.RoundTripper {
		jar, _ := cookiejar.New(nil)
		return flawed{&retrier{base: base}, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.URL == nil || r.Header == nil {
				return next.RoundTrip(r)
			}
			c := *r
			c.Header = r.Header.Clone()
			for _, cookie := range jar.Cookies(r.URL) {
				c.AddCookie(cookie)
			}
			res, err := next.RoundTrip(&c)
			if err == nil {
				jar.SetCookies(r.URL, res.Cookies())
			}
			return res, err
		}}
	}},
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// replaceContext keeps the end of a context, and loses its values.
func replaceContext(r *http.Request) *http.Request {
	ctx, cancel := context.WithCancelCause(context.Background())
	context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
	return r.WithContext(ctx)
}
