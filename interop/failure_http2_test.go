package interop

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comity/comity"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// onStream starts a server that does act to each stream, or to the first alone.
func onStream(heals bool, act func(c *h2conn, stream uint32)) func(*testing.T) *victim {
	return func(t *testing.T) *victim {
		return frames(t, func(c *h2conn, stream uint32, n int) {
			if heals && n > 1 {
				c.ok(stream)
				return
			}
			act(c, stream)
		})
	}
}

// stream resets a stream.
func stream(code http2.ErrCode) func(*h2conn, uint32) {
	return func(c *h2conn, stream uint32) { _ = c.WriteRSTStream(stream, code) }
}

// goAway ends a connection at last; the server closes it too if it says so.
func goAway(code http2.ErrCode, covers, closes bool) func(*h2conn, uint32) {
	return func(c *h2conn, stream uint32) {
		last := uint32(0)
		if covers {
			last = stream
		}
		_ = c.WriteGoAway(last, code, nil)
		if closes {
			c.Close()
		}
	}
}

// withoutCopy is a request whose body cannot be had again.
func withoutCopy(t *testing.T, method, url string) *http.Request {
	req := failure{}.fresh(t, method, url)
	req.GetBody = nil
	return req
}

// isStream holds for the reset of a stream by code: net/http copies its error
// into that of x/net.
func isStream(code http2.ErrCode) func(error) bool {
	return as(func(e http2.StreamError) bool { return e.Code == code })
}

func http2Failures() []failure {
	all := []failure{
		{name: "E26 headers late", again: idem, match: both(text("timeout awaiting response headers"), not(is(context.DeadlineExceeded))),
			start: func(t *testing.T) *victim {
				v := frames(t, func(*h2conn, uint32, int) {})
				v.base.ResponseHeaderTimeout = time.Second
				return v
			}},
		{name: "E37 REFUSED_STREAM", again: never, limit: 6 * time.Second, unequal: true, match: is(context.DeadlineExceeded),
			start: onStream(false, stream(http2.ErrCodeRefusedStream))},
		{name: "E38 REFUSED_STREAM, no second body", again: never, methods: []string{"PUT", "POST"}, request: withoutCopy,
			match: text("cannot retry err"), start: onStream(false, stream(http2.ErrCodeRefusedStream))},
		{name: "E39 GOAWAY without error", again: never, start: onStream(true, goAway(http2.ErrCodeNo, false, false))},
		{name: "E40 GOAWAY that covers the stream", again: idem, match: text("server sent GOAWAY and closed the connection"),
			start: onStream(false, goAway(http2.ErrCodeNo, true, true))},
		{name: "E41 GOAWAY ENHANCE_YOUR_CALM", again: always, heals: true, match: text("ENHANCE_YOUR_CALM"),
			start: onStream(true, goAway(http2.ErrCodeEnhanceYourCalm, false, true))},
		{name: "E42 stream reset by ENHANCE_YOUR_CALM", again: always, heals: true, match: isStream(http2.ErrCodeEnhanceYourCalm),
			start: onStream(true, stream(http2.ErrCodeEnhanceYourCalm))},
		{name: "E44 connection closed", again: idem, match: is(io.ErrUnexpectedEOF),
			start: onStream(false, func(c *h2conn, _ uint32) { c.Close() })},
		{name: "E45 ping unanswered", again: idem, match: text("client connection lost"),
			start: func(t *testing.T) *victim {
				v := frames(t, func(c *h2conn, _ uint32, _ int) { c.silent = true })
				v.base.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: time.Second}
				return v
			}},
	}
	for _, code := range []http2.ErrCode{http2.ErrCodeInternal, http2.ErrCodeCancel, http2.ErrCodeNo} {
		all = append(all, failure{name: "E42 stream reset by " + code.String(), again: idem, match: isStream(code),
			start: onStream(false, stream(code))})
	}
	for i := range all {
		all[i].bubble = true
	}
	return all
}

// net/http sends again without end what a server resets by PROTOCOL_ERROR, as
// nginx does by "return 444" (golang/go#52459): thousands of times within one
// RoundTrip. This is E43 of the failures.
func TestResendsOfProtocolErrorAreBraked(t *testing.T) {
	const storm = 400
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call := func(wrap func(http.RoundTripper) http.RoundTripper) (hits int, took time.Duration, err error) {
					v := frames(t, func(c *h2conn, stream uint32, n int) {
						if n < storm { // a storm needs no time: without an end the clock would stand still
							_ = c.WriteRSTStream(stream, http2.ErrCodeProtocol)
						}
					})
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					began := time.Now()
					client := &http.Client{Transport: wrap(v.base)}
					_, err = do(client, failure{}.fresh(t, method, v.url).WithContext(ctx))
					return int(v.hits.Load()), time.Since(began), err
				}
				bare, _, _ := call(func(base http.RoundTripper) http.RoundTripper { return base })
				require.Equal(t, storm, bare, "the base resends as it did")
				tries := 0
				hits, took, err := call(func(base http.RoundTripper) http.RoundTripper {
					rt, err := comity.New(base, comity.Config{
						Policies: map[string]comity.Policy{"": {
							Limits: []comity.Limit{comity.PerSecond(1)}, Retry: comity.Retry{Max: -1},
						}},
						Trace: &comity.Trace{Sent: func(*comity.Attempt) { tries++ }},
					})
					require.NoError(t, err)
					return rt
				})
				t.Logf("%d hits in %s where the base alone makes %d at once: %v", hits, took, bare, err)
				require.Error(t, err)
				require.Equal(t, 1, tries)
				require.LessOrEqual(t, hits, 11)
				require.LessOrEqual(t, float64(hits-1), took.Seconds(), "each send takes a unit of 1/s")
			})
		})
	}
}
