package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/comity/comity"
)

// Units in which a number may count, and instants from which.
var counts = []struct {
	unit  time.Duration
	epoch bool
	text  string
}{
	{time.Second, false, "seconds from now"},
	{time.Millisecond, false, "milliseconds from now"},
	{time.Second, true, "seconds since 1970"},
	{time.Millisecond, true, "milliseconds since 1970"},
	{time.Microsecond, true, "microseconds since 1970"},
	{time.Nanosecond, true, "nanoseconds since 1970"},
}

var (
	numeric  = regexp.MustCompile(`^\d+(\.\d+)?$`)
	duration = regexp.MustCompile(`^(\d+(\.\d+)?(ns|us|ms|s|m|h|d))+$`)
	iso      = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[Tt ]`)
	month    = regexp.MustCompile(`(?i)\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\b`)
	list     = regexp.MustCompile(`^[0-9., \t]+$`)
	param    = regexp.MustCompile(`(?:\bt|reset) *= *([0-9.]+)`)
)

// whyTime finds the unit in which a value gives d, and says what speaks for it.
func (x *reader) whyTime(r *reading, d time.Duration) string {
	var values []string
	for _, v := range r.Values {
		if values = append(values, v); list.MatchString(v) {
			values = append(values, strings.Split(v, ",")...)
		}
	}
	for _, v := range values {
		v = strings.TrimSpace(v)
		if m := param.FindStringSubmatch(v); m != nil {
			v = m[1]
		}
		switch {
		case duration.MatchString(v):
			return "a duration with its units"
		case iso.MatchString(v):
			return "a date and time (RFC 3339), counted from " + x.origin()
		case !numeric.MatchString(v):
			if month.MatchString(v) {
				return "an HTTP-date, counted from " + x.origin()
			}
			continue
		}
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			continue
		}
		for _, c := range counts {
			if text, ok := x.fits(n, d, c.unit, c.epoch); ok {
				return c.text + ": " + text
			}
		}
	}
	return ""
}

// fits reports whether n in that unit gives d, up to rounding.
func (x *reader) fits(n float64, d, unit time.Duration, epoch bool) (why string, ok bool) {
	seconds := n * unit.Seconds()
	if epoch {
		seconds -= float64(x.now.UnixNano()) / 1e9
	}
	if math.Abs(max(seconds, 0)-d.Seconds()) > 1.5 {
		return "", false
	}
	switch {
	case epoch && seconds < 0:
		return fmt.Sprintf("just past, so 0; as a delta it would be %s", years(n)), true
	case epoch:
		return fmt.Sprintf("as a delta it would be %s; it is %s after %s", years(n), d, x.origin()), true
	case unit == time.Millisecond:
		return "the field's name or the dialect says so", true
	}
	return "too small for an instant since 1970", true
}

func years(n float64) string {
	return strconv.FormatFloat(math.Round(n/365.25/86400), 'g', 4, 64) + " years"
}

func (x *reader) origin() string {
	if x.res.header.Get("Date") != "" {
		return "Date"
	}
	return "now"
}

// whyQuota says where the name and the window of a quota come from.
func whyQuota(name string, qs []comity.Quota) string {
	q := qs[0]
	switch {
	case len(qs) > 1:
		return "a list, each member a limit"
	case q.Window > 0 && q.Limit < 0 && q.Remaining < 0:
		return "a window"
	case q.Name != "" && strings.Contains(strings.ToLower(name), q.Name):
		return "the field's name holds that of the quota"
	case q.Name != "":
		return "the value holds the name of the quota"
	}
	return "a number"
}

// whyDropped says what is wrong with values that were dropped.
func whyDropped(values []string, kept bool) string {
	var faults []string
	for _, v := range values {
		faults = append(faults, fault(v))
	}
	text := strings.Join(faults, "; ")
	if kept {
		return "in part: " + text
	}
	return text
}

func fault(v string) string {
	n, err := strconv.ParseFloat(v, 64)
	switch {
	case v == "":
		return "empty"
	case len(v) > 4096:
		return fmt.Sprintf("%d bytes: too long", len(v))
	case strings.IndexFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) >= 0:
		return "bytes that no value may have"
	case strings.HasPrefix(v, "-"):
		return "negative, which means unknown: neither none nor without limit"
	case strings.HasPrefix(v, `"`) || strings.Contains(v, ";"):
		return "not valid, or a parameter out of range (RFC 9651)"
	case numeric.MatchString(v) && err == nil && n == 0:
		return "zero is no window and no rate"
	case numeric.MatchString(v) && n > 1e15:
		return "too large for a number of units, and no instant near now"
	case numeric.MatchString(v):
		return "neither a delta of at most 366 days nor an instant from a day ago to 366 days ahead"
	case iso.MatchString(v) || strings.Contains(v, "GMT") || strings.Contains(v, "UTC"):
		return "no date that exists, in a form and zone that are certain, within 366 days"
	case len(v) > 64:
		return "too long for a number, a date or a duration"
	}
	return "no number, date or duration"
}

var limitWords = regexp.MustCompile(`(?i)rate-?limit|retry|throttl|quota|[-_]limit`)

func looksLikeLimit(name string) bool {
	return limitWords.MatchString(name) && !strings.HasPrefix(name, "Access-Control-")
}
