package comity

import (
	"encoding/binary"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var allDialects = []*Dialect{
	Auto, IETF, IETFFields, XRateLimit, GitHub, KuCoin, DeltaMillis, LegacyDiscord, Strava,
	Shopify, Twitter, Discogs, Groq, Etsy, Xero, Zendesk, Riot, PathOfExile, Trakt, Meta,
}

// headText writes a response head, and headOf reads one, with names as they are:
// not every name that is read comes from net/http.
func headText(h http.Header) string {
	var b strings.Builder
	for key, lines := range h {
		for _, line := range lines {
			b.WriteString(key + ": " + line + "\n")
		}
	}
	return b.String()
}

func headOf(text string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(text, "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok {
			h[key] = append(h[key], value)
		}
	}
	return h
}

// requireCaps checks that a is within what a server can make us believe. It is
// run often: testify only words what fails.
func requireCaps(t *testing.T, h http.Header, a Advice) {
	t.Helper()
	wait := func(d time.Duration) bool { return d == -1 || d >= 0 && d <= horizon && d%time.Millisecond == 0 }
	number := func(n int64) bool { return n >= -1 && n <= maxNumber }
	ok := wait(a.RetryAfter) && a.Retry >= -1 && a.Retry <= 1 && len(a.Quotas) <= maxQuotas
	for _, q := range a.Quotas {
		ok = ok && wait(q.Reset) && number(q.Limit) && number(q.Remaining) && (q.Window == -1 || q.Window > 0) &&
			(q.Limit < 0 || q.Remaining <= q.Limit) && q.Unit != ""
	}
	for _, key := range a.Malformed {
		ok = ok && h[key] != nil
	}
	if !ok {
		require.Fail(t, "not within the caps", "%+v", a)
	}
}

func equalAdvice(a, b Advice) bool {
	return a.RetryAfter == b.RetryAfter && a.Retry == b.Retry && slices.Equal(a.Quotas, b.Quotas) &&
		slices.Equal(a.Malformed, b.Malformed)
}

func FuzzParseAdvice(f *testing.F) {
	hs, now := corpusHeaders(f)
	for i, h := range hs {
		f.Add(headText(h), now[i].Unix())
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		h := headOf(text)
		now := time.Unix(max(min(unix, 4e9), 0), 123_456_789)
		for _, d := range allDialects {
			a := d.Parse(h, now)
			requireCaps(t, h, a)
			if again := d.Parse(h, now); !equalAdvice(a, again) {
				require.Equal(t, a, again, "%s: a map has no order, its reading has one", d.Name)
			}
			var r reader
			var b Advice
			for range 3 {
				r.read(d, h, now, false, &b)
				b.Malformed = append(b.Malformed[:0], a.Malformed...) // a plan does not look at what decides nothing
				if !equalAdvice(a, b) {
					require.Equal(t, a, b, d.Name)
				}
			}
		}
	})
}

// The standard library takes more than this, such as hours of one digit.
var (
	strictIMF = regexp.MustCompile(`^[A-Z][a-z]{2}, \d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$`)
	strictISO = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
)

// A delay is what the standard library makes of it, where that can read it.
func FuzzDelay(f *testing.F) {
	hs, _ := corpusHeaders(f)
	for _, h := range hs {
		for _, lines := range h {
			f.Add(lines[0])
		}
	}
	ref := time.Date(2026, 6, 1, 12, 0, 0, 250_000_000, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		h := http.Header{"Retry-After": {s}}
		a := ParseAdvice(h, ref)
		requireCaps(t, h, a)
		if a.RetryAfter < 0 || !strings.Contains(s, ",") {
			require.Equal(t, a.RetryAfter < 0, len(a.Malformed) > 0)
		}

		s = strings.Trim(s, " \t")
		if len(s) > maxDelay {
			return
		}
		if at, err := http.ParseTime(s); err == nil && strictIMF.MatchString(s) {
			requireUntil(t, at, ref, a.RetryAfter)
		}
		if at, err := time.Parse(time.RFC3339Nano, s); err == nil && strictISO.MatchString(s) {
			requireUntil(t, at, ref, a.RetryAfter)
		}
		if d, err := time.ParseDuration(s); err == nil && d <= horizon && isDigit(s[0]) && a.RetryAfter >= 0 && !isDigit(s[len(s)-1]) {
			require.InDelta(t, float64(d), float64(a.RetryAfter), float64(time.Millisecond)+1)
		}
	})
}

func requireUntil(t *testing.T, at, ref time.Time, d time.Duration) {
	t.Helper()
	switch want := at.Sub(ref); {
	case want > horizon:
		require.Equal(t, time.Duration(-1), d)
	case want <= 0:
		require.Zero(t, d)
	default:
		require.True(t, d >= want && d < want+time.Millisecond, "%v is not %v", d, want)
	}
}

