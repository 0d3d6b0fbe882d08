package comity

import (
	"slices"
	"strings"
)

// kind is what a header field says.
type kind uint8

const (
	noKind kind = iota

	// delays, in the order in which they are asked
	kindRetryAfterMS
	kindMSRetryAfterMS
	kindRetryAfter
	kindQuotaRetryAfter
	kindRetryIn

	// directives
	kindShouldRetry
	kindMaintenance

	kindName // names the quotas that have no name

	// structured fields
	kindItems
	kindPolicy

	// of one quota
	kindLimit
	kindRemaining
	kindUsed
	kindReset
	kindWindow
	kindFill
	kindBurst
	kindReplenish

	// of a shape that only one provider has
	kindShopify
	kindSalesforce
	kindSentry
	kindResource
	kindAmazon
	kindStrava
)

// source is the prefix and family of a field's name. Fields of one quota share
// it, and of two quotas that are the same the lower source is believed.
type source uint8

const (
	fromRateLimit  source = iota // RateLimit and RateLimit-Policy
	fromBeta                     // the same behind Beta-
	fromDict                     // RateLimit as a Dictionary, as draft 07 had it
	fromFields                   // RateLimit-*
	fromDashFields               // Rate-Limit-*
	fromX                        // X-RateLimit-*
	fromXDash                    // X-Rate-Limit-*
	fromXRL                      // X-RL-*
	fromSpecial                  // one of the shapes that only one provider has
	fromVendor                   // and above: vendors, twice their number for RateLimit, one more for Rate-Limit
)

const (
	fromKuCoin  = fromVendor + 2*7
	fromNowhere = source(255)
)

// vendors have prefixes of their own.
var vendors = [...]string{
	"anthropic-", "x-sentry-", "x-sib-", "x-contentful-", "x-hubspot-", "x-gate-", "x-ogw-", "gw-", "x-discogs-",
	"fastly-", "x-ms-",
}

// A field is a header field whose name this package knows.
type field struct {
	key    string // as it stands in the header
	name   string // of the quota, as it stands in key
	lines  []string
	kind   kind
	source source
	order  uint8 // among fields of one kind and quota: the lowest decides
	milli  bool  // the name says milliseconds
	unit   bool  // the name states the unit
	bare   bool  // the name is only a family
}

// special names are fields of their own, whatever the grammar would make of them.
var special = [...]struct {
	name  string
	field field
}{
	{"retry-after-ms", field{kind: kindRetryAfterMS, milli: true}},
	{"x-ms-retry-after-ms", field{kind: kindMSRetryAfterMS, milli: true}},
	{"retry-after", field{kind: kindRetryAfter}},
	{"x-ratelimit-retry-after", field{kind: kindQuotaRetryAfter}},
	{"ratelimit-retry-after", field{kind: kindQuotaRetryAfter}},
	{"x-retry-in", field{kind: kindRetryIn}},
	{"x-should-retry", field{kind: kindShouldRetry}},
	{"stripe-should-retry", field{kind: kindShouldRetry}},
	{"x-maintenance-mode", field{kind: kindMaintenance}},
	{"x-ratelimit-resource", field{kind: kindName, source: fromX, order: 0}},
	{"x-ratelimit-bucket", field{kind: kindName, source: fromX, order: 1}},
	{"ratelimit-name", field{kind: kindName, source: fromFields, order: 2}},
	{"x-ratelimit-name", field{kind: kindName, source: fromX, order: 3}},
	{"x-ratelimit-group", field{kind: kindName, source: fromX, order: 4}},
	{"x-ratelimit-zone", field{kind: kindName, source: fromX, order: 5}},
	{"ratelimit-policy", field{kind: kindPolicy, source: fromRateLimit}},
	{"beta-ratelimit", field{kind: kindItems, source: fromBeta}},
	{"beta-ratelimit-policy", field{kind: kindPolicy, source: fromBeta}},
	{"x-shopify-shop-api-call-limit", field{kind: kindShopify, source: fromSpecial}},
	{"sforce-limit-info", field{kind: kindSalesforce, source: fromSpecial}},
	{"x-sentry-rate-limits", field{kind: kindSentry, source: fromSpecial}},
	{"x-ms-ratelimit-remaining-resource", field{kind: kindResource, source: fromSpecial}},
	{"x-amzn-ratelimit-limit", field{kind: kindAmazon, source: fromSpecial}},
	{"x-rate-limit-requests-left", field{kind: kindRemaining, source: fromXDash}},
	{"x-rate-limit-requests-quota", field{kind: kindLimit, source: fromXDash, order: 2}},
	{"x-rate-limit-time-reset-ms", field{kind: kindReset, source: fromXDash, order: 1, milli: true, unit: true}},
	{"x-rate-limit-time-window-ms", field{kind: kindWindow, source: fromXDash, milli: true, unit: true}},
}

