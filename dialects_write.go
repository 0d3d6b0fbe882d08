package comity

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/comity/comity/internal/sf"
)

// writeDelay writes what every dialect says the same way. Whole seconds are
// rounded up: a server must not invite anyone too early.
func writeDelay(h http.Header, a Advice) {
	if sec, ok := wholeSeconds(a.RetryAfter); ok {
		h.Set("Retry-After", strconv.FormatInt(sec, 10))
	}
	switch {
	case a.Retry > 0:
		h.Set("X-Should-Retry", "true")
	case a.Retry < 0:
		h.Set("X-Should-Retry", "false")
	}
}

// wholeSeconds rounds up a wait that this package would believe.
func wholeSeconds(d time.Duration) (int64, bool) {
	if d < 0 || d > horizon {
		return 0, false
	}
	return int64((d + time.Second - 1) / time.Second), true
}

// windowSeconds rounds up a window.
func windowSeconds(d time.Duration) int64 {
	sec := int64(d / time.Second)
	if d%time.Second > 0 {
		sec++
	}
	return sec
}

// unitName is the unit of q, which is requests unless it says otherwise.
func (q *Quota) unitName() string {
	if q.Unit == "" {
		return "requests"
	}
	return q.Unit
}

// writeIETF writes RateLimit-Policy and RateLimit of draft 10. An item without a
// remaining and a policy without a limit are not valid there and left out.
func writeIETF(h http.Header, now time.Time, a Advice) {
	writeDelay(h, a)
	var policies, items []byte
	for i := range a.Quotas[:min(len(a.Quotas), maxQuotas)] {
		q := &a.Quotas[i]
		name, ok := sf.AppendString(nil, q.Name)
		if !ok || len(name) > maxReset || hasName(a.Quotas[:i], q.Name) {
			continue
		}
		policies, ok = appendPolicy(policies, name, q)
		if !ok || q.Remaining < 0 || q.Remaining > sf.MaxInteger {
			continue
		}
		items = append(comma(items), name...)
		items = strconv.AppendInt(append(items, ";r="...), q.Remaining, 10)
		if sec, ok := wholeSeconds(q.Reset); ok {
			items = strconv.AppendInt(append(items, ";t="...), sec, 10)
		}
	}
	set(h, "RateLimit-Policy", policies)
	set(h, "RateLimit", items)
}

// appendPolicy appends the policy of q, if it has a limit. It reports false if q
// counts in a unit that cannot be said.
func appendPolicy(dst, name []byte, q *Quota) ([]byte, bool) {
	unit := q.unitName()
	implied := unit == unitOf(q.Name)
	if q.Limit < 0 || q.Limit > sf.MaxInteger {
		return dst, implied
	}
	var quoted []byte
	if !implied {
		var ok bool
		if quoted, ok = sf.AppendString(nil, unit); !ok || len(unit) > maxReset {
			return dst, false
		}
	}
	dst = append(comma(dst), name...)
	dst = strconv.AppendInt(append(dst, ";q="...), q.Limit, 10)
	if !implied {
		dst = append(append(dst, ";qu="...), quoted...)
	}
	if q.Window > 0 {
		dst = strconv.AppendInt(append(dst, ";w="...), windowSeconds(q.Window), 10)
	}
	return dst, true
}

func comma(dst []byte) []byte {
	if len(dst) == 0 {
		return dst
	}
	return append(dst, ", "...)
}

func set(h http.Header, key string, value []byte) {
	if len(value) > 0 {
		h.Set(key, string(value))
	}
}

func hasName(qs []Quota, name string) bool {
	for i := range qs {
		if qs[i].Name == name {
			return true
		}
	}
	return false
}

// tightest returns the quota in requests that fewest calls can still use, of
// those that fit accepts: what a spelling with room for one quota reports.
func tightest(qs []Quota, fit func(*Quota) bool) *Quota {
	var best *Quota
	for i := range qs {
		q := &qs[i]
		switch {
		case q.unitName() != "requests" || !fit(q):
		case best == nil:
			best = q
		case q.Remaining < 0:
			if best.Remaining < 0 && q.Reset > best.Reset {
				best = q
			}
		case best.Remaining < 0 || q.Remaining < best.Remaining,
			q.Remaining == best.Remaining && q.Reset > best.Reset:
			best = q
		}
	}
	return best
}

func anyQuota(*Quota) bool { return true }

// setCount writes a number of units, if it is known and would be believed.
func setCount(h http.Header, key string, n int64) bool {
	if n < 0 || n > maxNumber {
		return false
	}
	h.Set(key, strconv.FormatInt(n, 10))
	return true
}

