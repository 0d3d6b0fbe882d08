package comity

import (
	"math"
	"math/rand/v2"
	"os"
	"time"
)

// long says that the simulations run in full, with all seeds. A variable would be
// read too early for the test cache to know of it.
func long() bool { return os.Getenv("COMITY_LONG") != "" }

// pick returns short, full in a long run, or tiny under the race detector.
func pick[T any](tiny, short, full T) T {
	switch {
	case raceEnabled:
		return tiny
	case long():
		return full
	}
	return short
}

// simStart is the instant at which simulations begin: buckets begin there too, so
// that a run is the same in every process.
var simStart = epoch.Round(0).Add(throttleBase - time.Duration(ticks(epoch))%throttleBase)

// sim is a discrete-event simulation on a clock of its own: clients that call one
// backend. The same seed gives the same run.
type sim struct {
	rnd     *rand.Rand
	now     time.Duration
	events  []event // a binary heap
	seq     uint32
	server  server
	clients []*simClient

	latency time.Duration // of an answer, besides the time it waits in the backend
	series  []simTally    // by tallyWidth, by the time of each event
	watch   func(*simClient, event)
}

const tallyWidth = 100 * time.Millisecond

// simTally counts what happened: calls offered, tries sent, tries accepted, calls
// refused by their own client.
type simTally struct{ offered, sent, ok, local int }

func (t *simTally) add(u simTally) {
	t.offered += u.offered
	t.sent += u.sent
	t.ok += u.ok
	t.local += u.local
}

// server can do so much work a second, refuses what it cannot do within its queue,
// and pays for each refusal.
type server struct {
	capacity   float64       // calls served a second
	rejectCost float64       // work of a refusal, as part of that of a call
	queue      time.Duration // work it takes on at most; 200 ms if zero
	down       func(now time.Duration) bool
	busy       time.Duration // until when it has work
}

// backlog is how much work refusals can pile up: what is beyond it is dropped by the
// network, and costs nothing.
const backlog = time.Second

func (s *server) serve(now time.Duration) bool {
	if s.down != nil && s.down(now) {
		return false
	}
	s.busy = max(s.busy, now)
	queue := s.queue
	if queue == 0 {
		queue = 200 * time.Millisecond
	}
	work := func(part float64) { s.busy += time.Duration(part / s.capacity * float64(time.Second)) }
	if s.busy-now <= queue {
		work(1)
		return true
	}
	if s.busy-now < backlog {
		work(s.rejectCost)
	}
	return false
}

// simClient calls at random instants.
type simClient struct {
	id     int
	rate   func(now time.Duration) float64 // calls a second, at most peak
	peak   float64
	ad     *Adaptive
	th     throttle
	tries  int // at most, of one call
	budget float64
	bu     budget
	class  func(*rand.Rand) Criticality
	total  simTally
}

type event struct {
	at     time.Duration
	seq    uint32
	client int32
	kind   eventKind
	try    int8
	class  Criticality
	ok     bool
}

type eventKind uint8

const (
	arrival eventKind = iota
	retrial
	ending
)

func newSim(seed uint64, capacity, rejectCost float64) *sim {
	return &sim{
		rnd:     rand.New(rand.NewPCG(seed, 99)),
		server:  server{capacity: capacity, rejectCost: rejectCost},
		latency: 50 * time.Millisecond,
	}
}

// add adds n clients of the given rate. Without ad they throttle nothing.
func (s *sim) add(n int, rate float64, ad *Adaptive) {
	for range n {
		s.clients = append(s.clients, &simClient{
			id: len(s.clients), peak: rate, rate: func(time.Duration) float64 { return rate }, ad: ad, tries: 1,
		})
	}
}

// run simulates until the given time; it may be called again to go on.
func (s *sim) run(until time.Duration) {
	if s.now == 0 && s.seq == 0 {
		for i := range s.clients {
			s.nextArrival(int32(i))
		}
	}
	for len(s.events) > 0 && s.events[0].at <= until {
		e := s.pop()
		s.now = e.at
		s.step(e)
	}
	s.now = until
}

func (s *sim) nextArrival(i int32) {
	c := s.clients[i]
	s.push(event{at: s.now + s.exp(c.peak), client: i, kind: arrival, try: 1})
}