// A fieldWord says which number of a quota a field holds.
type fieldWord struct {
	text  string
	kind  kind
	order uint8
	milli bool
	unit  bool
}

// words are in the order in which they are tried, longest first. Relative resets
// come before absolute ones.
var words = [...]fieldWord{
	{"reset-after-milliseconds", kindReset, 0, true, true},
	{"interval-milliseconds", kindWindow, 0, true, true},
	{"reset-after-seconds", kindReset, 0, false, true},
	{"window-milliseconds", kindWindow, 0, true, true},
	{"period-milliseconds", kindWindow, 0, true, true},
	{"reset-milliseconds", kindReset, 1, true, true},
	{"interval-seconds", kindWindow, 0, false, true},
	{"reset-timestamp", kindReset, 2, false, false},
	{"window-seconds", kindWindow, 0, false, true},
	{"period-seconds", kindWindow, 0, false, true},
	{"reset-after-ms", kindReset, 0, true, true},
	{"reset-seconds", kindReset, 1, false, true},
	{"interval-ms", kindWindow, 0, true, true},
	{"reset-after", kindReset, 0, false, false},
	{"reset-date", kindReset, 4, false, false},
	{"window-ms", kindWindow, 0, true, true},
	{"period-ms", kindWindow, 0, true, true},
	{"remaining", kindRemaining, 0, false, false},
	{"resettime", kindReset, 3, false, false},
	{"reset-ms", kindReset, 1, true, true},
	{"interval", kindWindow, 1, false, false},
	{"fillrate", kindFill, 0, false, false},
	{"observed", kindUsed, 2, false, false},
	{"remain", kindRemaining, 1, false, false},
	{"period", kindWindow, 2, false, false},
	{"window", kindWindow, 3, false, false},
	{"reset", kindReset, 1, false, false},
	{"limit", kindLimit, 0, false, false},
	{"quota", kindLimit, 2, false, false},
	{"total", kindLimit, 3, false, false},
	{"usage", kindUsed, 1, false, false},
	{"count", kindUsed, 3, false, false},
	{"used", kindUsed, 0, false, false},
	{"left", kindRemaining, 2, false, false},
	{"next", kindReset, 5, false, false},
	{"max", kindLimit, 1, false, false},
}

// glued are the words that also end a name without a dash, as in UserLimit.
var glued = [...]string{"remaining", "limit", "reset"}

// fieldOf reads the name of a header field by a closed grammar. Its kind is
// noKind if the field says nothing about limits.
func fieldOf(key string) field {
	if len(key) < 3 || len(key) > maxReset {
		return field{}
	}
	switch key { // the most usual names, as net/http spells them
	case "Retry-After":
		return field{key: key, kind: kindRetryAfter}
	case "Ratelimit":
		return field{key: key, kind: kindItems, source: fromRateLimit, order: 4, bare: true}
	case "Ratelimit-Policy":
		return field{key: key, kind: kindPolicy, source: fromRateLimit}
	case "Ratelimit-Limit":
		return field{key: key, kind: kindLimit, source: fromFields}
	case "Ratelimit-Remaining":
		return field{key: key, kind: kindRemaining, source: fromFields}
	case "Ratelimit-Reset":
		return field{key: key, kind: kindReset, source: fromFields, order: 1}
	case "X-Ratelimit-Limit":
		return field{key: key, kind: kindLimit, source: fromX}
	case "X-Ratelimit-Remaining":
		return field{key: key, kind: kindRemaining, source: fromX}
	case "X-Ratelimit-Reset":
		return field{key: key, kind: kindReset, source: fromX, order: 1}
	}
	for i := range special {
		if s := &special[i]; len(s.name) == len(key) && equalFold(key, s.name) {
			f := s.field
			f.key = key
			return f
		}
	}
	rest, src, ok := family(key)
	if !ok {
		return field{}
	}
	f := field{key: key, source: src}
	if rest == "" {
		f.kind, f.order, f.bare = kindLimit, 4, true
		if src == fromFields {
			f.kind, f.source = kindItems, fromRateLimit
		}
		return f
	}
	if rest = rest[1:]; rest == "" {
		return field{}
	}
	switch {
	case f.word(rest), f.glued(rest):
	case equalFold(rest, "burst-capacity"):
		f.kind = kindBurst
	case equalFold(rest, "replenish-rate"):
		f.kind = kindReplenish
	case isPeriod(rest):
		f.kind, f.name = kindLimit, rest
	}
	return f
}