// writeFields writes the fields of draft 06. The other quotas are policies,
// unless they would be taken for that of the first one.
func writeFields(h http.Header, now time.Time, a Advice) {
	writeDelay(h, a)
	q := tightest(a.Quotas, anyQuota)
	if q == nil {
		return
	}
	setCount(h, "RateLimit-Remaining", q.Remaining)
	if sec, ok := wholeSeconds(q.Reset); ok {
		h.Set("RateLimit-Reset", strconv.FormatInt(sec, 10))
	}
	if !setCount(h, "RateLimit-Limit", q.Limit) {
		return
	}
	var policies []byte
	for i, n := 0, 0; i < len(a.Quotas) && n < maxQuotas; i++ {
		l := &a.Quotas[i]
		if l.Window <= 0 || l.Limit < 0 || l.Limit > maxNumber || l.unitName() != "requests" || l != q && l.Limit == q.Limit {
			continue
		}
		policies = strconv.AppendInt(comma(policies), l.Limit, 10)
		policies = strconv.AppendInt(append(policies, ";w="...), windowSeconds(l.Window), 10)
		n++
	}
	set(h, "RateLimit-Policy", policies)
}

// writeX writes X-RateLimit-*: one quota under the plain names, with its own in
// X-RateLimit-Name, as most servers have one. Of several, those whose names fit
// into a field's name stand under these.
func writeX(h http.Header, now time.Time, a Advice) {
	writeDelay(h, a)
	suffixed := func(q *Quota) bool {
		return nameFits(q) && (len(a.Quotas) > 1 || windowOf(q.Name) > 0 || q.unitName() != "requests")
	}
	for i, n := 0, 0; i < len(a.Quotas) && n < maxQuotas-1; i++ {
		if q := &a.Quotas[i]; suffixed(q) && !hasName(a.Quotas[:i], q.Name) {
			writeQuota(h, now, q, "X-RateLimit-", "-"+q.Name)
			n++
		}
	}
	q := tightest(a.Quotas, func(q *Quota) bool { return !suffixed(q) })
	if q == nil {
		return
	}
	writeQuota(h, now, q, "X-RateLimit-", "")
	if isName(q.Name) && unitOf(q.Name) == "requests" {
		h.Set("X-RateLimit-Name", q.Name)
	}
}

// nameFits reports whether q can be written with its name behind the field words
// and would be read as it is.
func nameFits(q *Quota) bool {
	if q.Name == "" || len(q.Name) > maxDelay || q.Name != lowerName(q.Name) || unitOf(q.Name) != q.unitName() {
		return false
	}
	if w := windowOf(q.Name); w > 0 && w != q.Window {
		return false
	}
	for i := 0; i < len(q.Name); i++ {
		if c := q.Name[i]; (c < 'a' || c > 'z') && !isDigit(c) && strings.IndexByte("-_.", c) < 0 {
			return false
		}
	}
	for _, w := range [...]struct {
		text string
		kind kind
	}{{"limit", kindLimit}, {"remaining", kindRemaining}, {"reset", kindReset}} {
		f := fieldOf("x-ratelimit-" + w.text + "-" + q.Name)
		if f.kind != w.kind || f.name != q.Name || f.source != fromX || f.milli {
			return false
		}
	}
	return true
}

func writeQuota(h http.Header, now time.Time, q *Quota, prefix, suffix string) {
	setCount(h, prefix+"Limit"+suffix, q.Limit)
	setCount(h, prefix+"Remaining"+suffix, q.Remaining)
	if sec, ok := epochSeconds(now, q.Reset); ok {
		h.Set(prefix+"Reset"+suffix, strconv.FormatInt(sec, 10))
	}
}

// epochSeconds is the first whole second that is not before the reset. Less than
// a millisecond past it does not count: that much is rounded when it is read.
func epochSeconds(now time.Time, reset time.Duration) (int64, bool) {
	if reset < 0 || reset > horizon-time.Second {
		return 0, false
	}
	t := now.Add(ceilMilli(reset) - time.Millisecond + 1)
	sec := t.Unix()
	if t.Nanosecond() > 0 {
		sec++
	}
	return sec, sec >= 9e8 && sec < 1e11
}

// writeGitHub writes one quota, as GitHub does for the resource of the request.
func writeGitHub(h http.Header, now time.Time, a Advice) {
	writeDelay(h, a)
	q := tightest(a.Quotas, anyQuota)
	if q == nil {
		return
	}
	writeQuota(h, now, q, "X-RateLimit-", "")
	if q.Limit >= 0 && q.Remaining >= 0 && q.Limit <= maxNumber && q.Remaining <= maxNumber {
		h.Set("X-RateLimit-Used", strconv.FormatInt(max(q.Limit-q.Remaining, 0), 10))
	}
	if isName(q.Name) && unitOf(q.Name) == "requests" {
		h.Set("X-RateLimit-Resource", q.Name)
	}
}

func writeKuCoin(h http.Header, now time.Time, a Advice) { writeMillis(h, a, "gw-ratelimit-") }

func writeDeltaMillis(h http.Header, now time.Time, a Advice) { writeMillis(h, a, "X-Rate-Limit-") }

// writeMillis writes one quota with its reset in milliseconds from now.
func writeMillis(h http.Header, a Advice, prefix string) {
	writeDelay(h, a)
	q := tightest(a.Quotas, anyQuota)
	if q == nil {
		return
	}
	setCount(h, prefix+"Limit", q.Limit)
	setCount(h, prefix+"Remaining", q.Remaining)
	if q.Reset >= 0 && q.Reset <= horizon {
		h.Set(prefix+"Reset", strconv.FormatInt(int64(ceilMilli(q.Reset)/time.Millisecond), 10))
	}
}