// adviceOf makes an Advice of bytes, biased to what is near the bounds.
func adviceOf(data []byte) (a Advice, now time.Time) {
	next := func() (b byte) {
		if len(data) > 0 {
			b, data = data[0], data[1:]
		}
		return b
	}
	number := func() int64 {
		switch b := next(); b % 8 {
		case 0:
			return -1
		case 1:
			return int64(next()) - 3
		case 2:
			return maxNumber - int64(next()) + 3
		case 3:
			return math.MaxInt64 - int64(next())
		default:
			n := int64(0)
			for range 1 + b/64 {
				n = n<<8 | int64(next())
			}
			return n
		}
	}
	wait := func() time.Duration {
		switch b := next(); b % 4 {
		case 0:
			return time.Duration(number())
		case 1:
			return horizon - time.Duration(number()%1e9)
		default:
			return time.Duration(number()%(1<<33)) * time.Millisecond
		}
	}
	names := []string{"", "core", "requests", "tokens", "requests-day", "minute", "limit", "reset-after", "a b", `q"\`, "ü", "Default",
		"concurrent", "daily_x", "near", "remaining"}
	var seed [8]byte
	copy(seed[:], data)
	now = time.Unix(1_500_000_000+int64(binary.LittleEndian.Uint32(seed[:4])%1_000_000_000), int64(binary.LittleEndian.Uint32(seed[4:])%1e9))
	a = Advice{RetryAfter: wait(), Retry: int(next()%3) - 1}
	for range next() % 20 {
		q := Quota{Name: names[next()%16], Unit: "requests", Limit: number(), Remaining: number(), Window: wait(), Reset: wait()}
		switch next() % 8 {
		case 0:
			q.Unit = ""
		case 1:
			q.Unit = "tokens"
		case 2:
			q.Unit = "content bytes"
		}
		if next()%16 == 0 {
			q.Name = string(data[:min(len(data), 6)])
		}
		a.Quotas = append(a.Quotas, q)
	}
	return a, now
}

// says reports whether b is nothing but a part of what a says, and not sooner.
func says(a, b Quota) bool {
	return (b.Name == "" || b.Name == a.Name) && b.Unit == a.unitName() &&
		(b.Limit < 0 || b.Limit == a.Limit) &&
		(b.Remaining < 0 || a.Remaining >= 0 && b.Remaining <= a.Remaining) &&
		(b.Window < 0 || a.Window > 0 && b.Window >= a.Window) &&
		(b.Reset < 0 || a.Reset >= 0 && b.Reset >= a.Reset)
}

func FuzzWrite(f *testing.F) {
	f.Add([]byte{4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add([]byte("the quick brown fox jumps over the lazy dog, again and again, until it sleeps"))
	f.Add(slices.Repeat([]byte{2, 68, 1, 0, 5, 7}, 60))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, now := adviceOf(data)
		for _, d := range allDialects {
			if d.Write == nil {
				continue
			}
			h := http.Header{}
			d.Write(h, now, a)
			b := d.Parse(h, now)
			requireCaps(t, h, b)
			if len(b.Malformed) > 0 || b.RetryAfter != -1 && (a.RetryAfter < 0 || b.RetryAfter < a.RetryAfter) {
				require.Fail(t, "not what was written", "%s wrote %v, read %+v", d.Name, h, b)
			}
			for _, q := range b.Quotas {
				if !slices.ContainsFunc(a.Quotas, func(p Quota) bool { return says(p, q) }) {
					require.Fail(t, "more than was said", "%s read %+v in %v of %+v", d.Name, q, h, a)
				}
			}
			again := http.Header{}
			d.Write(again, now, b)
			if c := d.Parse(again, now); !equalAdvice(b, c) {
				require.Equal(t, b, c, "%s wrote %v, then %v", d.Name, h, again)
			}
		}
	})
}

// Hostile input costs time in proportion to its size.
func TestTimeIsLinearInTheInput(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's time is not that of the parser")
	}
	inputs := map[string]func(n int) http.Header{
		"many names": func(n int) http.Header {
			h := http.Header{}
			for i := range n / 20 {
				h["X-Ratelimit-Limit-"+string(binary.AppendUvarint(nil, uint64(i)))] = []string{"1"}
			}
			return h
		},
	}
	for name, value := range map[string]string{
		"digits": "9", "commas": ",", "items": `"a";r=1,`, "open strings": `"a,"`, "parameters": ";w=1", "numbers": "1,", "dashes": "-",
		"backslashes": `\"`, "entries": "a=1/2;", "inner lists": "(", "seconds": "1:a,",
	} {
		for _, key := range []string{"Retry-After", "Ratelimit", "Ratelimit-Policy", "X-Ratelimit-Limit", "X-Ratelimit-Reset",
			"X-Sentry-Rate-Limits", "Sforce-Limit-Info", "X-Ms-Ratelimit-Remaining-Resource"} {
			inputs[key+" "+name] = func(n int) http.Header { return http.Header{key: {strings.Repeat(value, n/len(value))}} }
			inputs[key+" "+name+", quoted"] = func(n int) http.Header {
				return http.Header{key: {`"` + strings.Repeat(value, n/len(value))}}
			}
		}
	}
	for name, input := range inputs {
		cost := func(n int) time.Duration {
			h := input(n)
			best := time.Duration(math.MaxInt64)
			for range 3 {
				start := time.Now()
				ParseAdvice(h, noonUTC)
				best = min(best, time.Since(start))
			}
			return best
		}
		var small, large time.Duration
		for range 5 { // another program may have had the processor
			if small, large = cost(32<<10), cost(256<<10); large <= 16*small+20*time.Millisecond {
				break
			}
		}
		if large > 16*small+20*time.Millisecond {
			t.Errorf("%s: %v for 32 KiB, %v for 256 KiB", name, small, large)
		}
	}
}
