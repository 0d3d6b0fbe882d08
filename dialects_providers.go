package comity

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dialects of single providers. What Auto reads they read too; they add what
// only the documentation of a provider says: windows that no field states, and
// fields in a shape of its own. None of them writes.
var (
	// Shopify is its REST API: a bucket that drains in 20 seconds on every plan.
	Shopify = provider("shopify", windowed(map[string]time.Duration{"": 20 * time.Second}))

	// Twitter is the API of X: windows of 15 minutes.
	Twitter = provider("twitter", windowed(map[string]time.Duration{"": 15 * time.Minute}))

	// Discogs has a window of a minute.
	Discogs = provider("discogs", windowed(map[string]time.Duration{"": time.Minute}))

	// Groq reports requests for a day and tokens for a minute.
	Groq = provider("groq", windowed(map[string]time.Duration{"requests": 24 * time.Hour, "tokens": time.Minute}))

	// Etsy is X-Limit-Per-Second and -Day with X-Remaining-This-Second and -Today.
	Etsy = provider("etsy", readPairs(
		pair{"second", time.Second, "x-limit-per-second", "x-remaining-this-second"},
		pair{"day", 24 * time.Hour, "x-limit-per-day", "x-remaining-today"},
	))

	// Xero is X-MinLimit-Remaining, X-DayLimit-Remaining and that of the app.
	Xero = provider("xero", readPairs(
		pair{"minute", time.Minute, "", "x-minlimit-remaining"},
		pair{"day", 24 * time.Hour, "", "x-daylimit-remaining"},
		pair{"app-minute", time.Minute, "", "x-appminlimit-remaining"},
	))

	// Zendesk adds Zendesk-RateLimit-NAME: total=100; remaining=99; resets=56.
	Zendesk = provider("zendesk", readZendesk)

	// Riot is X-App-Rate-Limit: 20:1,100:120 with its -Count, and that of methods.
	Riot = provider("riot", readRiot)

	// PathOfExile is X-Rate-Limit-Ip: hits:period:penalty with its -State, for
	// each of X-Rate-Limit-Rules. A penalty that runs is a quota used up.
	PathOfExile = provider("poe", readPathOfExile)

	// Trakt is X-Ratelimit with JSON; HEY and Basecamp send it too.
	Trakt = provider("trakt", readTrakt)

	// Meta is the usage that its Graph API reports in percent, as JSON.
	Meta = provider("meta", readMeta)
)

// An extra is what the dialect of a provider adds to what Auto reads.
type extra struct {
	*Advice
	h     http.Header
	clock clock
}

// provider is Auto, completed by read. A stored answer says nothing of quotas.
func provider(name string, read func(*extra)) *Dialect {
	return &Dialect{Name: name, Parse: func(h http.Header, now time.Time) Advice {
		a := parse(h, now, &autoRules)
		_, date := linesOf(h, "date")
		_, age := linesOf(h, "age")
		x := &extra{&a, h, newClock(now, date, age)}
		if x.clock.age == 0 {
			read(x)
			a.Quotas = a.Quotas[:min(len(a.Quotas), maxQuotas)]
		}
		return a
	}}
}

func windowed(windows map[string]time.Duration) func(*extra) {
	return func(x *extra) {
		for i := range x.Quotas {
			q := &x.Quotas[i]
			if w, ok := windows[q.Name]; ok && q.Window < 0 {
				q.Window = w
			}
		}
	}
}

// flag names a field as dropped, in whole or in part.
func (x *extra) flag(key string) {
	if !slices.Contains(x.Malformed, key) {
		x.Malformed = append(x.Malformed, key)
	}
}

// number reads a number of units from the field of that name; -1 if it is not
// there or no number.
func (x *extra) number(name string) int64 {
	key, lines := linesOf(x.h, name)
	if len(lines) == 0 {
		return -1
	}
	n, _, ok := count(trim(lines[0]))
	if !ok {
		x.flag(key)
		return -1
	}
	return n
}

// add keeps a quota that says something.
func (x *extra) add(q Quota) {
	if q.Limit >= 0 && q.Remaining > q.Limit {
		q.Remaining = q.Limit
	}
	if q.Unit == "" {
		q.Unit = "requests"
	}
	if (q.Limit >= 0 || q.Remaining >= 0) && len(x.Quotas) < maxQuotas {
		x.Quotas = append(x.Quotas, q)
	}
}

// A pair is a limit and what remains of it, in fields with names of their own.
type pair struct {
	name             string
	window           time.Duration
	limit, remaining string
}

