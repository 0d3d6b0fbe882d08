package comity

import (
	"strings"
	"time"
)

// periods are the words that say how long a window is. A month and a year have
// no fixed length.
var periods = [...]struct {
	text   string
	window time.Duration
}{
	{"second", time.Second}, {"secondly", time.Second},
	{"minute", time.Minute},
	{"hour", time.Hour}, {"hourly", time.Hour},
	{"day", 24 * time.Hour}, {"daily", 24 * time.Hour},
	{"week", 7 * 24 * time.Hour}, {"weekly", 7 * 24 * time.Hour},
	{"month", -1}, {"monthly", -1},
	{"year", -1}, {"yearly", -1},
}

// isPeriod reports whether name is a period and nothing else.
func isPeriod(name string) bool {
	for i := range periods {
		if equalFold(name, periods[i].text) {
			return true
		}
	}
	return false
}

// windowOf returns the window that the name of a quota states with its last
// word, as requests-day and perhour do; -1 if it states none.
func windowOf(name string) time.Duration {
	word := name
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '-' || name[i] == '_' {
			word = name[i+1:]
			break
		}
	}
	if len(word) > 3 && equalFold(word[:3], "per") {
		word = word[3:]
	}
	for i := range periods {
		if equalFold(word, periods[i].text) {
			return periods[i].window
		}
	}
	return -1
}

// unitOf returns what a quota counts, by the words of its name.
func unitOf(name string) string {
	for i, start := 0, 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '-' && name[i] != '_' {
			continue
		}
		word := name[start:i]
		start = i + 1
		switch {
		case equalFold(word, "tokens"):
			return "tokens"
		case equalFold(word, "complexity"):
			return "points"
		case equalFold(word, "concurrent"):
			return "concurrent-requests"
		}
	}
	return "requests"
}

// common are names that quotas have, so that reading them allocates nothing.
var common = [...]string{
	"requests", "tokens", "input-tokens", "output-tokens", "requests-day", "requests-minute", "tokens-minute",
	"second", "minute", "hour", "day", "daily", "secondly", "perhour", "perday", "user", "client", "unified",
}

// lowerName is the name of a quota as a header's name spells it, in lower case.
func lowerName(s string) string {
	for _, c := range common {
		if equalFold(s, c) {
			return c
		}
	}
	return strings.ToLower(s)
}
