// Package window counts events in a moving window of time without locks,
// goroutines or timers. It has no clock: the caller names the bucket, which is a
// time divided by the bucket's width.
package window

import (
	"math/bits"
	"sync/atomic"
)

// A word of a Ring is a bucket: 20 bits that tell which turn of the ring it was
// counted in, then two counts of 22 bits. With 64 buckets a word is mistaken for
// one of its own 67 million buckets later (four years, at 2 s), and only if nothing
// was counted meanwhile.
const (
	countBits = 22
	countMax  = 1<<countBits - 1
	turnBits  = 64 - 2*countBits
	turnMask  = 1<<turnBits - 1

	// slack is what racing adds may put on top of a count that was seen below
	// the bound, so that the bound is never crossed into the next field.
	slack = 1 << 12
)

// Ring is a ring of buckets, each with two counts. A bucket is forgotten when one
// is counted that stands at least the length of the ring later; Get never shows an
// older one. Counts saturate at 4 million. A goroutine that is stopped between the
// look at a bucket and the add for a whole turn of the ring misplaces one count.
type Ring struct {
	words []atomic.Uint64 // their number is a power of two
	shift uint
}

// NewRing returns a Ring of at least n buckets.
func NewRing(n int) Ring {
	shift := uint(bits.Len(uint(max(n, 1) - 1)))
	return Ring{words: make([]atomic.Uint64, 1<<shift), shift: shift}
}

// Len returns the number of buckets.
func (r *Ring) Len() int { return len(r.words) }

// word returns the place of a bucket, and the turn that is there if it is counted.
func (r *Ring) word(bucket int64) (w *atomic.Uint64, turn uint64) {
	return &r.words[bucket&int64(len(r.words)-1)], uint64(bucket) >> r.shift & turnMask
}

// Add adds a and b to the counts of a bucket, numbered from 0.
func (r *Ring) Add(bucket int64, a, b uint64) {
	w, turn := r.word(bucket)
	a, b = min(a, countMax-slack), min(b, countMax-slack)
	delta := a<<countBits | b
	for {
		old := w.Load()
		if old>>(2*countBits) != turn {
			if w.CompareAndSwap(old, turn<<(2*countBits)|delta) {
				return
			}
			continue
		}
		if old>>countBits&countMax+a > countMax-slack || old&countMax+b > countMax-slack {
			return
		}
		w.Add(delta)
		return
	}
}

// Spread adds a and b to the counts of the buckets from first to last, evenly.
func (r *Ring) Spread(first, last int64, a, b uint64) {
	for ; first <= last; first++ {
		n := uint64(last - first + 1)
		x, y := a/n, b/n
		if x > 0 || y > 0 {
			r.Add(first, x, y)
		}
		a, b = a-x, b-y
	}
}

// Sub takes a and b from the counts of a bucket and reports whether it
// found them there.
func (r *Ring) Sub(bucket int64, a, b uint64) bool {
	w, turn := r.word(bucket)
	for {
		old := w.Load()
		if old>>(2*countBits) != turn || old>>countBits&countMax < a || old&countMax < b {
			return false
		}
		if w.CompareAndSwap(old, old-(a<<countBits|b)) {
			return true
		}
	}
}

// Get returns the counts of a bucket: zero if the ring holds another in its place.
func (r *Ring) Get(bucket int64) (a, b uint64) {
	w, turn := r.word(bucket)
	word := w.Load()
	if word>>(2*countBits) != turn {
		return 0, 0
	}
	return word >> countBits & countMax, word & countMax
}

// Sum returns the counts of n buckets, the last of which is bucket.
func (r *Ring) Sum(bucket int64, n int) (a, b uint64) {
	for i := range int64(min(n, len(r.words))) {
		if bucket < i {
			break
		}
		x, y := r.Get(bucket - i)
		a, b = a+x, b+y
	}
	return a, b
}

// Pair counts one kind of event in the newest bucket and the one before it, in a
// single word: what a destination can afford that never had trouble. Its zero
// value has counted nothing. Counts saturate at a million.
type Pair struct {
	word atomic.Uint64 // number of the newest bucket 24 bits | its count 20 | that of the one before 20
}

const (
	pairBits = 20
	pairMax  = 1<<pairBits - 1
	pairTag  = 1<<(64-2*pairBits) - 1
)

// Add counts n events in a bucket, numbered from 0. What is a bucket too late is
// counted in the newest. It returns how many events it forgot for it, and in which
// bucket the youngest of them had been.
func (p *Pair) Add(bucket int64, n uint64) (gone uint64, at int64) {
	tag := uint64(bucket) & pairTag
	for {
		old := p.word.Load()
		newest, now, before := unpair(old)
		gone, at = 0, 0
		switch behind := (tag - newest) & pairTag; behind {
		case 0, pairTag:
			now += n
		case 1:
			gone, at = before, bucket-2
			newest, now, before = tag, n, now
		default:
			gone, at = now+before, bucket-int64(behind)
			newest, now, before = tag, n, 0
		}
		word := newest<<(2*pairBits) | min(now, pairMax)<<pairBits | before
		if word == old || p.word.CompareAndSwap(old, word) {
			return gone, at
		}
	}
}

// Get returns the count of a bucket so far, and that of the one before.
func (p *Pair) Get(bucket int64) (now, before uint64) {
	newest, now, before := unpair(p.word.Load())
	switch (uint64(bucket) - newest) & pairTag {
	case 0, pairTag:
		return now, before
	case 1:
		return 0, now
	}
	return 0, 0
}

func unpair(word uint64) (newest, now, before uint64) {
	return word >> (2 * pairBits), word >> pairBits & pairMax, word & pairMax
}