// family cuts the prefix and the family off a field's name; what is left begins
// with a dash or is empty.
func family(key string) (rest string, src source, ok bool) {
	dashless, dashed := fromFields, fromDashFields
	if key[0]|0x20 != 'r' {
		dashless, dashed = fromX, fromXDash
		i := len(vendors)
		if key[2]|0x20 != 'r' {
			i = slices.IndexFunc(vendors[:], func(v string) bool { return hasPrefixFold(key, v) })
		}
		switch {
		case i >= 0 && i < len(vendors):
			key = key[len(vendors[i]):]
			dashless = fromVendor + source(2*i)
			dashed = dashless + 1
		case hasPrefixFold(key, "x-rl-"):
			return key[4:], fromXRL, true
		case hasPrefixFold(key, "x-"):
			key = key[2:]
		default:
			return "", 0, false
		}
	}
	switch {
	case hasPrefixFold(key, "ratelimit"):
		rest, src = key[len("ratelimit"):], dashless
	case hasPrefixFold(key, "rate-limit"):
		rest, src = key[len("rate-limit"):], dashed
	default:
		return "", 0, false
	}
	return rest, src, rest == "" || rest[0] == '-'
}

// word finds a field word alone, in front of the quota's name or behind it.
func (f *field) word(rest string) bool {
	first, last := rest[0]|0x20, rest[len(rest)-1]|0x20
	for i := range words {
		w := &words[i]
		n := len(w.text)
		if w.text[0] != first || !hasPrefixFold(rest, w.text) {
			continue
		}
		if len(rest) == n {
			return f.is(w, "")
		}
		if len(rest) > n+1 && rest[n] == '-' {
			return f.is(w, rest[n+1:])
		}
	}
	for i := range words {
		w := &words[i]
		n := len(rest) - len(w.text)
		if w.text[len(w.text)-1] == last && n > 1 && rest[n-1] == '-' && equalFold(rest[n:], w.text) {
			return f.is(w, rest[:n-1])
		}
	}
	return false
}

func (f *field) is(w *fieldWord, name string) bool {
	f.kind, f.order, f.milli, f.unit, f.name = w.kind, w.order, w.milli, w.unit, name
	return true
}

// glued finds limit, remaining or reset at the end of a name, without a dash.
// NearLimit is a flag, not the limit of a quota named near.
func (f *field) glued(rest string) bool {
	for _, w := range glued {
		n := len(rest) - len(w)
		if n <= 0 || !equalFold(rest[n:], w) {
			continue
		}
		name := strings.TrimRight(rest[:n], "_")
		if name == "" || name[len(name)-1] == '-' || equalFold(name[strings.LastIndexByte(name, '-')+1:], "near") {
			return false
		}
		f.name = name
		f.order = 0
		switch w {
		case "limit":
			f.kind = kindLimit
		case "remaining":
			f.kind = kindRemaining
		default:
			f.kind, f.order = kindReset, 1
		}
		return true
	}
	return false
}

// equalFold and hasPrefixFold compare with a text of lower-case ASCII.
func equalFold(s, lower string) bool {
	return len(s) == len(lower) && hasPrefixFold(s, lower)
}

func hasPrefixFold(s, lower string) bool {
	if len(s) < len(lower) {
		return false
	}
	for i := 0; i < len(lower); i++ {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
