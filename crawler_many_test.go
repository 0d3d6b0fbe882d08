package comity

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// scaled is full with COMITY_LONG=1, short otherwise.
func scaled(short, full int) int {
	if os.Getenv("COMITY_LONG") != "" {
		return full
	}
	return short
}

// politeEach is a crawler's policy for every host.
func politeEach() Policy {
	return Policy{MaxWait: -1, Delay: Delay{Min: time.Second}, Adaptive: Adaptive{K: -1},
		Retry: Retry{Max: -1, Base: time.Minute, Cap: 24 * time.Hour}}
}

// Many more hosts than MaxDestinations, each called once, one in a hundred of which
// asks for an hour's silence: it is kept for all of them, and memory stays bounded.
func TestCrawler15BoundedAndNothingHeldIsForgotten(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector adds to each allocation")
	}
	synctest.Test(t, func(t *testing.T) {
		hosts := scaled(40_000, 1_000_000)
		most, second := hosts/10, hosts/100 // destinations; new hosts in a second
		rt, err := New(tripFunc(func(req *http.Request) (*http.Response, error) {
			res := &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody}
			if strings.HasSuffix(req.URL.Host, "00.example") {
				res.StatusCode = 429
				res.Header.Set("Retry-After", "3600")
			}
			return res, nil
		}), Config{MaxDestinations: most, Policies: map[string]Policy{"": politeEach()}})
		require.NoError(t, err)
		before := heap()
		live := 0
		for i := range hosts {
			if i%second == 0 {
				time.Sleep(time.Second)
			}
			require.NoError(t, callHost(t, rt, fmt.Sprintf("host-%07d.example", i)))
			live = max(live, int(rt.registry.count.Load()))
		}
		require.LessOrEqual(t, live, most+most/10)
		require.False(t, rt.overflows.Load())
		kept := int(rt.registry.count.Load())
		each := (heap()-before)/uint64(kept) - 24 // the size class of a name
		t.Logf("%d hosts, at most %d live, %d at the end of %d bytes each beside the key", hosts, live, kept, each)
		require.LessOrEqual(t, each, uint64(scaled(800, 700)), "with few hosts the registry itself weighs more")
		for i := 0; i < hosts; i += 100 {
			host := fmt.Sprintf("host-%07d.example", i)
			err := callHost(t, rt, host)
			require.ErrorIs(t, err, ErrThrottled, host)
		}
	})
}

// One million hosts, called once each: what a destination costs, how long the
// slowest call takes and that every host that is held stays so.
func TestCrawlerMillionHosts(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector adds to each allocation")
	}
	hosts := scaled(40_000, 1_000_000)
	held := hosts / 100
	rt, err := New(instant{}, Config{MaxDestinations: hosts + hosts/5, Policies: map[string]Policy{
		"": {MaxWait: -1, Limits: []Limit{{N: 10, Per: 24 * time.Hour, Burst: 10}}}}})
	require.NoError(t, err)
	name := func(i int) string { return fmt.Sprintf("host-number-%08d.example", i) }
	until := time.Now().Add(time.Hour)
	for i := range held {
		rt.Hold(name(hosts+i), until)
	}
	before := heap()
	slow, longest := callEach(t, rt, name, hosts)
	require.Equal(t, hosts+held, int(rt.registry.count.Load()))
	each := (heap()-before)/uint64(hosts) - 32 // the size class of a name
	t.Logf("%d destinations, %d bytes each beside the key", hosts, each)
	require.LessOrEqual(t, each, uint64(700))
	t.Logf("looking for what can be forgotten: %d of %d calls took more than 1 ms, the longest %s", slow, hosts, longest)
	if os.Getenv("COMITY_LONG") != "" {
		control, err := New(instant{}, Config{MaxDestinations: -1})
		require.NoError(t, err)
		slow, longest = callEach(t, control, name, hosts)
		t.Logf("never looking: %d of %d calls took more than 1 ms, the longest %s", slow, hosts, longest)
	}
	for i := range held {
		require.ErrorIs(t, callHost(t, rt, name(hosts+i)), ErrThrottled)
	}
	sweep := time.Hour // the shortest of many: on a busy machine the others say little
	for range 1000 {
		start := time.Now()
		rt.registry.sweep(sweepFull, start)
		sweep = min(sweep, time.Since(start))
	}
	t.Logf("%s to look at %d, the most that one call does", sweep, sweepFull)
	require.Less(t, sweep, time.Millisecond)
	runtime.KeepAlive(rt)
}

