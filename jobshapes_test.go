package comity_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

// Without network jitter a client that reads headers is refused only while it learns
// what sort of server it has, and one that is told the limit not at all.
func TestJobWithoutJitter(t *testing.T) {
	for _, server := range jobServers {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			j := newJob(server, 7001)
			j.jitter, j.dialect = 0, comity.IETF
			j.wrap = jobCell{}.wrap(server)
			o := j.run(t)
			t.Logf("headers:   %s, %d of them before the first answer", o, o.blind)
			require.Zero(t, o.failed)
			require.LessOrEqual(t, o.refused-o.blind, 8)
			require.LessOrEqual(t, o.took.Seconds(), 1.05*o.ideal.Seconds())

			j.dialect = comitytest.RetryAfterOnly
			j.wrap = jobCell{limit: true}.wrap(server)
			o = j.run(t)
			t.Logf("the limit: %s", o)
			require.Zero(t, o.failed)
			most := 0
			if server.Algorithm == comity.SlidingWindow {
				most = 3 // its two counters may stand elsewhere than ours
			}
			require.LessOrEqual(t, o.refused, most)
			require.LessOrEqual(t, o.took.Seconds(), 1.05*o.ideal.Seconds())
		})
	}
}

// silent is the dialect of a bare 429.
var silent = &comity.Dialect{Name: "silent", Parse: comity.ParseAdvice, Write: func(http.Header, time.Time, comity.Advice) {}}

// jobShapes are other servers and networks than those that pacing is measured by.
// The figures of this client and of an oracle that knows all are in the log.
var jobShapes = []struct {
	name    string
	limits  func(comity.Limit) comity.Limit // what becomes of the eight servers; nil is nothing
	only    string                          // one of them by name; all if empty
	calls   int
	trip    time.Duration
	jitter  time.Duration
	dialect *comity.Dialect
	counts  bool
	limit   bool
}{
	{name: "20 per 2 s", limits: of(20, 2*time.Second), calls: 600},
	{name: "5,000 per hour", limits: of(5000, time.Hour), calls: 7000},
	{name: "300 per 60 s", limits: of(300, time.Minute), calls: 1200},
	{name: "round trips of 5 ms", calls: 1000, trip: 2500 * time.Microsecond, jitter: 0},
	{name: "round trips of 300 ms", calls: 1000, trip: 150 * time.Millisecond, jitter: 70 * time.Millisecond},
	{name: "no window stated", calls: 1000, dialect: comity.XRateLimit},
	{name: "refused calls count", calls: 1000, counts: true},
	{name: "2 places, headers", limits: of(2, 2*time.Second), calls: 100},
	{name: "2 places, the limit", limits: of(2, 2*time.Second), calls: 100, limit: true},
	{name: "2 places, Retry-After only", limits: of(2, 2*time.Second), calls: 100, dialect: comitytest.RetryAfterOnly},
	// As the stick table of haproxy: a counter that refused calls keep above its limit.
	{name: "a counter that counts what it refuses", only: "sliding window", calls: 1000, dialect: silent, counts: true},
}

// of makes windows of n per per, and buckets that hold as much as they did of it.
func of(n int, per time.Duration) func(comity.Limit) comity.Limit {
	return func(l comity.Limit) comity.Limit {
		if l.Burst > 0 {
			l.Burst = max(1, min(l.Burst, n))
		}
		l.N, l.Per = n, per
		return l
	}
}

// TestJobOfOtherShapes does each job with one client that waits as long as it takes:
// no call may fail.
func TestJobOfOtherShapes(t *testing.T) {
	long := os.Getenv("COMITY_LONG") != ""
	for k, s := range jobShapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for i, server := range jobServers {
				if s.only != "" && server.Name != s.only || !long && i != k%len(jobServers) && s.only == "" {
					continue
				}
				if s.limits != nil {
					server = s.limits(server)
				}
				j := newJob(server, 7001)
				j.calls, j.dialect, j.counts = s.calls, s.dialect, s.counts
				if j.dialect == nil {
					j.dialect = comity.IETF
				}
				if s.trip > 0 {
					j.trip, j.jitter = s.trip, s.jitter
				}
				j.wrap = func(base http.RoundTripper) http.RoundTripper {
					p := comity.Policy{MaxWait: comity.Forever}
					if s.limit {
						p.Limits = []comity.Limit{server}
					}
					return must(comity.New(base, every(p)))
				}
				o := j.run(t)
				j.wrap, j.counts = newOracle(server), false
				best := j.run(t)
				t.Logf("%-15s %5.1f %% of ideal, %4d refused; oracle %5.1f %%, %d refused", server.Name, 100*o.use(), o.refused, 100*best.use(), best.refused)
				require.Zero(t, o.failed, server.Name)
				require.Less(t, o.took, 4*o.ideal, server.Name)
			}
		})
	}
}
