package comity

import (
	"net/http"
	"strings"
	"time"
)

// Dialects. Auto is the default; the others fix what it would have to guess.
// Each reads the fields of the Retry-After family too.
var (
	// Auto reads every spelling that can be told apart, and writes IETF.
	Auto = &Dialect{Name: "auto", Parse: ParseAdvice, Write: writeIETF}

	// IETF is RateLimit and RateLimit-Policy as structured fields, draft 07 and
	// later of draft-ietf-httpapi-ratelimit-headers; it writes draft 10.
	IETF = &Dialect{Name: "ietf", Parse: parseWith(&ietfRules), Write: writeIETF}

	// IETFFields is RateLimit-Limit, -Remaining and -Reset of earlier drafts,
	// with RateLimit-Policy.
	IETFFields = &Dialect{Name: "ietf-fields", Parse: parseWith(&fieldsRules), Write: writeFields}

	// XRateLimit is X-RateLimit-*. Resets are written in seconds since 1970.
	XRateLimit = &Dialect{Name: "x-ratelimit", Parse: parseWith(&xRules), Write: writeX}

	// GitHub is X-RateLimit-* with its resources as quotas, by route.
	GitHub = &Dialect{Name: "github", Parse: parseWith(&xRules), Write: writeGitHub, Quota: gitHubResource}

	// KuCoin is gw-ratelimit-* with resets in milliseconds from now.
	KuCoin = &Dialect{Name: "kucoin", Parse: parseWith(&kuCoinRules), Write: writeKuCoin}

	// DeltaMillis is X-Rate-Limit-* and X-RateLimit-* with resets in
	// milliseconds from now.
	DeltaMillis = &Dialect{Name: "delta-ms", Parse: parseWith(&deltaMillisRules), Write: writeDeltaMillis}

	// LegacyDiscord is Discord before version 8 of its API, whose Retry-After
	// counts milliseconds unless a proxy in front of the API sent it.
	LegacyDiscord = &Dialect{Name: "discord-legacy", Parse: parseLegacyDiscord}

	// Strava has two windows in comma lists, 15 minutes and a day.
	Strava = &Dialect{Name: "strava", Parse: parseStrava}
)

// What the dialects settle. None of these changes.
var (
	autoRules        = readRules{}
	ietfRules        = readRules{only: []source{fromRateLimit, fromBeta}}
	fieldsRules      = readRules{only: []source{fromRateLimit, fromFields}, noItems: true}
	xRules           = readRules{only: []source{fromX}}
	kuCoinRules      = readRules{milli: []source{fromKuCoin}}
	deltaMillisRules = readRules{milli: []source{fromX, fromXDash, fromXRL}}
	discordRules     = readRules{milliWait: true}
	delayRules       = readRules{only: []source{fromNowhere}}
)

func parseWith(r *readRules) func(http.Header, time.Time) Advice {
	return func(h http.Header, now time.Time) Advice { return parse(h, now, r) }
}

// rulesOf returns the rules of a dialect of this package that needs nothing
// else; nil for any other.
func rulesOf(d *Dialect) *readRules {
	switch d {
	case nil, Auto:
		return &autoRules
	case IETF:
		return &ietfRules
	case IETFFields:
		return &fieldsRules
	case XRateLimit, GitHub:
		return &xRules
	case KuCoin:
		return &kuCoinRules
	case DeltaMillis:
		return &deltaMillisRules
	}
	if d.Parse == nil {
		return &autoRules
	}
	return nil
}

// parseLegacyDiscord takes milliseconds where the API itself answered: then Via
// is there, or the fields of a limit. Its front answers in seconds.
func parseLegacyDiscord(h http.Header, now time.Time) Advice {
	r := &autoRules
	for key := range h {
		if equalFold(key, "via") || fieldOf(key).source == fromX {
			r = &discordRules
		}
	}
	return parse(h, now, r)
}

// parseStrava reads limits and usage by their place in the lists. Those for
// reading alone have fields of their own.
func parseStrava(h http.Header, now time.Time) Advice {
	a := parse(h, now, &delayRules)
	if _, age := linesOf(h, "age"); newClock(now, nil, age).age > 0 {
		return a
	}
	strava(&a, h, "", "x-ratelimit-limit", "x-ratelimit-usage")
	strava(&a, h, "read-", "x-readratelimit-limit", "x-readratelimit-usage")
	return a
}

var stravaWindows = [...]struct {
	name   string
	window time.Duration
}{{"15min", 15 * time.Minute}, {"daily", 24 * time.Hour}}

func strava(a *Advice, h http.Header, prefix, limitName, usageName string) {
	limits, ok1 := pairOf(a, h, limitName)
	usage, ok2 := pairOf(a, h, usageName)
	if !ok1 {
		return
	}
	for i, w := range stravaWindows {
		q := Quota{
			Name: prefix + w.name, Unit: "requests", Limit: limits[i], Remaining: -1, Window: w.window, Reset: -1,
		}
		if ok2 {
			q.Remaining = max(limits[i]-usage[i], 0)
		}
		a.Quotas = append(a.Quotas, q)
	}
}

// pairOf reads two numbers from the field of that name.
func pairOf(a *Advice, h http.Header, name string) (n [2]int64, ok bool) {
	key, lines := linesOf(h, name)
	if len(lines) == 0 {
		return n, false
	}
	first, second, found := strings.Cut(lines[0], ",")
	x, _, ok1 := count(trim(first))
	y, _, ok2 := count(trim(second))
	if !found || !ok1 || !ok2 {
		a.Malformed = append(a.Malformed, key)
		return n, false
	}
	return [2]int64{x, y}, true
}

// linesOf is h.Values for a name in lower case, however h spells it; the first
// spelling if there are several.
func linesOf(h http.Header, name string) (key string, lines []string) {
	for k, v := range h {
		if equalFold(k, name) && (key == "" || k < key) {
			key, lines = k, v
		}
	}
	return key, lines
}