func readPairs(pairs ...pair) func(*extra) {
	return func(x *extra) {
		for _, p := range pairs {
			x.add(Quota{Name: p.name, Limit: x.number(p.limit), Remaining: x.number(p.remaining), Window: p.window, Reset: -1})
		}
	}
}

func readZendesk(x *extra) {
	const prefix = "zendesk-ratelimit-"
	for _, key := range slices.Sorted(maps.Keys(x.h)) {
		if !hasPrefixFold(key, prefix) || len(x.h[key]) == 0 || len(key) > maxReset {
			continue
		}
		q := Quota{Name: strings.ToLower(key[len(prefix):]), Limit: -1, Remaining: -1, Window: -1, Reset: -1}
		for part := range strings.SplitSeq(capList(x.h[key][0]), ";") {
			name, value, _ := strings.Cut(part, "=")
			n, _, ok := count(trim(value))
			if !ok {
				x.flag(key)
				continue
			}
			switch trim(name) {
			case "total":
				q.Limit = n
			case "remaining":
				q.Remaining = n
			case "resets":
				if d, form := x.clock.read(value, maxReset, false); form != noForm {
					q.Reset = d
				}
			}
		}
		x.add(q)
	}
}

func capList(s string) string { return s[:min(len(s), maxList)] }

// triples reads a list of numbers joined by colons, at least two and at most
// three in each member.
func (x *extra) triples(name string) (out [][3]int64) {
	key, lines := linesOf(x.h, name)
	if len(lines) == 0 {
		return nil
	}
	for member := range strings.SplitSeq(capList(lines[0]), ",") {
		if len(out) == maxQuotas {
			x.flag(key)
			break
		}
		var t [3]int64
		n, valid := 0, true
		for part := range strings.SplitSeq(member, ":") {
			v, _, ok := count(trim(part))
			if n == 3 || !ok {
				valid = false
				break
			}
			t[n] = v
			n++
		}
		if !valid || n < 2 || t[1] == 0 {
			x.flag(key)
			continue
		}
		out = append(out, t)
	}
	return out
}

// windows adds a quota for each limit of a list, joined on its window with what
// was used. Their names carry the window, as each is a quota of its own. The
// third number of the state is a penalty that runs, in seconds.
func (x *extra) windows(name, limits, used string) {
	state := x.triples(used)
	for _, l := range x.triples(limits) {
		q := Quota{Name: name + " " + strconv.FormatInt(l[1], 10) + "s", Limit: l[0], Remaining: -1, Window: mulDiv(time.Second, l[1], 1), Reset: -1}
		for _, s := range state {
			if s[1] != l[1] {
				continue
			}
			q.Remaining = max(l[0]-s[0], 0)
			if s[2] > 0 {
				q.Remaining, q.Reset = 0, min(mulDiv(time.Second, s[2], 1), horizon)
			}
		}
		x.add(q)
	}
}

func readRiot(x *extra) {
	for _, name := range [...]string{"app", "method", "service"} {
		x.windows(name, "x-"+name+"-rate-limit", "x-"+name+"-rate-limit-count")
	}
}

func readPathOfExile(x *extra) {
	_, rules := linesOf(x.h, "x-rate-limit-rules")
	if len(rules) == 0 {
		return
	}
	n := 0
	for rule := range strings.SplitSeq(capList(rules[0]), ",") {
		if name := strings.ToLower(trim(rule)); isName(name) && n < maxQuotas {
			x.windows(name, "x-rate-limit-"+name, "x-rate-limit-"+name+"-state")
			n++
		}
	}
}

func readTrakt(x *extra) {
	key, lines := linesOf(x.h, "x-ratelimit")
	if len(lines) == 0 || isCount(lines[0]) {
		return
	}
	var v struct {
		Name                     string
		Period, Limit, Remaining *int64
		Until                    string
	}
	if json.Unmarshal([]byte(capList(lines[0])), &v) != nil {
		x.flag(key)
		return
	}
	q := Quota{Name: v.Name, Limit: unitsOf(v.Limit), Remaining: unitsOf(v.Remaining), Window: -1, Reset: -1}
	if n := unitsOf(v.Period); n > 0 {
		q.Window = mulDiv(time.Second, n, 1)
	}
	if v.Until != "" {
		if d, form := x.clock.read(v.Until, maxReset, false); form != noForm {
			q.Reset = d
		} else {
			x.flag(key)
		}
	}
	if !isName(q.Name) {
		q.Name = ""
	}
	x.add(q)
}

// unitsOf is a number of units; -1 if it is not given or not to be believed.
func unitsOf(n *int64) int64 {
	if n == nil || *n < 0 || *n > maxNumber {
		return -1
	}
	return *n
}
