package comity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Destination is a snapshot of what a Transport knows of one destination.
type Destination struct {
	Key         string // its name; "name#part" for a part of a split one
	Pattern     string // pattern of its policy
	InFlight    int
	Waiting     int
	HeldUntil   time.Time
	Limits      []LimitState
	Quotas      []Quota  // as last reported, less what was sent since, Reset counted from the snapshot
	Requests    float64  // attempted within Adaptive.Window
	Accepts     float64  // accepted within it
	RejectRate  float64  // probability that the next call is refused
	RetryTokens float64  // retries the budget allows now
	Gates       []string // how each gate prints itself
	LastUsed    time.Time
}

// LimitState is a snapshot of one limit.
type LimitState struct {
	Name      string
	Key       string
	Available float64   // units free now
	Margin    float64   // learned widening of the spacing; 0 is none
	Next      time.Time // when the next unit is free
}

// CredentialKey returns a Key of the values of the named headers, hashed under a
// random secret of this process: the values appear nowhere, and the keys differ
// from process to process. It fits Policy.Key and Limit.Key. A request that has
// none of the headers has the key "".
func CredentialKey(headers ...string) func(*http.Request) string {
	names := make([]string, len(headers))
	for i, h := range headers {
		names[i] = http.CanonicalHeaderKey(h)
	}
	return func(req *http.Request) string {
		if !slices.ContainsFunc(names, func(n string) bool { return len(req.Header[n]) > 0 }) {
			return ""
		}
		mac := hmac.New(sha256.New, processSecret())
		var n [8]byte
		for _, name := range names {
			// The lengths go in too: no two lists of values are to look alike.
			binary.BigEndian.PutUint64(n[:], uint64(len(req.Header[name])))
			mac.Write(n[:])
			for _, v := range req.Header[name] {
				binary.BigEndian.PutUint64(n[:], uint64(len(v)))
				mac.Write(n[:])
				mac.Write([]byte(v))
			}
		}
		return hex.EncodeToString(mac.Sum(nil)[:8])
	}
}

var processSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, sha256.Size)
	rand.Read(secret) // never fails, by its documentation
	return secret
})

// destination is what a Transport knows of one destination, or of one part of a
// split one. There may be a million: what only some of them need is allocated when
// it is.
type destination struct {
	name     string                 // its key as one string
	nameLen  int32                  // of that, the bytes before "#" and the part
	calls    atomic.Int32           // pins
	traits   atomic.Uint32          // see below
	latency  atomic.Uint32          // of accepted answers, smoothed, in microseconds
	group    atomic.Pointer[group]  // what it obeys; nil while it only keeps hostOwn
	hostOwn  atomic.Pointer[policy] // what Config.PolicyFor said of the host of this name
	used     atomic.Int64           // last try sent, since Transport.epoch
	accepted atomic.Int64           // when the youngest call that was accepted had been sent, since Transport.epoch
	pacer    pacer
	throttle throttle
	budget   budget
	reader   reader
}

// newDestination returns the destination of k, which obeys nothing yet.
func newDestination(k destKey) *destination {
	d := &destination{name: strings.Clone(k.String()), nameLen: int32(len(k.name))}
	if plainHost(k.name) {
		d.traits.Store(plainName)
	}
	d.pacer.name = d.name
	return d
}

func (d *destination) key() destKey {
	k := destKey{name: d.name[:d.nameLen]}
	if len(d.name) > int(d.nameLen) {
		k.part = d.name[d.nameLen+1:]
	}
	return k
}

// is reports whether d is the destination of k.
func (d *destination) is(k destKey) bool {
	if k.part == "" {
		return d.name == k.name && len(d.name) == int(d.nameLen)
	}
	return d.key() == k
}

// What a destination is like.
const (
	spokeHTTP1 uint32 = 1 << iota // in its last answer
	spokeHTTP2
	plainName   // its name is a host in canonical form, without a port
	overflowing // it stands in for those that found no room
)

// spoke notes the protocol of an answer.
func (d *destination) spoke(major int) {
	p := spokeHTTP1
	if major == 2 {
		p = spokeHTTP2
	}
	if old := d.traits.Load(); old&p == 0 {
		d.traits.Store(old&^(spokeHTTP1|spokeHTTP2) | p)
	}
}

// group is what a destination obeys. It is immutable.
type group struct {
	policies []*policy // Adaptive and Guards are those of the first
	gates    []Gate
}

func (g *group) has(p *policy) bool {
	if g == nil {
		return false
	}
	return g.policies[0] == p || slices.Contains(g.policies[1:], p)
}

func (g *group) adaptive() *Adaptive { return &g.policies[0].Adaptive }

// touch notes a use at now.
func (d *destination) touch(since time.Duration) {
	// Nobody needs it more exactly, and a load is cheaper than a store.
	if n := int64(since); n-d.used.Load() > int64(time.Millisecond) {
		d.used.Store(n)
	}
}

// learnLatency takes in an accepted answer to a call sent at, since the epoch.
func (d *destination) learnLatency(at, latency time.Duration) {
	if int64(at)-d.accepted.Load() > int64(time.Millisecond) {
		d.accepted.Store(int64(at))
	}
	us := min(latency.Microseconds(), math.MaxUint32)
	old := int64(d.latency.Load())
	switch diff := us - old; {
	case old == 0:
		d.latency.Store(uint32(max(us, 1)))
	case diff > old/16 || diff < -old/16: // a load is cheaper than a store
		d.latency.Store(uint32(max(old+diff/8, 1)))
	}
}

// idle reports whether forgetting d changes no decision.
func (d *destination) idle(now time.Time) bool {
	g := d.group.Load()
	if g == nil {
		return true
	}
	for _, gate := range g.gates {
		if i, ok := gate.(interface{ Idle(time.Time) bool }); ok && !i.Idle(now) {
			return false
		}
	}
	return d.pacer.idle(now) && d.throttle.idle(g.adaptive(), now) && d.budget.idle(now)
}

// snapshot describes d as of now.
func (d *destination) snapshot(g *group, now time.Time, epoch time.Time) Destination {
	p := g.policies[0]
	s := Destination{Key: d.name, Pattern: p.pattern}
	d.pacer.snapshot(now, &s)
	s.Requests, s.Accepts, s.RejectRate = d.throttle.snapshot(&p.Adaptive, now)
	s.RetryTokens = d.budget.tokens(now, p.Retry.Budget, d.throttle.throttling(&p.Adaptive, now))
	for _, gate := range g.gates {
		s.Gates = append(s.Gates, printGate(gate))
	}
	if n := d.used.Load(); n != 0 {
		s.LastUsed = epoch.Add(time.Duration(n))
	}
	return s
}

// gateName returns how a gate prints itself, or else its type.
func printGate(g Gate) string {
	if s, ok := g.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", g)
}
