package comitytest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comity/comity"
)

// TestLimiter checks that the limiters new returns keep the promise of l, which
// must state N, Per and Algorithm: never more than l allows, held against a log of
// every unit spent, and no wait while l has a unit free. Its other fields but
// Burst are not looked at. Each limiter that new returns must be unused and share
// nothing with the others. The times they are given begin now and run ahead of
// the clock.
//
// A hundredth of the time that a unit lasts is forgiven: up to a microsecond
// where a unit is granted early, up to a millisecond where it comes late. A wait
// may be too short, as long as asking again each time leads there.
func TestLimiter(t *testing.T, l comity.Limit, new func() comity.Limiter) {
	t.Helper()
	l = comity.Limit{N: l.N, Per: l.Per, Burst: l.Burst, Algorithm: l.Algorithm}
	if _, err := comity.NewLimiter(l); err != nil {
		t.Fatal(err)
	}
	if max(l.N, l.Burst) > 1_000_000_000 {
		t.Fatalf("comitytest: limit %s: no log is kept of so many units", l)
	}
	for _, c := range limiterChecks {
		t.Run(c.name, func(t *testing.T) {
			if err := c.check(newTester(l, new)); err != nil {
				t.Error(err)
			}
		})
	}
}

// limiterChecks are what TestLimiter looks at. The first ones say best what is
// wrong, the streams find the rest.
var limiterChecks = []struct {
	name  string
	check func(*tester) error
}{
	{"starts full", startsFull},
	{"is never fuller than full", neverAboveFull},
	{"refuses for nothing", refusalChangesNothing},
	{"never allows what never fits", neverFits},
	{"takes back what was not used", takesBack},
	{"charges without asking", chargesDebt},
	{"keeps its promise", func(t *tester) error { return t.streams(steady) }},
	{"keeps its promise to those who hurry", func(t *tester) error { return t.streams(hurried) }},
	{"credits no time twice", func(t *tester) error { return t.streams(goingBack) }},
	{"serves many at once", manyAtOnce},
	{"shares nothing", sharesNothing},
}

// tester holds limiters to a rule.
type tester struct {
	rule        comity.Limit
	new         func() comity.Limiter
	most        int           // units that pass at once
	spacing     time.Duration // one unit
	early, late time.Duration // forgiven
	start       time.Time
}

func newTester(l comity.Limit, new func() comity.Limiter) *tester {
	t := &tester{rule: l, new: new, start: time.Now()}
	t.most = l.N
	if l.Algorithm <= comity.LeakyBucket {
		t.most = max(l.Burst, 1)
	}
	if l.Algorithm == comity.LeakyBucket {
		t.most = 1
	}
	t.spacing = max(l.Per/time.Duration(l.N), 1)
	t.early = min(max(t.spacing/100, 1), time.Microsecond)
	t.late = min(max(t.spacing/100, 1), time.Millisecond)
	return t
}

// drain takes what a full limiter has and one unit more, which is refused.
func (r *run) drain() error {
	singly := min(r.most, 20)
	if n := r.most - singly; n > 0 {
		if w, err := r.take(n); w > 0 || err != nil {
			return errors.Join(err, fmt.Errorf("%s is refused for %v by a limiter that must be full", r.call(n), w))
		}
	}
	for range singly + 1 {
		if w, err := r.take(1); w > 0 || err != nil {
			return err
		}
	}
	return errors.New("more units pass at once than there are") // and take has not noticed
}

func startsFull(t *tester) error { return t.run().drain() }

func neverAboveFull(t *tester) error {
	r := t.run()
	r.l.Adjust(r.now, -3*t.most)
	if err := r.drain(); err != nil {
		return fmt.Errorf("after giving back to a full limiter: %w", err)
	}
	r.now = r.now.Add(100 * t.rule.Per)
	if err := r.drain(); err != nil {
		return fmt.Errorf("after a long pause: %w", err)
	}
	return nil
}

func refusalChangesNothing(t *tester) error {
	r := t.run()
	if err := r.drain(); err != nil {
		return err
	}
	first, err := r.take(1)
	if err != nil {
		return err
	}
	for range 50 {
		w, err := r.take(1)
		if err != nil {
			return err
		}
		if w > first+t.late || w < first-t.late {
			return fmt.Errorf("%s answers %v at first and %v after more refusals", r.call(1), first, w)
		}
	}
	if err := r.takeSoon(1); err != nil {
		return fmt.Errorf("after refusals: %w", err)
	}
	return nil
}

func neverFits(t *tester) error {
	r := t.run()
	for _, n := range []int{max(t.rule.N, t.rule.Burst) + 1, math.MaxInt / 2, math.MaxInt} {
		for range 3 {
			if _, err := r.take(n); err != nil {
				return err
			}
		}
	}
	return r.drain()
}

func takesBack(t *tester) error {
	r := t.run()
	for _, n := range []int{1, t.most, t.rule.N} {
		if !r.log.Ever(n) {
			continue
		}
		for range 3 {
			if w, err := r.take(n); w > 0 || err != nil {
				return errors.Join(err, fmt.Errorf("%s is refused for %v after all was given back", r.call(n), w))
			}
			r.adjust(-n)
		}
	}
	return r.drain()
}

func chargesDebt(t *tester) error {
	r := t.run()
	r.adjust(t.most + t.rule.N/2)
	for range min(t.most, 20) + 2 {
		if err := r.takeSoon(1); err != nil {
			return fmt.Errorf("after %d units charged at once: %w", t.most+t.rule.N/2, err)
		}
	}
	return nil
}

// manyAtOnce is for the race detector as much as for the count.
func manyAtOnce(t *tester) error {
	const callers, few = 8, 400
	l, want := t.new(), min(t.most, few)
	if t.most > few {
		l.Adjust(t.start, t.most-few)
	}
	var granted atomic.Int64
	var wg sync.WaitGroup
	tries := want/callers + 10
	for range callers {
		wg.Go(func() {
			for range tries {
				if w, err := l.Take(t.start, 1); w == 0 && err == nil {
					granted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := granted.Load(); n != int64(want) {
		return fmt.Errorf("of many units asked for at once %d pass, not the %d there are", n, want)
	}
	return nil
}

func sharesNothing(t *tester) error {
	a, b := t.run(), t.run()
	if err := a.drain(); err != nil {
		return err
	}
	if w, err := b.take(1); err != nil || w > 0 {
		return errors.Join(err, errors.New("a new limiter is not full when another was used"))
	}
	return nil
}
