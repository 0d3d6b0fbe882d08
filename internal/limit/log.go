package limit

import (
	"math"
	"slices"
	"sort"
	"sync"
	"time"
)

// Log allows N units in every span of Per, exactly: it remembers each. A unit
// counts from the instant it is spent until just before that plus Per.
type Log struct {
	rule *Rule

	mu     sync.Mutex
	runs   []run // by time
	head   int   // runs before it are dropped
	used   int64 // sum of the rest
	wiped  int64 // time of the latest run that was dropped
	wide   margin
	anyone bool // wiped is set
}

// run is units spent at the same time.
type run struct{ at, n int64 }

// NewLog returns an empty log. It takes memory only for what it remembers, at
// most N runs and one for each charge that was not asked for.
func NewLog(r *Rule) *Log { return &Log{rule: r} }

// Take spends n units if they fit into the last Per.
func (l *Log) Take(now time.Time, n int) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.wait(mono(now), n)
	if w == 0 && n > 0 {
		l.charge(mono(now), int64(n))
	}
	return w, nil
}

// Adjust adds n units to what has been spent. Units given back are those spent
// at now, and then the oldest, which promise the least.
func (l *Log) Adjust(now time.Time, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := mono(now)
	if n > 0 {
		l.charge(m, int64(n))
		return
	}
	back := -max(int64(n), -math.MaxInt64)
	if i, ok := l.find(m); ok {
		back -= l.cut(i, back)
	}
	l.expire(m)
	for back > 0 && l.head < len(l.runs) && l.runs[l.head].at <= m {
		back -= l.cut(l.head, back)
	}
}

// Wait returns how long until n units fit.
func (l *Log) Wait(now time.Time, n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait(mono(now), n)
}

// Free returns the units that fit.
func (l *Log) Free(now time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, used := l.live(mono(now))
	return max(float64(subSat(int64(l.rule.N), used)), 0)
}

// Full reports whether the log is empty as of now.
func (l *Log) Full(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, used := l.live(mono(now))
	return used == 0
}

// Spent returns the units of the last Per.
func (l *Log) Spent(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, used := l.live(mono(now))
	return int(used)
}

// Reset returns the time until the oldest unit counts no more.
func (l *Log) Reset(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, used := l.live(mono(now))
	if used == 0 {
		return 0
	}
	return time.Duration(subSat(addSat(l.runs[i].at, l.wide.per(l.rule)), mono(now)))
}

// SetMargin widens Per.
func (l *Log) SetMargin(now time.Time, m float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wide = newMargin(m)
}

// Margin returns the margin that is set.
func (l *Log) Margin() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wide.factor()
}

// Reconfigure goes over to r and remembers what it still can.
func (l *Log) Reconfigure(now time.Time, r *Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rule = r
}

// live returns the first run that counts at now, and the sum from there on.
func (l *Log) live(now int64) (first int, used int64) {
	per := l.wide.per(l.rule)
	first, used = l.head, l.used
	for first < len(l.runs) && subSat(now, l.runs[first].at) >= per {
		used -= l.runs[first].n
		first++
	}
	return first, used
}

func (l *Log) wait(now int64, n int) time.Duration {
	if n <= 0 {
		return 0
	}
	if n > l.rule.N {
		return Forever
	}
	per := l.wide.per(l.rule)
	// What was dropped as of a later time still counts at this one.
	var least int64
	if l.anyone && subSat(now, l.wiped) < per {
		least = subSat(addSat(l.wiped, per), now)
	}
	i, used := l.live(addSat(now, least))
	until := addSat(now, least)
	for ; used > int64(l.rule.N-n); i++ {
		used -= l.runs[i].n
		until = addSat(l.runs[i].at, per)
	}
	return time.Duration(subSat(until, now))
}

func (l *Log) charge(now, n int64) {
	l.expire(now)
	l.used = addSat(l.used, n)
	i, ok := l.find(now)
	if ok {
		l.runs[i].n = addSat(l.runs[i].n, n)
		return
	}
	l.runs = slices.Insert(l.runs, i, run{now, n})
}

// expire drops the runs that count no more. What is left moves down when it is
// the lesser part: each run moves once or so, and no memory is asked for again.
func (l *Log) expire(now int64) {
	i, used := l.live(now)
	if i == l.head {
		return
	}
	l.wiped, l.anyone = l.runs[i-1].at, true
	l.head, l.used = i, used
	if 2*l.head >= len(l.runs) {
		l.runs = l.runs[:copy(l.runs, l.runs[l.head:])]
		l.head = 0
	}
}

// cut takes up to n units out of run i and returns how many.
func (l *Log) cut(i int, n int64) int64 {
	n = min(n, l.runs[i].n)
	l.used -= n
	l.runs[i].n -= n
	switch {
	case l.runs[i].n > 0:
	case i == l.head:
		l.head++
	default:
		l.runs = slices.Delete(l.runs, i, i+1)
	}
	return n
}

// find returns the index of the run at the given time, or where it would stand.
func (l *Log) find(at int64) (i int, ok bool) {
	i = l.head + sort.Search(len(l.runs)-l.head, func(i int) bool { return l.runs[l.head+i].at >= at })
	return i, i < len(l.runs) && l.runs[i].at == at
}
