package comity

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// twin is a base whose answers depend on the host and on the time alone, so that
// two Transports that make the same calls are told the same. It refuses only where
// no limit learns a margin from that: the margin goes with the destination.
func twin(seed uint64) http.RoundTripper {
	return tripFunc(func(req *http.Request) (*http.Response, error) {
		h := seed
		for _, c := range []byte(req.URL.Host) {
			h = h*31 + uint64(c)
		}
		rng := rand.New(rand.NewPCG(h, uint64(time.Now().Unix())))
		res := &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody}
		if rng.IntN(4) == 0 {
			res.Header.Set("Retry-After", fmt.Sprint(1+rng.IntN(20)))
			res.Header.Set("X-Database-Lag", "1")
			if strings.HasSuffix(req.URL.Host, ".free.example") {
				res.StatusCode = 429
			}
		}
		return res, nil
	})
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// As long as no overflow destination is used, a bounded Transport decides as an
// unbounded one does; when one is used, no call goes earlier.
func TestForgettingChangesNoDecision(t *testing.T) {
	for name, c := range map[string]struct {
		most  int
		equal bool
	}{"room": {60, true}, "no room": {5, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := Policy{MaxWait: -1, Adaptive: Adaptive{K: -1}, Retry: Retry{Budget: -1},
					Delay: Delay{Min: 1500 * time.Millisecond}}
				limited := policy
				limited.Limits = []Limit{{N: 2, Per: 9 * time.Second, Burst: 2}}
				policies := map[string]Policy{"": limited, "*.free.example": policy}
				bounded, err := New(twin(1), Config{Policies: policies, MaxDestinations: c.most})
				require.NoError(t, err)
				unbounded, err := New(twin(1), Config{Policies: policies, MaxDestinations: -1})
				require.NoError(t, err)

				rng := rand.New(rand.NewPCG(7, 7))
				busy := map[string]time.Time{} // hosts called lately, until nothing of it can be known any more
				sent, refused, slower := 0, 0, 0
				for range 10_000 {
					time.Sleep(time.Duration(rng.IntN(3)) * time.Second) // the jitter of holds is below that
					now := time.Now()
					host := fmt.Sprintf("h%d.%s", rng.IntN(250), []string{"example", "free.example"}[rng.IntN(2)])
					for h, until := range busy {
						if now.After(until) {
							delete(busy, h)
						}
						if len(busy) >= 25 {
							host = h
						}
					}
					busy[host] = now.Add(45 * time.Second)
					// The unbounded one makes the same calls, so that both know the same.
					if err := callHost(t, bounded, host); err == nil {
						sent++
						require.NoError(t, callHost(t, unbounded, host), "only the bounded one lets it go")
						continue
					} else if !errors.Is(err, ErrThrottled) {
						t.Fatal(err)
					}
					refused++
					req, err := http.NewRequest(http.MethodGet, "http://"+host, nil)
					require.NoError(t, err)
					if ready := unbounded.Next(req); ready.Reason == "" {
						slower++
						require.False(t, c.equal, "only the bounded one refuses %s", host)
					}
				}
				require.Greater(t, sent, 1000)
				require.Greater(t, refused, 1000)
				require.Equal(t, c.equal, slower == 0)
				require.Equal(t, c.equal, !bounded.overflows.Load())
				t.Logf("%d sent, %d refused, %d only by the bounded one; %d destinations of %d", sent, refused, slower,
					bounded.registry.count.Load(), unbounded.registry.count.Load())
				require.LessOrEqual(t, bounded.registry.count.Load(), int64(c.most+overflowSlots))
			})
		})
	}
}
