package comity

import (
	"slices"
	"strings"
	"time"
)

// A report is what one source says of one quota.
type report struct {
	Quota
	source  source
	blame   string // the field that a quota that is cut off is blamed on
	frac    uint32 // billionths of a limit below 1, which is reported as 1
	stated  bool   // a value states the window
	item    bool   // from a RateLimit List
	renamed bool   // by a field such as X-RateLimit-Resource
}

// add begins a report of what f says of the quota of that name. Twice the number
// of quotas leaves room for those that two families report; what is above that
// is cut off.
func (p *parser) add(f *field, name string) *report {
	if len(p.quotas) == 2*maxQuotas {
		p.flag(f)
		p.spare = report{}
		return p.spare.begin(f, name)
	}
	p.quotas = append(p.quotas, report{})
	return p.quotas[len(p.quotas)-1].begin(f, name)
}

func (r *report) begin(f *field, name string) *report {
	r.Name, r.Limit, r.Remaining, r.Window, r.Reset = name, -1, -1, -1, -1
	r.source, r.blame = f.source, f.key
	return r
}

// tally is what group needs to know besides the report, until all fields of a
// quota are read.
type tally struct {
	limit, remaining bool  // was sent, usable or not
	used             int64 // -1 if not sent
	reset            form
	resetOrder       uint8
	interval         bool // the window is a bare number of an interval without a unit
	hasFill          bool
	fill             number
	burst            int64
	replenish        number
}

// group reads all fields of one quota.
func (p *parser) group(fs []field) {
	if fs[0].source == fromSpecial {
		p.special(&fs[0])
		return
	}
	n := zipped(fs)
	if n == 0 {
		p.one(fs, -1)
	}
	for i := range n {
		p.one(fs, i)
	}
}

// zipped returns how many quotas fs holds in lists of equal length, as when two
// limiters behind one proxy each set the fields; 0 if there are no such lists.
func zipped(fs []field) int {
	limits, paired := 0, false
	for i := range fs {
		switch f := &fs[i]; f.kind {
		case kindLimit:
			if limits = plainMembers(f); limits < 2 {
				return 0
			}
		case kindRemaining, kindUsed:
			if limits == 0 || plainMembers(f) != limits {
				return 0
			}
			paired = true
		case kindReset:
			if limits == 0 || plainMembers(f) != limits {
				return 0
			}
		}
	}
	if !paired {
		return 0
	}
	return limits
}

// plainMembers counts the members of f; 0 if there is one, or one is not a plain
// number.
func plainMembers(f *field) int {
	n := 0
	if len(f.lines) > maxLines || len(f.lines) == 1 && strings.IndexByte(f.lines[0], ',') < 0 {
		return 0
	}
	for _, line := range f.lines {
		if len(line) > maxReset {
			return 0
		}
		for member := range strings.SplitSeq(line, ",") {
			if _, _, ok := count(trim(member)); !ok || n == maxQuotas {
				return 0
			}
			n++
		}
	}
	return n
}

// one reads one quota from fs, or from the members at index pick of its lists.
func (p *parser) one(fs []field, pick int) {
	r := p.add(&fs[0], lowerName(fs[0].name))
	t := tally{used: -1, burst: -1}
	for i := range fs {
		f := &fs[i]
		switch f.kind {
		case kindLimit:
			p.limit(f, pick, r, &t)
		case kindRemaining:
			t.remaining = true
			if n := p.counter(f, pick, r, false); n >= 0 && r.Remaining < 0 {
				r.Remaining = n
			}
		case kindUsed:
			if n := p.counter(f, pick, r, true); n >= 0 && t.used < 0 {
				t.used = n
			}
		case kindReset:
			p.reset(f, pick, r, &t)
		case kindWindow:
			p.window(f, r, &t)
		case kindFill:
			t.hasFill = true
			t.fill = p.rate(f)
		case kindReplenish:
			t.replenish = p.rate(f)
		case kindBurst:
			t.burst = p.counter(f, -1, r, false)
		}
	}
	t.derive(r)
	if r.Window < 0 {
		r.Window = windowOf(r.Name)
	}
}

