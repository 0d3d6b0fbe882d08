package comity

import (
	"math"
	"math/bits"
	"strings"
	"time"
)

// Bounds on what a server can make this package believe.
const (
	horizon   = 366 * 24 * time.Hour // no wait is longer, no instant further away
	past      = 24 * time.Hour       // an epoch further back is no epoch, a Date further off is wrong
	maxDelay  = 64                   // bytes of a delay
	maxReset  = 128                  // bytes of a reset
	maxLines  = 8                    // lines of one field
	maxList   = 4 << 10              // bytes of one list
	maxQuotas = 16                   // quotas of one response, and members of one list
	maxNumber = 1_000_000_000_000_000
)

// form is the way in which a wait is written.
type form uint8

const (
	noForm form = iota
	formSeconds
	formMillis
	formEpoch
	formEpochMilli
	formEpochMicro
	formEpochNano
	formDuration
	formDate
)

// A clock is what the absolute values of one response are measured against: the
// server's own clock where that can be right. What it said is measured against
// the instant at which it said it.
type clock struct {
	now   time.Time
	date  string // the server's Date, until an absolute value asks for it
	begun bool   // ref is known
	ref   time.Time
	age   time.Duration // for how long the response was stored: deltas count less this, and its Date is older
}

func newClock(now time.Time, date, age []string) clock {
	c := clock{now: now}
	if len(date) > 0 && len(date[0]) <= maxDelay {
		c.date = date[0]
	}
	if len(age) > 0 {
		if x, ok := parseNumber(trim(age[0])); ok && x.n >= 1 && x.n <= 86400 && !x.big && x.frac == 0 {
			c.age = time.Duration(x.n) * time.Second
		}
	}
	return c
}

// reference is the Date, if that can be read and is within a day of now.
func (c *clock) reference() time.Time {
	if !c.begun {
		c.begun, c.ref = true, c.now
		if t, ok := parseHTTPDate(trim(c.date), c.now); ok && t.Sub(c.now).Abs() <= past {
			c.ref = t.Add(c.age)
		}
	}
	return c.ref
}

// read reads one value of a delay or a reset: a number, an HTTP-date, a duration
// or a date and time of RFC 3339. A bare number counts milliseconds if milli is
// set and it can be no epoch. The result is rounded up to a millisecond.
func (c *clock) read(s string, limit int, milli bool) (time.Duration, form) {
	s = trim(s)
	if len(s) == 0 || len(s) > limit {
		return 0, noForm
	}
	if x, ok := parseNumber(s); ok {
		return c.number(x, milli)
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return 0, noForm
		}
	}
	if isDigit(s[0]) {
		if d, ok := parseDuration(s); ok {
			return c.delta(d), formDuration
		}
		if t, ok := parseISO(s); ok {
			return c.until(t)
		}
		return 0, noForm
	}
	if t, ok := parseHTTPDate(s, c.reference()); ok {
		return c.until(t)
	}
	return 0, noForm
}

// number tells a delta from an epoch by its size: no API lets a caller wait for
// more than a year, and none was there before 1998 (or, in a synctest bubble,
// 2000).
func (c *clock) number(x number, milli bool) (time.Duration, form) {
	const year = 31_622_400 // seconds of 366 days
	switch n := x.n; {
	case x.big:
		return 0, noForm
	case milli && n < (year+1)*1000:
		d := time.Duration(n)*time.Millisecond + time.Duration(x.frac+999)/1000
		return c.delta(min(d, horizon)), formMillis
	case !milli && n < year+1:
		d := time.Duration(n)*time.Second + time.Duration(x.frac)
		return c.delta(min(d, horizon)), formSeconds
	case n < 9e8:
		return 0, noForm
	case n < 1e11:
		return c.epoch(time.Unix(int64(n), int64(x.frac)), formEpoch)
	case n >= 1e12 && n < 1e14:
		return c.epoch(time.Unix(int64(n/1e3), int64(n%1e3)*1e6+int64(x.frac+999)/1000), formEpochMilli)
	case n >= 1e15 && n < 1e17:
		return c.epoch(time.Unix(int64(n/1e6), int64(n%1e6)*1e3+int64(x.frac+999_999)/1_000_000), formEpochMicro)
	case n >= 1e18:
		return c.epoch(time.Unix(int64(n/1e9), int64(n%1e9)+int64(min(x.frac, 1))), formEpochNano)
	}
	return 0, noForm
}

