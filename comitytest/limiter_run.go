package comitytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/internal/limit/exact"
)

// run is one limiter and the log of what it was asked.
type run struct {
	*tester
	l   comity.Limiter
	log *exact.Log
	now time.Time

	// Where times go back.
	latest time.Time // of the times given; log goes by it
	given  []grant   // by the times given
	broken bool      // log does not allow what passed
}

// grant is n units that passed.
type grant struct {
	at time.Time
	n  int
}

func (t *tester) run() *run {
	log := &exact.Log{N: t.rule.N, Per: t.rule.Per, Burst: t.rule.Burst}
	switch t.rule.Algorithm {
	case comity.LeakyBucket:
		log.Burst = 0
	case comity.FixedWindow:
		log.Promise = exact.Clock
	case comity.SlidingLog:
		log.Promise = exact.Span
	case comity.SlidingWindow:
		log.Promise = exact.Counter
	}
	return &run{tester: t, l: t.new(), log: log, now: t.start}
}

// take asks for n units, holds the answer to the log and returns the wait.
func (r *run) take(n int) (time.Duration, error) {
	w, err := r.l.Take(r.now, n)
	switch {
	case err != nil:
		return w, fmt.Errorf("%s failed: %w", r.call(n), err)
	case w < 0:
		return w, fmt.Errorf("%s answers %v, which is in the past", r.call(n), w)
	case !r.log.Ever(n):
		if w != comity.Forever {
			return w, fmt.Errorf("%s answers %v: so much never fits, so the wait is Forever", r.call(n), w)
		}
	case w == 0:
		if !r.log.Allows(r.now.Add(r.early), n) {
			return w, fmt.Errorf("%s passes: %s", r.call(n), r.over(n))
		}
		r.log.Spend(r.now, n)
	case r.log.Allows(r.now, n) && r.log.Allows(r.now.Add(-r.late), n):
		return w, fmt.Errorf("%s is refused for %v: so much is free", r.call(n), w)
	case w > r.late && r.log.Allows(r.now.Add(w-r.late), n):
		return w, fmt.Errorf("%s is to wait %v: %s", r.call(n), w, r.over(n))
	}
	return w, nil
}

// over says what the log has against n units now.
func (r *run) over(n int) string {
	const far = 1000 * time.Hour
	if free, ok := r.log.Free(r.now, n, far); ok {
		return fmt.Sprintf("%s allows so much in %v", r.rule, free.Sub(r.now))
	}
	return fmt.Sprintf("%s does not allow so much", r.rule)
}

func (r *run) call(n int) string {
	return fmt.Sprintf("Take(%d) at %v", n, r.now.Sub(r.start))
}

func (r *run) adjust(n int) {
	r.l.Adjust(r.now, n)
	r.log.Spend(r.now, n)
}

// takeSoon asks for n units until they are granted.
func (r *run) takeSoon(n int) error {
	const patience = 20
	for range patience {
		w, err := r.take(n)
		if w == 0 || err != nil {
			return err
		}
		r.now = r.now.Add(w)
	}
	return fmt.Errorf("%s: refused %d times by the waits it was told", r.call(n), patience)
}

// manner is how the calls of a stream come.
type manner uint8

const (
	steady    manner = iota // at random
	hurried                 // at the very instant that was answered, or too early
	goingBack               // now and then with a time before the last one
)

// streams asks a number of limiters at random.
func (t *tester) streams(m manner) error {
	for seed := range uint64(25) {
		rnd := rand.New(rand.NewPCG(seed, uint64(m)))
		r := t.run()
		r.now = r.now.Add(time.Duration(rnd.Int64N(int64(t.rule.Per))))
		if err := r.stream(m, rnd); err != nil {
			return fmt.Errorf("stream %d: %w", seed, err)
		}
	}
	return nil
}

func (r *run) stream(m manner, rnd *rand.Rand) error {
	var wait time.Duration
	var err error
	for range 120 {
		r.step(m, wait, rnd)
		n := r.cost(rnd)
		if m == goingBack {
			if wait, err = r.takeBack(n, rnd); err != nil {
				return err
			}
			continue
		}
		if rnd.IntN(15) == 0 {
			r.adjust(n)
			continue
		}
		if wait, err = r.take(n); err != nil {
			return err
		}
		if wait == 0 && rnd.IntN(8) == 0 {
			r.adjust(-1 - rnd.IntN(n))
		}
	}
	r.now = r.now.Add(2 * r.rule.Per)
	return r.takeSoon(1)
}

// takeBack asks with a time that may lie before the last one. A limiter may count
// a unit from the time it is given or from the latest it has seen: it is wrong if
// both logs are against it.
func (r *run) takeBack(n int, rnd *rand.Rand) (time.Duration, error) {
	at := r.now.Add(-time.Duration(rnd.Int64N(int64(2*r.spacing + 1))))
	if at.After(r.latest) {
		r.latest = at
	}
	w, err := r.l.Take(at, n)
	if err != nil || w > 0 {
		return max(w, 0), err
	}
	i, _ := slices.BinarySearchFunc(r.given, at, func(g grant, at time.Time) int { return g.at.Compare(at) })
	r.given = slices.Insert(r.given, i, grant{at, n})
	r.broken = r.broken || !r.log.Allows(r.latest.Add(r.early), n)
	r.log.Spend(r.latest, n)
	if !r.broken {
		return 0, nil
	}
	own := r.tester.run()
	for _, g := range r.given {
		if !own.log.Allows(g.at.Add(r.early), g.n) {
			return 0, fmt.Errorf("%s, asked with a time %v before the latest, passes: %s does not allow that by either",
				r.call(n), r.latest.Sub(at), r.rule)
		}
		own.log.Spend(g.at, g.n)
	}
	return 0, nil
}

// step lets time pass.
func (r *run) step(m manner, wait time.Duration, rnd *rand.Rand) {
	upTo := func(d time.Duration) { r.now = r.now.Add(time.Duration(rnd.Int64N(int64(d) + 1))) }
	if m == hurried && wait < comity.Forever && rnd.IntN(4) > 0 {
		if rnd.IntN(2) == 0 {
			wait = max(wait-2*r.early-1, 0)
		}
		r.now = r.now.Add(wait)
		return
	}
	switch rnd.IntN(5) {
	case 0:
		upTo(r.rule.Per)
	case 1, 2:
		upTo(2 * r.spacing)
	case 3:
		if rnd.IntN(4) == 0 {
			upTo(4 * r.rule.Per)
		}
	}
}

func (r *run) cost(rnd *rand.Rand) int {
	switch rnd.IntN(5) {
	case 0:
		return 1 + rnd.IntN(max(r.rule.N, r.rule.Burst)+1)
	case 1:
		return 1 + rnd.IntN(3)
	}
	return 1
}
