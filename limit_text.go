package comity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// algorithms holds the names of the algorithms, in their order.
var algorithms = [...]string{
	TokenBucket:   "token-bucket",
	GCRA:          "gcra",
	LeakyBucket:   "leaky-bucket",
	FixedWindow:   "fixed-window",
	SlidingLog:    "sliding-log",
	SlidingWindow: "sliding-window",
}

// String returns the name of a, such as "token-bucket".
func (a Algorithm) String() string {
	if int(a) < len(algorithms) {
		return algorithms[a]
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// MarshalText returns the name of a. It fails if there is no such algorithm.
func (a Algorithm) MarshalText() ([]byte, error) {
	if int(a) >= len(algorithms) {
		return nil, fmt.Errorf("comity: no %s", a)
	}
	return []byte(a.String()), nil
}

// UnmarshalText reads the name of an algorithm, such as "sliding-log".
func (a *Algorithm) UnmarshalText(text []byte) error {
	for i, name := range algorithms {
		if string(text) == name {
			*a = Algorithm(i)
			return nil
		}
	}
	return fmt.Errorf("comity: no algorithm %q: one of %s", clip(string(text)), strings.Join(algorithms[:], ", "))
}

// MarshalText writes the text form of l. It fails if l holds a function or is
// invalid.
func (l Limit) MarshalText() ([]byte, error) {
	errs := checkLimit(l)
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"For", l.For != nil}, {"Key", l.Key != nil}, {"Cost", l.Cost != nil},
		{"Settle", l.Settle != nil}, {"New", l.New != nil},
	} {
		if f.set {
			errs = append(errs, fmt.Errorf("%s is a function, which has no text form", f.name))
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("comity: limit %s: %w", l, errors.Join(errs...))
	}
	return []byte(l.String()), nil
}

// String returns the text form of l, leaving out its functions.
func (l Limit) String() string {
	s := l.rate()
	if l.Burst != 0 {
		s += " burst " + strconv.Itoa(l.Burst)
	}
	if l.Algorithm != TokenBucket {
		s += " " + l.Algorithm.String()
	}
	if l.Unit != "" {
		s += " unit " + word(l.Unit)
	}
	if l.Name != "" {
		s += " name " + word(l.Name)
	}
	if l.Shadow {
		s += " shadow"
	}
	return s
}

// rate returns N and Per of the text form, as "100/m".
func (l Limit) rate() string {
	per := l.Per.String()
	switch l.Per {
	case time.Second:
		per = "s"
	case time.Minute:
		per = "m"
	case time.Hour:
		per = "h"
	default:
		if strings.HasSuffix(per, "m0s") {
			per = strings.TrimSuffix(per, "0s")
		}
		if strings.HasSuffix(per, "h0m") {
			per = strings.TrimSuffix(per, "0m")
		}
	}
	return strconv.Itoa(l.N) + "/" + per
}

// UnmarshalText reads the text form of a Limit, such as "100/s", "5000/h burst 50"
// or "10/1m sliding-log": whole units, per s, m, h or a duration of package time.
// After them stand, in any order, "burst" and its units, an algorithm, "unit" and
// "name" and a word each (quoted as in Go if it has spaces), and "shadow". It
// replaces all of l, or nothing on an error.
func (l *Limit) UnmarshalText(text []byte) error {
	v, err := parseLimit(string(text))
	if err != nil {
		return fmt.Errorf("comity: limit %q: %w", clip(string(text)), err)
	}
	*l = v
	return nil
}

func parseLimit(s string) (l Limit, err error) {
	first, rest := nextWord(s)
	n, per, ok := strings.Cut(first, "/")
	if !ok {
		return l, errors.New(`want units and a time, such as "100/s"`)
	}
	if l.N, err = parseUnits(n); err != nil {
		return l, err
	}
	if l.Per, err = parsePer(per); err != nil {
		return l, err
	}
	seen := map[string]bool{}
	for rest != "" {
		var key, kind string
		key, rest = nextWord(rest)
		if kind, rest, err = l.set(key, rest); err != nil {
			return l, err
		}
		if seen[kind] {
			return l, fmt.Errorf("%s is given twice", kind)
		}
		seen[kind] = true
	}
	if errs := checkLimit(l); len(errs) > 0 {
		return l, errors.Join(errs...)
	}
	return l, nil
}

// set takes in one setting and returns what it sets and what follows it.
func (l *Limit) set(key, rest string) (kind, after string, err error) {
	switch key {
	case "shadow":
		l.Shadow = true
		return key, rest, nil
	case "burst":
		key, rest = nextWord(rest)
		l.Burst, err = parseUnits(key)
		return "burst", rest, err
	case "unit":
		l.Unit, rest, err = unquote(rest)
		return key, rest, err
	case "name":
		l.Name, rest, err = unquote(rest)
		return key, rest, err
	}
	return "algorithm", rest, l.Algorithm.UnmarshalText([]byte(key))
}

// parseUnits reads a whole number, digits alone.
func parseUnits(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > math.MaxInt {
		return 0, fmt.Errorf("%q is no whole number of units", clip(s))
	}
	return int(n), nil
}

func parsePer(s string) (time.Duration, error) {
	switch s {
	case "s":
		return time.Second, nil
	case "m":
		return time.Minute, nil
	case "h":
		return time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is no time: s, m, h or a duration such as 1m30s", clip(s))
	}
	return d, nil
}

// nextWord splits the first word off s.
func nextWord(s string) (w, rest string) {
	s = strings.TrimSpace(s)
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// word returns s as it stands in a text form, quoted if it must be.
func word(s string) string {
	plain := func(r rune) bool {
		return r == '-' || r == '_' || r == '.' || r == ':' || r == '/' || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	for _, r := range s {
		if !plain(r) || r == unicode.ReplacementChar {
			return strconv.Quote(s)
		}
	}
	return s
}

// unquote splits a word off s, quoted or not, that must not be empty.
func unquote(s string) (w, rest string, err error) {
	if q, qerr := strconv.QuotedPrefix(s); qerr == nil {
		w, err = strconv.Unquote(q)
		rest = strings.TrimSpace(s[len(q):])
	} else {
		w, rest = nextWord(s)
	}
	if err == nil && w == "" {
		err = errors.New("a word is missing")
	}
	return w, rest, err
}

// clip keeps errors short whatever was put in.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
