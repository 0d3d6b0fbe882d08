package comity

import (
	"strings"
	"time"
)

// parseHTTPDate reads the three forms of an HTTP-date (RFC 9110 section 5.6.7).
// http.ParseTime refuses what servers send (UTC, numeric offsets, days of one
// digit, second 60), takes any zone of three letters in the RFC 850 form for
// GMT, and puts a year of two digits into the wrong century. The weekday is not
// checked: servers get it wrong.
func parseHTTPDate(s string, ref time.Time) (time.Time, bool) {
	c := cursor{s}
	if c.letters() < 3 {
		return time.Time{}, false
	}
	if !c.lit(", ") {
		return parseANSI(c)
	}
	var d civil
	d.day = c.number(1, 2)
	sep := c.one()
	d.month = c.month()
	if d.month == 0 || c.one() != sep {
		return time.Time{}, false
	}
	short := sep == '-'
	switch {
	case short:
		d.year = c.number(2, 2)
	case sep == ' ':
		d.year = c.number(4, 4)
	default:
		return time.Time{}, false
	}
	ok := c.lit(" ") && c.clock(&d) && c.lit(" ") && c.zone(&d) && c.s == ""
	if ok && short {
		d.year = fullYear(d, ref)
	}
	if !ok || !d.valid() {
		return time.Time{}, false
	}
	return d.time(), true
}

// parseANSI reads what is left of the asctime form behind its weekday; it is UTC.
func parseANSI(c cursor) (time.Time, bool) {
	var d civil
	ok := c.lit(" ")
	d.month = c.month()
	ok = ok && c.lit(" ")
	c.lit(" ")
	d.day = c.number(1, 2)
	ok = ok && c.lit(" ") && c.clock(&d) && c.lit(" ")
	d.year = c.number(4, 4)
	if !ok || c.s != "" || !d.valid() {
		return time.Time{}, false
	}
	return d.time(), true
}

// fullYear gives a year of two digits its century: the latest in which d is not
// more than 50 years in the future (RFC 9110 section 5.6.7).
func fullYear(d civil, ref time.Time) int {
	limit := ref.AddDate(50, 0, 0)
	d.year += (ref.UTC().Year()/100 + 1) * 100
	for d.year >= 100 && (!d.valid() || d.time().After(limit)) {
		d.year -= 100
	}
	return d.year
}

// parseISO reads a date and time of RFC 3339, with a space for T as its section
// 5.6 allows, without seconds as Jira sends it, and with a space before the
// offset as Nexus Mods does.
func parseISO(s string) (time.Time, bool) {
	c := cursor{s}
	var d civil
	d.year = c.number(4, 4)
	ok := c.lit("-")
	d.month = c.number(2, 2)
	ok = ok && c.lit("-")
	d.day = c.number(2, 2)
	if sep := c.one(); !ok || sep != 'T' && sep != 't' && sep != ' ' {
		return time.Time{}, false
	}
	d.hour = c.number(2, 2)
	ok = c.lit(":")
	d.minute = c.number(2, 2)
	if c.lit(":") {
		d.second = c.number(2, 2)
		if c.lit(".") && !c.fraction(&d) {
			return time.Time{}, false
		}
	}
	if c.lit(" "); !c.lit("Z") && !c.lit("z") && !c.offset(&d) {
		return time.Time{}, false
	}
	if !ok || c.s != "" || !d.valid() {
		return time.Time{}, false
	}
	return d.time(), true
}

// civil is a date and time as written; -1 stands for what could not be read.
type civil struct {
	year, month, day     int
	hour, minute, second int
	nano                 int
	east                 int // seconds east of UTC
}

func (d civil) valid() bool {
	return d.year >= 0 && d.month >= 1 && d.month <= 12 && d.day >= 1 && d.day <= daysIn(d.year, d.month) &&
		d.hour >= 0 && d.hour < 24 && d.minute >= 0 && d.minute < 60 && d.second >= 0 && d.second <= 60
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// time counts the days since 1970 with years that begin in March, so that the
// leap day is their last.
func (d civil) time() time.Time {
	y, m := d.year, d.month-3
	if m < 0 {
		y, m = y-1, m+12
	}
	if y < 0 {
		return time.Date(d.year, time.Month(d.month), d.day, d.hour, d.minute, d.second-d.east, d.nano, time.UTC)
	}
	days := y*365 + y/4 - y/100 + y/400 + (m*153+2)/5 + d.day - 1 - 719468
	sec := int64(days)*86400 + int64(d.hour*3600+d.minute*60+d.second-d.east)
	return time.Unix(sec, int64(d.nano))
}

// cursor reads a date from the front.
type cursor struct{ s string }

func (c *cursor) lit(p string) bool {
	if !strings.HasPrefix(c.s, p) {
		return false
	}
	c.s = c.s[len(p):]
	return true
}

func (c *cursor) one() byte {
	if c.s == "" {
		return 0
	}
	b := c.s[0]
	c.s = c.s[1:]
	return b
}

// letters skips letters and returns how many.
func (c *cursor) letters() int {
	n := 0
	for n < len(c.s) && c.s[n]|0x20 >= 'a' && c.s[n]|0x20 <= 'z' {
		n++
	}
	c.s = c.s[n:]
	return n
}

// number reads at least lo and at most hi digits; -1 if there are fewer.
func (c *cursor) number(lo, hi int) int {
	n, i := 0, 0
	for i < hi && i < len(c.s) && isDigit(c.s[i]) {
		n = n*10 + int(c.s[i]-'0')
		i++
	}
	if i < lo {
		return -1
	}
	c.s = c.s[i:]
	return n
}

const months = "janfebmaraprmayjunjulaugsepoctnovdec"

// month reads the name of a month of three letters; 0 if there is none.
func (c *cursor) month() int {
	if len(c.s) < 3 {
		return 0
	}
	a, b, e := c.s[0]|0x20, c.s[1]|0x20, c.s[2]|0x20
	for i := 0; i < len(months); i += 3 {
		if months[i] == a && months[i+1] == b && months[i+2] == e {
			c.s = c.s[3:]
			return i/3 + 1
		}
	}
	return 0
}

func (c *cursor) clock(d *civil) bool {
	d.hour = c.number(2, 2)
	ok := c.lit(":")
	d.minute = c.number(2, 2)
	ok = ok && c.lit(":")
	d.second = c.number(2, 2)
	return ok
}

// zone reads GMT, UTC or a numeric offset; any other name is a guess.
func (c *cursor) zone(d *civil) bool {
	if len(c.s) == 3 && (equalFold(c.s, "gmt") || equalFold(c.s, "utc")) {
		c.s = ""
		return true
	}
	return c.offset(d)
}

func (c *cursor) offset(d *civil) bool {
	sign := 1
	switch c.one() {
	case '+':
	case '-':
		sign = -1
	default:
		return false
	}
	h := c.number(2, 2)
	c.lit(":")
	m := c.number(2, 2)
	if h < 0 || h > 23 || m < 0 || m > 59 {
		return false
	}
	d.east = sign * (h*3600 + m*60)
	return true
}

// fraction reads any number of digits and rounds up to a nanosecond.
func (c *cursor) fraction(d *civil) bool {
	i, unit := 0, 100_000_000
	more := false
	for ; i < len(c.s) && isDigit(c.s[i]); i++ {
		d.nano += unit * int(c.s[i]-'0')
		more = more || unit == 0 && c.s[i] != '0'
		unit /= 10
	}
	c.s = c.s[i:]
	if more {
		d.nano++
	}
	return i > 0
}
