// Package exact says what a limit allows, from a log of everything that was
// spent: slowly, and with nothing left out. Tests hold limiters to it.
package exact

import (
	"cmp"
	"math/bits"
	"time"
)

// Promise is what an algorithm keeps to.
type Promise uint8

const (
	Bucket  Promise = iota // in any span of W at most N·W/Per + Burst
	Clock                  // in each window of the clock at most N
	Span                   // in any span of Per at most N
	Counter                // at most N by an estimate from two windows of the clock
)

// Log is all that was spent under a rule. Times must not go back.
type Log struct {
	Promise Promise
	N       int
	Per     time.Duration
	Burst   int // of a Bucket; 0 lets a cost of up to N pass when nothing is owed

	spent []entry
}

type entry struct {
	at time.Time
	n  int
}

// Spend notes n units, allowed or not. A negative n takes back units spent at
// the same time.
func (l *Log) Spend(at time.Time, n int) {
	if n >= 0 {
		l.spent = append(l.spent, entry{at, n})
		return
	}
	for i := len(l.spent) - 1; i >= 0 && n < 0 && l.spent[i].at.Equal(at); i-- {
		back := min(-n, l.spent[i].n)
		l.spent[i].n -= back
		n += back
	}
}

// Ever reports whether n units can pass at all.
func (l *Log) Ever(n int) bool {
	if l.Promise == Bucket && l.Burst > 0 {
		return n <= l.Burst
	}
	return n <= l.N
}

// Allows reports whether n units, at least one, may be spent at now.
func (l *Log) Allows(now time.Time, n int) bool {
	if !l.Ever(n) {
		return false
	}
	switch l.Promise {
	case Clock:
		w := l.window(now)
		return l.sum(func(e entry) bool { return l.window(e.at).Equal(w) })+n <= l.N
	case Span:
		return l.sum(func(e entry) bool { return now.Sub(e.at) < l.Per })+n <= l.N
	case Counter:
		return l.estimate(now, n)
	default:
		return l.bucket(now, n)
	}
}

// bucket looks at every span that ends now.
func (l *Log) bucket(now time.Time, n int) bool {
	holds := l.Burst
	if holds == 0 {
		holds, n = 1, 1
	}
	spent := int64(n)
	for i := len(l.spent) - 1; i >= 0; i-- {
		spent += int64(l.spent[i].n)
		// spent <= N·W/Per + holds
		if mul(spent-int64(holds), int64(l.Per)).compare(mul(int64(l.N), int64(now.Sub(l.spent[i].at)))) > 0 {
			return false
		}
	}
	return true
}

// estimate adds what the last window spent, by the part of it within Per.
func (l *Log) estimate(now time.Time, n int) bool {
	w := l.window(now)
	cur := l.sum(func(e entry) bool { return l.window(e.at).Equal(w) })
	prev := l.sum(func(e entry) bool { return l.window(e.at).Equal(w.Add(-l.Per)) })
	return mul(int64(prev), int64(l.Per-now.Sub(w))).compare(mul(int64(l.N-cur-n), int64(l.Per))) <= 0
}

// window returns the begin of the window of t, which lies after 1970.
func (l *Log) window(t time.Time) time.Time {
	n := t.UnixNano()
	return time.Unix(0, n-n%int64(l.Per))
}

func (l *Log) sum(in func(entry) bool) (n int) {
	for _, e := range l.spent {
		if in(e) {
			n += e.n
		}
	}
	return n
}

// product is a·b in full.
type product struct {
	sign   int
	hi, lo uint64
}

func mul(a, b int64) product {
	p := product{sign: cmp.Compare(a, 0) * cmp.Compare(b, 0)}
	p.hi, p.lo = bits.Mul64(abs(a), abs(b))
	return p
}

func abs(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func (p product) compare(q product) int {
	if p.sign != q.sign {
		return cmp.Compare(p.sign, q.sign)
	}
	return p.sign * cmp.Or(cmp.Compare(p.hi, q.hi), cmp.Compare(p.lo, q.lo))
}

// Free returns the first time from now on at which n units may be spent, to the
// nanosecond. It must be possible within limit.
func (l *Log) Free(now time.Time, n int, limit time.Duration) (time.Time, bool) {
	if !l.Ever(n) || !l.Allows(now.Add(limit), n) {
		return time.Time{}, false
	}
	// While nothing is spent no promise gets narrower.
	lo, hi := time.Duration(-1), limit
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; l.Allows(now.Add(mid), n) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return now.Add(hi), true
}
