package comity

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// stepped is t as a clock reads it whose wall time was put forward by d, and whose
// monotonic time was not.
func stepped(t time.Time, d time.Duration) time.Time {
	read := (*struct{ wall uint64 })(unsafe.Pointer(&t))
	read.wall += uint64(d/time.Second) << 30 // seconds, above the nanoseconds
	return t
}

// standing is the part of a call that a pacer asks.
type standing struct{ pol *policy }

func (standing) waiting(time.Duration, Reason) {}
func (s standing) repolicy() *policy           { return s.pol }

// A wall clock that is put right between two calls changes no decision but one: put
// forward, it may be that the machine slept, and what a server told to wait has gone
// by meanwhile.
func TestCrawler19WallClock(t *testing.T) {
	require.Equal(t, time.Hour, stepped(time.Now(), time.Hour).Round(0).Sub(time.Now().Round(0)).Round(time.Second))
	now := time.Now()
	require.Zero(t, stepped(now, -time.Hour).Sub(now))
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		for name, policy := range map[string]Policy{
			"interval": {Limits: []Limit{Every(10 * time.Second)}},
			"bucket":   {Limits: []Limit{{N: 1, Per: 10 * time.Second, Burst: 1, Algorithm: GCRA}}},
			"log":      {Limits: []Limit{{N: 1, Per: 10 * time.Second, Algorithm: SlidingLog}}},
			"delay":    {Delay: Delay{Min: 10 * time.Second}},
			"backoff":  {Retry: Retry{Base: 10 * time.Second}},
			"told":     {},
		} {
			t.Run(name+" "+step.String(), func(t *testing.T) {
				policy.MaxWait = -1
				pol := newPolicy(policy, "", nil)
				p := &pacer{name: "a.example"}
				first := &turn{by: standing{pol}, pol: pol, maxWait: -1}
				first.price()
				_, err := p.acquire(context.Background(), first, now)
				require.NoError(t, err)
				end := answer{sent: now, now: now, verdict: Accepted, status: 200, advice: &Advice{RetryAfter: -1}}
				switch name {
				case "backoff":
					end.verdict, end.status = Limited, 429
				case "told":
					end.verdict, end.status, end.advice = Limited, 429, &Advice{RetryAfter: 10 * time.Second}
				}
				p.learn(first, &end)
				p.leave(first, pol.Delay, now)

				second := &turn{by: standing{pol}, pol: pol, maxWait: -1}
				second.price()
				next := p.next(second, stepped(now.Add(time.Second), step))
				if name == "told" && step > 0 {
					require.Empty(t, next.Reason)
					return
				}
				require.NotEmpty(t, next.Reason)
				wait := next.At.Sub(now)
				require.GreaterOrEqual(t, wait, 10*time.Second)
				require.LessOrEqual(t, wait, 11*time.Second)
				require.Empty(t, p.next(second, stepped(now.Add(wait), step)).Reason)
			})
		}
	}
}

// An absolute time is read against the clock of the server that wrote it.
func TestCrawler19RetryAfterByTheServersClock(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			rt, err := New(tripFunc(func(*http.Request) (*http.Response, error) {
				server := time.Now().Add(skew).UTC()
				return &http.Response{StatusCode: 429, ProtoMajor: 1, Body: http.NoBody, Header: http.Header{
					"Date": {server.Format(http.TimeFormat)}, "Retry-After": {server.Add(2 * time.Minute).Format(http.TimeFormat)}}}, nil
			}), Config{Policies: map[string]Policy{"": {MaxWait: -1}}})
			require.NoError(t, err)
			require.NoError(t, callHost(t, rt, "a.example"))
			wait := time.Until(rt.Destinations()[0].HeldUntil)
			require.GreaterOrEqual(t, wait, 2*time.Minute)
			require.LessOrEqual(t, wait, 2*time.Minute+3*time.Second+500*time.Millisecond)
		})
	}
}
