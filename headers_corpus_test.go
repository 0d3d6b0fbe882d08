package comity_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/comity/comity"
	"github.com/stretchr/testify/require"
)

// A headerCase is one response of testdata/headers/corpus.json with the reading
// that is expected of it. Null stands for what is not given.
type headerCase struct {
	ID          string
	Status      int
	Date        time.Time
	Headers     [][2]string
	NeedsPreset string `json:"needs_preset"`
	Contestable bool
	Reason      string
	Units       map[string]string
	Expect      struct {
		RetryAfter *int64 `json:"retry_after_ms"`
		Quotas     []headerQuota
		Malformed  bool
		Retry      int
	}
}

type headerQuota struct {
	Name      *string
	Limit     *int64
	Remaining *int64
	Reset     *int64 `json:"reset_ms"`
	Window    *int64 `json:"window_ms"`
}

func readCorpus(t testing.TB) []headerCase {
	text, err := os.ReadFile("testdata/headers/corpus.json")
	require.NoError(t, err)
	var cases []headerCase
	require.NoError(t, json.Unmarshal(text, &cases))
	return cases
}

// header builds the response as net/http would, or with the names as they are
// where the case is about that.
func (c *headerCase) header() http.Header {
	h := http.Header{}
	for _, f := range c.Headers {
		if c.ID == "rl-lowercase-map" {
			h[f[0]] = append(h[f[0]], f[1])
			continue
		}
		h.Add(f[0], f[1])
	}
	return h
}

var dialects = []*comity.Dialect{
	comity.Auto, comity.IETF, comity.IETFFields, comity.XRateLimit, comity.GitHub, comity.KuCoin, comity.DeltaMillis,
	comity.LegacyDiscord, comity.Strava,
}

func (c *headerCase) dialect(t testing.TB) *comity.Dialect {
	if c.NeedsPreset == "" {
		return comity.Auto
	}
	i := slices.IndexFunc(dialects, func(d *comity.Dialect) bool { return d.Name == c.NeedsPreset })
	require.GreaterOrEqual(t, i, 0, "no dialect is named %s", c.NeedsPreset)
	return dialects[i]
}

func TestAdviceMatchesCorpus(t *testing.T) {
	right, contested, wrong := 0, 0, 0
	for _, c := range readCorpus(t) {
		diff := c.differs(c.dialect(t).Parse(c.header(), c.Date))
		switch {
		case diff == "":
			right++
		case c.Contestable && c.NeedsPreset == "":
			contested++
			t.Logf("contestable: %s: %s (%s)", c.ID, diff, c.Reason)
		default:
			wrong++
			t.Errorf("%s: %s", c.ID, diff)
		}
	}
	t.Logf("%d right, %d contestable and different, %d wrong", right, contested, wrong)
}

// differs says how a is not what the case expects; "" if it is. The order of
// quotas is not significant.
func (c *headerCase) differs(a comity.Advice) string {
	got, want := []string{}, []string{}
	got = append(got, fmt.Sprint("retry after ", millis(a.RetryAfter)))
	want = append(want, fmt.Sprint("retry after ", orMinus(c.Expect.RetryAfter)))
	got = append(got, fmt.Sprint("retry ", a.Retry, " malformed ", len(a.Malformed) > 0))
	want = append(want, fmt.Sprint("retry ", c.Expect.Retry, " malformed ", c.Expect.Malformed))
	for _, q := range a.Quotas {
		got = append(got, fmt.Sprintf("%q %d/%d reset %d window %d %s", q.Name, q.Remaining, q.Limit, millis(q.Reset),
			millis(q.Window), q.Unit))
	}
	for _, q := range c.Expect.Quotas {
		name, unit := "", "requests"
		if q.Name != nil {
			name = *q.Name
		}
		if u, ok := c.Units[name]; ok {
			unit = u
		}
		want = append(want, fmt.Sprintf("%q %d/%d reset %d window %d %s", name, orMinus(q.Remaining), orMinus(q.Limit),
			orMinus(q.Reset), orMinus(q.Window), unit))
	}
	slices.Sort(got)
	slices.Sort(want)
	if slices.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("got %s; want %s; malformed %q", strings.Join(got, ", "), strings.Join(want, ", "), a.Malformed)
}

func millis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

func orMinus(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}