// derive completes r by what follows from its other fields.
func (t *tally) derive(r *report) {
	if t.interval && t.reset == formEpochMilli {
		r.Window = ceilMilli(r.Window / 1000)
	}
	if r.Limit < 0 && !t.limit && t.burst >= 0 {
		r.Limit = t.burst
		if t.replenish.positive() {
			r.Window = perRate(time.Second, t.burst, t.replenish)
			r.stated = r.Window > 0
		}
	}
	switch {
	case r.Remaining < 0 && !t.remaining && r.Limit >= 0 && t.used >= 0:
		r.Remaining = max(r.Limit-t.used, 0)
	case r.Limit < 0 && !t.limit && r.Remaining >= 0 && t.used >= 0:
		if sum := r.Remaining + t.used; sum <= maxNumber {
			r.Limit = sum
		}
	}
	if t.hasFill {
		interval := r.Window
		r.Window, r.stated = -1, false
		if interval > 0 && r.Limit > 0 && t.fill.positive() {
			r.Window, r.stated = perRate(interval, r.Limit, t.fill), true
		}
	}
	if r.Window == 0 {
		r.Window = -1
	}
}

// perRate is the time in which n units come at x units per d, so that n in that
// time is the sustained rate of a bucket.
func perRate(d time.Duration, n int64, x number) time.Duration {
	if x.frac == 0 || x.n > maxNumber/1e6 {
		return ceilMilli(mulDiv(d, n, int64(max(x.n, 1))))
	}
	return ceilMilli(mulDiv(mulDiv(d, n, 1), 1e9, int64(x.n)*1e9+int64(x.frac)))
}

func (x number) positive() bool { return x.n > 0 || x.frac > 0 }

// reset reads a reset of r unless a field that comes first has been.
func (p *parser) reset(f *field, pick int, r *report, t *tally) {
	milli := f.milli || !f.unit && slices.Contains(p.rules.milli, f.source)
	var d time.Duration
	var how form
	if pick >= 0 {
		d, how = p.clock.read(member(f, pick), maxReset, milli)
		if how == noForm {
			p.flag(f)
		}
	} else {
		d, how = p.moment(f, maxReset, milli)
	}
	if how == noForm || t.reset != noForm && (f.order > t.resetOrder || d <= r.Reset) {
		return
	}
	r.Reset, t.reset, t.resetOrder = d, how, f.order
}

// window reads a window, in the unit that the name states, else in seconds.
func (p *parser) window(f *field, r *report, t *tally) {
	for i, line := range f.lines {
		if i == maxLines {
			p.flag(f)
			return
		}
		d, bare, ok := readWindow(line, f.milli)
		if !ok {
			p.flag(f)
			continue
		}
		if !r.stated {
			r.Window, r.stated = d, true
			t.interval = bare && !f.unit && f.order == 1
		}
	}
}

// readWindow reads a number or a duration; bare reports the former.
func readWindow(s string, milli bool) (d time.Duration, bare, ok bool) {
	s = trim(s)
	if len(s) > maxDelay {
		return 0, false, false
	}
	x, ok := parseNumber(s)
	if !ok {
		d, ok = parseDuration(s)
		return ceilMilli(d), false, ok && d > 0
	}
	unit := time.Second
	if milli {
		unit = time.Millisecond
	}
	if x.big || x.n > maxNumber || !x.positive() {
		return 0, true, false
	}
	d = mulDiv(unit, int64(x.n), 1)
	if extra := mulDiv(unit, int64(x.frac), 1e9); d < d+extra {
		d += extra
	}
	return ceilMilli(d), true, true
}

// rate reads a number of units; zero is no rate.
func (p *parser) rate(f *field) number {
	x, ok := parseNumber(trim(f.lines[0]))
	if !ok || x.big || x.n > maxNumber || !x.positive() || len(f.lines[0]) > maxReset {
		p.flag(f)
		return number{}
	}
	return x
}