// exp returns the time to the next of events that come n times a second.
func (s *sim) exp(n float64) time.Duration {
	return time.Duration(s.rnd.ExpFloat64() / n * float64(time.Second))
}

func (s *sim) step(e event) {
	c := s.clients[e.client]
	switch e.kind {
	case arrival:
		s.nextArrival(e.client)
		// Thinning: a rate below the peak leaves calls out.
		if r := c.rate(s.now); r < c.peak && s.rnd.Float64()*c.peak >= r {
			return
		}
		e.class = Critical
		if c.class != nil {
			e.class = c.class(s.rnd)
		}
		s.note(c, simTally{offered: 1})
		c.bu.first(s.time())
		s.try(c, e)
	case retrial:
		s.try(c, e)
	case ending:
		s.end(c, e)
	}
}

func (s *sim) try(c *simClient, e event) {
	if c.ad != nil {
		if ok, _ := c.th.admit(c.ad, s.time(), e.class, e.try > 1); !ok {
			s.note(c, simTally{local: 1})
			if s.watch != nil {
				s.watch(c, e)
			}
			return
		}
		c.th.sent(c.ad, s.time())
	}
	s.note(c, simTally{sent: 1})
	e.ok = s.server.serve(s.now)
	e.kind = ending
	e.at = s.now + s.latency
	if e.ok {
		e.at += max(0, s.server.busy-s.now)
	}
	s.push(e)
}

func (s *sim) end(c *simClient, e event) {
	if c.ad != nil {
		c.th.done(c.ad, s.time(), e.ok, true)
	}
	if s.watch != nil {
		s.watch(c, e)
	}
	if e.ok {
		s.note(c, simTally{ok: 1})
		return
	}
	if int(e.try) >= c.tries {
		return
	}
	throttling := c.ad != nil && c.th.throttling(c.ad, s.time())
	if !c.bu.take(s.time(), c.budget, throttling) {
		return
	}
	ceiling := 500 * time.Millisecond << (e.try - 1)
	e.try++
	e.kind, e.at, e.ok = retrial, s.now+time.Duration(s.rnd.Float64()*float64(ceiling)), false
	s.push(e)
}

func (s *sim) time() time.Time { return simStart.Add(s.now) }

func (s *sim) note(c *simClient, t simTally) {
	c.total.add(t)
	i := int(s.now / tallyWidth)
	for len(s.series) <= i {
		s.series = append(s.series, simTally{})
	}
	s.series[i].add(t)
}

// between returns what happened from one time to another.
func (s *sim) between(from, to time.Duration) (sum simTally) {
	for i := int(from / tallyWidth); i < int(to/tallyWidth) && i < len(s.series); i++ {
		sum.add(s.series[i])
	}
	return sum
}

// recovered returns the time after from until accepted calls are at least share of
// those offered, over a span that begins there; -1 if never.
func (s *sim) recovered(from, span time.Duration, share float64) time.Duration {
	for at := from; at+span <= s.now; at += tallyWidth {
		if t := s.between(at, at+span); float64(t.ok) >= share*float64(t.offered) {
			return at - from
		}
	}
	return -1
}

// accepted returns how many calls of each client were accepted so far.
func (s *sim) accepted() []float64 {
	got := make([]float64, len(s.clients))
	for i, c := range s.clients {
		got[i] = float64(c.total.ok)
	}
	return got
}

// goodput is the share of the capacity that accepted calls used.
func (s *sim) goodput(from, to time.Duration) float64 {
	return float64(s.between(from, to).ok) / s.server.capacity / (to - from).Seconds()
}

// jain is Jain's index of fairness: 1 if all are equal, 1/n if one has all.
func jain(xs []float64) float64 {
	var sum, squares float64
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	return sum * sum / float64(len(xs)) / squares
}

// mean returns the mean and the least of xs.
func mean(xs []float64) (mean, least float64) {
	least = math.Inf(1)
	for _, x := range xs {
		mean += x / float64(len(xs))
		least = min(least, x)
	}
	return mean, least
}

func (e event) before(f event) bool {
	if e.at != f.at {
		return e.at < f.at
	}
	return e.seq < f.seq
}

func (s *sim) push(e event) {
	s.seq++
	e.seq = s.seq
	h := append(s.events, e)
	i := len(h) - 1
	for i > 0 && e.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = e
	s.events = h
}

func (s *sim) pop() event {
	h := s.events
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	s.events = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return top
}
