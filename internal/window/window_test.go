package window_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity/internal/window"
)

// The ring holds what a map of buckets holds, as long as it is asked for buckets
// no further back than its length.
func TestRingEqualsAMapOfBuckets(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + rnd.IntN(20)
		ring := window.NewRing(n)
		as, bs := map[int64]uint64{}, map[int64]uint64{}
		var bucket int64 = rnd.Int64N(1 << 40)
		for range 500 {
			switch rnd.IntN(6) {
			case 0:
				bucket += rnd.Int64N(int64(2 * n))
			case 1:
				if a, b := uint64(1), uint64(rnd.IntN(2)); ring.Sub(bucket, a, b) {
					as[bucket], bs[bucket] = as[bucket]-a, bs[bucket]-b
				} else {
					require.True(t, as[bucket] < a || bs[bucket] < b)
				}
			default:
				a, b := uint64(rnd.IntN(3)), uint64(rnd.IntN(3))
				ring.Add(bucket, a, b)
				as[bucket], bs[bucket] = as[bucket]+a, bs[bucket]+b
			}
			var a, b uint64
			for i := range int64(n) {
				a, b = a+as[bucket-i], b+bs[bucket-i]
			}
			gotA, gotB := ring.Sum(bucket, n)
			require.Equal(t, [2]uint64{a, b}, [2]uint64{gotA, gotB})
		}
	}
}

func TestRingSaturates(t *testing.T) {
	ring := window.NewRing(2)
	for range 10 {
		ring.Add(7, 1<<21, 3)
	}
	a, b := ring.Get(7)
	require.LessOrEqual(t, a, uint64(1<<22))
	require.GreaterOrEqual(t, a, uint64(1<<21))
	require.Equal(t, uint64(3), b, "a full count must not spill into the other")
}

// Eight goroutines count in one window while another reads: sums are exact.
func TestRingCountsExactlyUnderContention(t *testing.T) {
	ring := window.NewRing(4)
	const workers, each = 8, 20_000
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range each {
				ring.Add(int64(100+i%4), 1, uint64(i%2))
				if i%64 == 0 {
					ring.Sum(103, 4)
				}
			}
		})
	}
	wg.Wait()
	a, b := ring.Sum(103, 4)
	require.Equal(t, uint64(workers*each), a)
	require.Equal(t, uint64(workers*each/2), b)
}

func TestPairKeepsThisBucketAndTheLast(t *testing.T) {
	var p window.Pair
	get := func(bucket int64) [2]uint64 {
		now, before := p.Get(bucket)
		return [2]uint64{now, before}
	}
	require.Equal(t, [2]uint64{0, 0}, get(5))
	p.Add(5, 1)
	p.Add(5, 1)
	require.Equal(t, [2]uint64{2, 0}, get(5))
	require.Equal(t, [2]uint64{0, 2}, get(6), "the next bucket, nothing counted in it yet")
	require.Equal(t, [2]uint64{0, 0}, get(7))
	p.Add(6, 1)
	require.Equal(t, [2]uint64{1, 2}, get(6))
	p.Add(5, 1)
	require.Equal(t, [2]uint64{2, 2}, get(6), "a bucket too late counts in the newest")
	p.Add(9, 1)
	require.Equal(t, [2]uint64{1, 0}, get(9))
	p.Add(2, 1)
	require.Equal(t, [2]uint64{1, 0}, get(2), "a clock set back starts anew")
}

// What a Pair forgets, whoever counts in longer buckets can have.
func TestPairReturnsWhatItForgets(t *testing.T) {
	var p window.Pair
	add := func(bucket int64, n uint64) [2]int64 {
		gone, at := p.Add(bucket, n)
		return [2]int64{int64(gone), at}
	}
	require.Zero(t, add(5, 3)[0])
	require.Zero(t, add(5, 1)[0])
	require.Zero(t, add(6, 2)[0])
	require.Equal(t, [2]int64{4, 5}, add(7, 1))
	require.Equal(t, [2]int64{3, 7}, add(20, 1), "two and one, the younger in 7")
}

func TestPairSaturates(t *testing.T) {
	var p window.Pair
	for range 1<<20 + 10 {
		p.Add(3, 1)
	}
	now, before := p.Get(3)
	require.Equal(t, uint64(1<<20-1), now)
	require.Zero(t, before)
}

func BenchmarkRingAdd(b *testing.B) {
	ring := window.NewRing(60)
	b.ReportAllocs()
	for b.Loop() {
		ring.Add(12345, 1, 1)
	}
}

func BenchmarkPairAdd(b *testing.B) {
	var p window.Pair
	b.ReportAllocs()
	for b.Loop() {
		p.Add(12345, 1)
	}
}