// callEach calls n hosts once each, and returns how many of the calls took more than
// a millisecond, and the longest. On a busy machine that says little, so it is shown
// and not judged: what is judged is how much a call may do.
func callEach(t *testing.T, rt *Transport, name func(int) string, n int) (slow int, longest time.Duration) {
	for i := range n {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+name(i), nil)
		require.NoError(t, err)
		start := time.Now()
		_, err = rt.RoundTrip(req)
		took := time.Since(start)
		require.NoError(t, err)
		longest = max(longest, took)
		if took > time.Millisecond {
			slow++
		}
	}
	return slow, longest
}

// crawlOp is a random thing that happens to a host.
type crawlOp struct {
	kind, host int
}

// A crawl with bounded memory decides as one without bounds, or holds back more
// where there is no room, through limits, delays, told and own holds. (Of a quota whose reset has passed,
// what its resets taught is lost with the destination.)
func TestCrawler16AsTheUnboundedTwin(t *testing.T) {
	for name, c := range map[string]struct {
		most  int
		equal bool
	}{"room": {60, true}, "no room": {5, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { compareTwins(t, c.most, c.equal, scaled(15_000, 100_000)) })
		})
	}
}

// twinAnswers refuse by the host and the time alone. What a host is
// told ends between two steps of ten seconds, whatever the jitter.
func twinAnswers(req *http.Request) (*http.Response, error) {
	h := uint64(len(req.URL.Host))
	for _, c := range []byte(req.URL.Host) {
		h = h*31 + uint64(c)
	}
	rng := rand.New(rand.NewPCG(h, uint64(time.Now().Unix())))
	res := &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody}
	switch rng.IntN(30) {
	case 0, 3, 4:
		res.StatusCode = 429
		res.Header.Set("Retry-After", fmt.Sprint(1+10*rng.IntN(6)))
	case 1:
		res.StatusCode = 429
	case 2:
		res.StatusCode = 503
	}
	return res, nil
}

func compareTwins(t *testing.T, most int, equal bool, ops int) {
	policy := politeEach()
	policy.Retry.Base, policy.Retry.Cap, policy.Retry.Budget = 53*time.Second, 53*time.Second, -1
	policy.Delay.Min = 15 * time.Second
	logged := policy
	logged.Delay = Delay{}
	logged.Limits = []Limit{{N: 2, Per: 35 * time.Second, Algorithm: SlidingLog}}
	policies := map[string]Policy{"": policy, "*.log.example": logged}
	bounded, err := New(tripFunc(twinAnswers), Config{Policies: policies, MaxDestinations: most})
	require.NoError(t, err)
	unbounded, err := New(tripFunc(twinAnswers), Config{Policies: policies, MaxDestinations: -1})
	require.NoError(t, err)

	rng := rand.New(rand.NewPCG(16, 16))
	sent, refused, slower, busiest := 0, 0, 0, 0
	undroppable := func() (n int) {
		for _, d := range unbounded.registry.list() {
			if !d.idle(time.Now()) {
				n++
			}
		}
		return n
	}
	busy := 0
	for i := range ops {
		if i%4 == 0 {
			time.Sleep(10 * time.Second)
			busy = undroppable()
			busiest = max(busiest, busy)
		}
		if busy >= 46 {
			time.Sleep(10 * time.Second) // at most 50 that may not be forgotten at once
			busy = undroppable()
			continue
		}
		op := crawlOp{rng.IntN(20), rng.IntN(500)}
		if rng.IntN(2) == 0 {
			op.host = (i/100*7 + rng.IntN(8)) % 500 // a few are called again and again
		}
		host := fmt.Sprintf("h%d.%s", op.host, []string{"example", "log.example"}[op.host%2])
		if op.kind == 0 {
			until := time.Now().Add(time.Duration(1+10*rng.IntN(5)) * time.Second)
			bounded.Hold(host, until)
			unbounded.Hold(host, until)
			continue
		}
		// The unbounded one makes the calls that the bounded one makes.
		if err := callHost(t, bounded, host); err == nil {
			sent++
			require.NoError(t, callHost(t, unbounded, host), "op %d: %s goes too early", i, host)
			continue
		}
		refused++
		req, err := http.NewRequest(http.MethodGet, "http://"+host, nil)
		require.NoError(t, err)
		if unbounded.Next(req).Reason == "" {
			slower++
			require.False(t, equal, "op %d: only the bounded one refuses %s", i, host)
		}
	}
	t.Logf("%d sent, %d refused, %d only by the bounded one; %d destinations of %d, up to %d of which had to stay",
		sent, refused, slower, bounded.registry.count.Load(), unbounded.registry.count.Load(), busiest)
	require.Equal(t, equal, !bounded.overflows.Load())
	require.LessOrEqual(t, busiest, 50)
	require.Greater(t, sent, ops/10)
	require.Greater(t, refused, ops/100)
}

