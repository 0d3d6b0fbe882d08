package comity

import (
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// registry holds the destinations of a Transport. A call pins the one it goes to,
// so that it is not forgotten under it; who used one lately finds it again without
// a lock.
type registry struct {
	seed   maphash.Seed
	shards [registryShards]shard
	recent [registryRecent]atomic.Pointer[destination]
	count  atomic.Int64
	split  atomic.Bool // there are parts, or were
	hand   atomic.Uint32
}

// shard is a part of the registry. Go's maps grow in small steps, so no insertion
// is slow, however many there are.
type shard struct {
	mu   sync.RWMutex
	m    map[uint64]*destination // by hash, or the next number that was free
	all  []*destination          // in no order, for the hand
	hand int
	_    [24]byte // keep the locks of two shards off one cache line
}

const (
	registryShards = 64 // powers of two
	registryRecent = 64
)

// destKey is the name of a destination, and of its part if it is split. They stay
// apart so that a look-up joins no strings.
type destKey struct{ name, part string }

func (k destKey) String() string {
	if k.part == "" {
		return k.name
	}
	return k.name + "#" + k.part
}

func (r *registry) init() {
	r.seed = maphash.MakeSeed()
	for i := range r.shards {
		r.shards[i].m = map[uint64]*destination{}
	}
}

func (r *registry) hash(k destKey) uint64 {
	h := maphash.String(r.seed, k.name)
	if k.part != "" {
		h = h*31 + maphash.String(r.seed, k.part)
	}
	return h
}

// slot says where k is kept if it was used lately. It costs less than a hash does:
// hosts differ in their length, their first letters and those before the domain's
// ending.
func (k destKey) slot() uint {
	n := uint(len(k.name))
	if n < 6 {
		return n
	}
	h := n*7 + uint(k.name[0])*31 + uint(k.name[n-6])*17 + uint(k.name[n/2])
	if m := uint(len(k.part)); m > 0 {
		h += uint(k.part[0])*13 + uint(k.part[m-1])*19 + uint(k.part[m/2])*5
	}
	return h % registryRecent
}

// recall returns the destination of k if it was used lately. It may be forgotten
// by now.
func (r *registry) recall(k destKey) *destination {
	if d := r.recent[k.slot()].Load(); d != nil && d.is(k) {
		return d
	}
	return nil
}

// pin returns the destination of k, or nil if it is unknown. Each pin needs an
// unpin.
func (r *registry) pin(k destKey) *destination {
	slot := &r.recent[k.slot()]
	if d := r.recall(k); d != nil && d.pin() {
		return d
	}
	h := r.hash(k)
	s := &r.shards[h%registryShards]
	s.mu.RLock()
	d := s.find(h, k)
	if d != nil {
		d.pin() // holds: who forgets d holds the lock alone
	}
	s.mu.RUnlock()
	if d != nil {
		slot.Store(d)
	}
	return d
}

// add puts d in, and returns it, or the one that was there before it, pinned.
func (r *registry) add(d *destination) *destination {
	h := r.hash(d.key())
	s := &r.shards[h%registryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.find(h, d.key()); old != nil {
		old.pin()
		return old
	}
	d.pin()
	s.put(h, d)
	s.all = append(s.all, d)
	r.count.Add(1)
	if d.key().part != "" {
		r.split.Store(true)
	}
	return d
}

// sweep looks at n destinations and forgets those whose loss changes no decision.
func (r *registry) sweep(n int, now time.Time) (forgotten int) {
	for range n {
		s := &r.shards[r.hand.Add(1)%registryShards]
		s.mu.Lock()
		if s.forgetNext(r, now) {
			r.count.Add(-1)
			forgotten++
		}
		s.mu.Unlock()
	}
	return forgotten
}

// forgetNext forgets the destination at the hand, if that may be, or moves the
// hand on.
func (s *shard) forgetNext(r *registry, now time.Time) bool {
	if len(s.all) == 0 {
		return false
	}
	if s.hand >= len(s.all) {
		s.hand = 0
	}
	d := s.all[s.hand]
	if !d.kill(now) {
		s.hand++
		return false
	}
	last := len(s.all) - 1
	s.all[s.hand] = s.all[last]
	s.all[last] = nil
	s.all = s.all[:last]
	s.remove(r, d)
	return true
}

func (s *shard) find(h uint64, k destKey) *destination {
	for d := s.m[h]; d != nil; d = s.m[h] {
		if d.is(k) {
			return d
		}
		h++
	}
	return nil
}

func (s *shard) put(h uint64, d *destination) {
	for s.m[h] != nil {
		h++
	}
	s.m[h] = d
}

func (s *shard) remove(r *registry, d *destination) {
	h := r.hash(d.key())
	for s.m[h] != d {
		h++
	}
	delete(s.m, h)
	for h++; s.m[h] != nil; h++ { // those behind it may belong in its place
		next := s.m[h]
		delete(s.m, h)
		s.put(r.hash(next.key()), next)
	}
}

// one returns the destination of k, if it is known.
func (r *registry) one(k destKey) []*destination {
	d := r.pin(k)
	if d == nil {
		return nil
	}
	d.unpin()
	return []*destination{d}
}

// named returns the destination of that name and all its parts. Only where some
// destination has parts does it look through all.
func (r *registry) named(name string) []*destination {
	if !r.split.Load() {
		return r.one(destKey{name: name})
	}
	return slices.DeleteFunc(r.list(), func(d *destination) bool { return d.key().name != name })
}

// list returns all destinations, in no order.
func (r *registry) list() []*destination {
	all := make([]*destination, 0, r.count.Load())
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.RLock()
		all = append(all, s.all...)
		s.mu.RUnlock()
	}
	return all
}

// dead is what the calls of a forgotten destination count from.
const dead = math.MinInt32 / 2

// pin keeps d from being forgotten. It fails if d has been.
func (d *destination) pin() bool {
	if d.calls.Add(1) > 0 {
		return true
	}
	d.calls.Add(-1)
	return false
}

func (d *destination) unpin() { d.calls.Add(-1) }

// kill makes pin fail for ever, if nobody has d and nothing would be lost with it.
func (d *destination) kill(now time.Time) bool {
	if !d.calls.CompareAndSwap(0, dead) {
		return false
	}
	// Nobody can come any more: only now does the answer stand.
	if d.idle(now) {
		return true
	}
	d.calls.Add(-dead)
	return false
}