func (c *clock) delta(d time.Duration) time.Duration {
	return max(ceilMilli(d)-c.age, 0)
}

// epoch believes a number to be an instant only if that is near.
func (c *clock) epoch(t time.Time, f form) (time.Duration, form) {
	d := t.Sub(c.reference())
	if d < -past || d > horizon {
		return 0, noForm
	}
	return max(ceilMilli(d), 0), f
}

// until believes a date at any distance in the past: its meaning is not in doubt.
func (c *clock) until(t time.Time) (time.Duration, form) {
	d := t.Sub(c.reference())
	if d > horizon {
		return 0, noForm
	}
	return max(ceilMilli(d), 0), formDate
}

func ceilMilli(d time.Duration) time.Duration {
	if rest := d % time.Millisecond; rest > 0 {
		if d > math.MaxInt64-time.Millisecond {
			return d
		}
		return d - rest + time.Millisecond
	}
	return d
}

// number is a decimal number without a sign.
type number struct {
	n    uint64
	frac uint32 // billionths, rounded up
	big  bool   // n does not fit
}

// parseNumber reads 1*DIGIT [ "." 1*DIGIT ]. strconv.ParseFloat would take NaN,
// Inf, 1e3, 0x10p0, 1_000, ".5" and "5." as well.
func parseNumber(s string) (x number, ok bool) {
	i := 0
	for ; i < len(s) && isDigit(s[i]); i++ {
		hi, lo := bits.Mul64(x.n, 10)
		sum, carry := bits.Add64(lo, uint64(s[i]-'0'), 0)
		x.big = x.big || hi != 0 || carry != 0
		x.n = sum
	}
	if i == 0 {
		return x, false
	}
	if i == len(s) {
		return x, true
	}
	if s[i] != '.' || i+1 == len(s) {
		return x, false
	}
	var more bool
	unit := uint32(100_000_000)
	for i++; i < len(s); i++ {
		if !isDigit(s[i]) {
			return x, false
		}
		x.frac += unit * uint32(s[i]-'0')
		more = more || unit == 0 && s[i] != '0'
		unit /= 10
	}
	if more && x.frac < 999_999_999 {
		x.frac++
	}
	return x, true
}

// units of a duration. "m" is minutes, as everywhere in Go; "ms" comes first.
var units = [...]struct {
	text string
	size time.Duration
}{
	{"ns", time.Nanosecond}, {"us", time.Microsecond}, {"ms", time.Millisecond},
	{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
}

// parseDuration reads one or more numbers with units, such as 1h2m3.5s or 2d.
// time.ParseDuration knows no days, and takes signs.
func parseDuration(s string) (sum time.Duration, ok bool) {
	for s != "" {
		i := 0
		for i < len(s) && (isDigit(s[i]) || s[i] == '.') {
			i++
		}
		x, ok := parseNumber(s[:i])
		if !ok || x.big {
			return 0, false
		}
		s = s[i:]
		var size time.Duration
		for _, u := range units {
			if strings.HasPrefix(s, u.text) {
				size, s = u.size, s[len(u.text):]
				break
			}
		}
		if size == 0 || x.n > uint64(horizon/size) {
			return 0, false
		}
		sum += time.Duration(x.n)*size + mulDiv(size, int64(x.frac), 1e9)
		if sum > horizon {
			return 0, false
		}
	}
	return sum, true
}

// mulDiv returns d*n/m rounded up, or the longest Duration if that is larger.
// None of d, n and m is negative, and m is not zero.
func mulDiv(d time.Duration, n, m int64) time.Duration {
	hi, lo := bits.Mul64(uint64(d), uint64(n))
	lo, carry := bits.Add64(lo, uint64(m)-1, 0)
	hi += carry
	if hi >= uint64(m) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(m))
	return time.Duration(min(q, math.MaxInt64))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// trim cuts optional whitespace (RFC 9110 section 5.6.3) from both ends.
func trim(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