// Many goroutines on many hosts, while operators hold, ask and refresh.
func TestCrawler26UnderContention(t *testing.T) {
	hosts := 1000
	rt, err := New(instant{}, Config{MaxDestinations: 300, PolicyFor: func(host string) Policy {
		p := politeEach()
		p.Delay.Min = time.Duration(len(host)%3) * time.Microsecond
		return p
	}})
	require.NoError(t, err)
	deadline := time.Now().Add(time.Duration(scaled(1, 10)) * time.Second)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 26))
			for n := 0; time.Now().Before(deadline); n++ {
				host := fmt.Sprintf("h%d.example", rng.IntN(hosts))
				req, err := http.NewRequest(http.MethodGet, "http://"+host, nil)
				if err != nil {
					t.Error(err)
					return
				}
				switch rng.IntN(50) {
				case 0:
					rt.Refresh(host)
				case 1:
					rt.Hold(host, time.Now().Add(time.Millisecond))
				case 2:
					rt.Hold(host, time.Time{})
				}
				if next := rt.Next(req); next.Reason == "" {
					_, _ = rt.RoundTrip(req) // sent or refused, both are fine
				}
			}
		})
	}
	wg.Wait()
	for _, d := range rt.registry.list() {
		require.Zero(t, d.calls.Load(), d.name)
		require.Zero(t, d.pacer.inFlight, d.name)
	}
	require.Equal(t, rt.registry.count.Load(), int64(len(rt.registry.list())))
}

// Next for one host allocates nothing; BenchmarkCrawler26Next times it.
func TestCrawler26NextAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops what is pooled")
	}
	for name, rt := range nextTransports(t) {
		req, err := http.NewRequest(http.MethodGet, "http://a.example/", nil)
		require.NoError(t, err)
		_, err = rt.RoundTrip(req)
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(1000, func() { rt.Next(req) }), name)
	}
}

func nextTransports(t testing.TB) map[string]*Transport {
	limited := politeEach()
	limited.Limits = []Limit{{N: 1, Per: time.Second}}
	pattern, err := New(instant{}, Config{Policies: map[string]Policy{"": limited}})
	require.NoError(t, err)
	function, err := New(instant{}, Config{PolicyFor: func(string) Policy { return limited }})
	require.NoError(t, err)
	return map[string]*Transport{"Policies": pattern, "PolicyFor": function}
}

// Budget: 500 ns, no allocation.
func BenchmarkCrawler26Next(b *testing.B) {
	for name, rt := range nextTransports(b) {
		b.Run("policy="+name, func(b *testing.B) {
			req, err := http.NewRequest(http.MethodGet, "http://a.example/", nil)
			require.NoError(b, err)
			_, err = rt.RoundTrip(req)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				rt.Next(req)
			}
		})
	}
}
