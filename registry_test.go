package comity

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// instant answers every call at once, with nothing.
type instant struct{}

func (instant) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody}, nil
}

func callHost(t testing.TB, rt *Transport, host string) error {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host, nil)
	require.NoError(t, err)
	_, err = rt.RoundTrip(req)
	return err
}

func TestDestinationsThatChangeNothingAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, err := New(instant{}, Config{MaxDestinations: 500})
		require.NoError(t, err)
		for i := range 5000 {
			require.NoError(t, callHost(t, rt, fmt.Sprintf("h%d.example", i)))
		}
		n := rt.registry.count.Load()
		require.Equal(t, int(n), len(rt.registry.list()))
		require.LessOrEqual(t, n, int64(200), "from a tenth of MaxDestinations on")
	})
}

func TestDestinationThatKnowsSomethingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := Policy{MaxWait: -1, Limits: []Limit{{N: 1, Per: time.Hour}}}
		rt, err := New(instant{}, Config{MaxDestinations: 100, Policies: map[string]Policy{"kept.example": policy, "*.kept.example": policy}})
		require.NoError(t, err)
		kept := []string{"kept.example", "a.kept.example", "b.kept.example"}
		for _, h := range kept {
			require.NoError(t, callHost(t, rt, h))
		}
		rt.Hold("held.example", time.Now().Add(time.Hour))
		for i := range 2000 {
			require.NoError(t, callHost(t, rt, fmt.Sprintf("h%d.example", i)))
		}
		for _, h := range kept {
			require.ErrorIs(t, callHost(t, rt, h), ErrThrottled)
		}
		require.NotNil(t, rt.registry.pin(destKey{name: "held.example"}))
		rt.registry.pin(destKey{name: "held.example"}).calls.Add(-2)

		time.Sleep(2 * time.Hour)
		for i := range 2000 {
			require.NoError(t, callHost(t, rt, fmt.Sprintf("h%d.example", i)))
		}
		for _, h := range append(kept, "held.example") {
			require.Nil(t, rt.registry.pin(destKey{name: h}), h)
		}
	})
}

func TestPinnedDestinationIsNotForgotten(t *testing.T) {
	var r registry
	r.init()
	d := r.add(newDestination(destKey{name: "a"}))
	now := time.Now()
	require.Zero(t, r.sweep(2*registryShards, now))
	require.Same(t, d, r.pin(destKey{name: "a"}))
	d.unpin()
	d.unpin()
	require.Equal(t, 1, r.sweep(2*registryShards, now))
	require.False(t, d.pin(), "a forgotten one stays so")
	require.Nil(t, r.pin(destKey{name: "a"}), "though it was used lately")
	require.NotSame(t, d, r.add(newDestination(destKey{name: "a"})))
}

func TestRegistryUnderContention(t *testing.T) {
	rt, err := New(instant{}, Config{MaxDestinations: 40})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				if err := callHost(t, rt, fmt.Sprintf("h%d.example", (i*7+g)%100)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, d := range rt.registry.list() {
		require.Zero(t, d.calls.Load())
	}
	require.Equal(t, rt.registry.count.Load(), int64(len(rt.registry.list())))
}

// A destination with one limit that was refused nothing costs at most 700 bytes
// beside its key.
func TestDestinationIsSmall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector adds to each allocation")
	}
	const n = 20_000
	rt, err := New(instant{}, Config{MaxDestinations: -1, Policies: map[string]Policy{"": {Limits: []Limit{{N: 10, Per: time.Second, Burst: 10}}}}})
	require.NoError(t, err)
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host-number-%07d.example", i)
	}
	before := heap()
	for _, h := range hosts {
		require.NoError(t, callHost(t, rt, h))
	}
	each := (heap() - before) / n
	runtime.KeepAlive(rt)
	key := uint64(len(hosts[0]) + 7) // rounded up to a size class
	t.Logf("%d bytes a destination beside its key; the struct is %d", each-key, unsafe.Sizeof(destination{}))
	require.LessOrEqual(t, each-key, uint64(700))
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// 300,000 hosts called once each: memory stays bounded. How long the calls took is
// shown, not judged: on a busy machine it says nothing about the registry.
func TestManyHostsOnce(t *testing.T) {
	n := 30_000
	if os.Getenv("COMITY_LONG") != "" {
		n = 300_000
	}
	rt, err := New(instant{}, Config{MaxDestinations: n / 30})
	require.NoError(t, err)
	var longest time.Duration
	slow := 0
	for i := range n {
		req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://host-%d.example/", i), nil)
		require.NoError(t, err)
		start := time.Now()
		_, err = rt.RoundTrip(req)
		require.NoError(t, err)
		d := time.Since(start)
		longest = max(longest, d)
		if d > time.Millisecond {
			slow++
		}
	}
	t.Logf("%d calls, %d of them above 1 ms, the longest %s", n, slow, longest)
	require.LessOrEqual(t, rt.registry.count.Load(), int64(n/30))
}
