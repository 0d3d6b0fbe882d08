package interop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/comity/comity/internal/sf"
	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

// Structured fields are read as github.com/dunglas/httpsfv reads them: the same
// Lists are valid, with the same items and parameters. What they are made of here
// is random, but never far from what is valid.
func TestListsAreReadAsByHTTPSFV(t *testing.T) {
	rng := rand.New(rand.NewPCG(9651, 8941))
	valid := 0
	for range 30_000 {
		if sameList(t, randomList(rng)) {
			valid++
		}
	}
	t.Logf("%d of 30000 Lists are valid", valid)
	require.Greater(t, valid, 5_000)
	require.Less(t, valid, 25_000)
}

func FuzzListAgainstHTTPSFV(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f.Add(randomList(rng))
	}
	f.Fuzz(func(t *testing.T, s string) { sameList(t, s) })
}

// sameList requires that both readers agree on s, and reports whether it is
// valid.
func sameList(t *testing.T, s string) bool {
	t.Helper()
	ours, err := ourList(s)
	theirs, theirErr := httpsfv.UnmarshalList([]string{s})
	if strings.Contains(s, ":") && (err == nil) != (theirErr == nil) {
		// RFC 9651 section 4.2.7: we take base64 without padding, httpsfv does
		// not; it takes line breaks there, which no field can hold.
		require.Equal(t, err != nil, strings.ContainsAny(s, "\r\n"), "%q: we say %v, httpsfv says %v", s, err, theirErr)
		return err == nil
	}
	require.Equal(t, theirErr == nil, err == nil, "%q: we say %v, httpsfv says %v", s, err, theirErr)
	if err == nil {
		require.Equal(t, theirList(theirs), ours, "%q", s)
	}
	return err == nil
}

func ourList(s string) (out []string, err error) {
	r := sf.NewReader(s)
	for r.Next() {
		member := ourValue(r.Value())
		params := map[string]string{}
		for {
			key, v, ok := r.Param()
			if !ok {
				break
			}
			params[key] = ourValue(v)
		}
		out = append(out, member+fmt.Sprint(params))
	}
	return out, r.Err()
}

func ourValue(v sf.Value) string {
	switch v.Kind {
	case sf.Integer, sf.Date, sf.Boolean, sf.Decimal:
		return fmt.Sprint(v.Kind, v.Int)
	case sf.Bytes:
		b, err := v.Decode()
		return fmt.Sprint(v.Kind, b, err)
	}
	return fmt.Sprintf("%d%q", v.Kind, v.Text)
}

func theirList(list httpsfv.List) (out []string) {
	for _, m := range list {
		var value string
		var params *httpsfv.Params
		switch m := m.(type) {
		case httpsfv.Item:
			value, params = theirValue(m.Value), m.Params
		case httpsfv.InnerList:
			value, params = ourValue(sf.Value{Kind: sf.InnerList}), m.Params
		}
		got := map[string]string{}
		for _, key := range params.Names() {
			v, _ := params.Get(key)
			got[key] = theirValue(v)
		}
		out = append(out, value+fmt.Sprint(got))
	}
	return out
}

func theirValue(v any) string {
	switch v := v.(type) {
	case int64:
		return ourValue(sf.Value{Kind: sf.Integer, Int: v})
	case float64:
		return ourValue(sf.Value{Kind: sf.Decimal, Int: int64(math.Round(v * 1000))})
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		return ourValue(sf.Value{Kind: sf.Boolean, Int: n})
	case string:
		return ourValue(sf.Value{Kind: sf.String, Text: v})
	case httpsfv.Token:
		return ourValue(sf.Value{Kind: sf.Token, Text: string(v)})
	case httpsfv.DisplayString:
		return ourValue(sf.Value{Kind: sf.DisplayString, Text: string(v)})
	case []byte:
		return fmt.Sprint(sf.Bytes, v, error(nil))
	case time.Time:
		return ourValue(sf.Value{Kind: sf.Date, Int: v.Unix()})
	}
	return fmt.Sprintf("%T", v)
}

// damage are bytes that mean something in a List, or never stand in one.
const damage = "\"\\,;:=()?@%.*-0aZ \t\x7f\xc3"

// randomList writes a List, and now and then damages it.
func randomList(rng *rand.Rand) string {
	var b strings.Builder
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	bare := func() string {
		return pick(`"default"`, `"a,b;c\"d\\"`, `""`, "50", "-7", "0", "999999999999999", "1.5", "-0.125", "123456789012.999", "?1", "?0",
			"@1659578233", "@-1", "token", "*t", ":QXBwLTk5OQ==:", "::", ":+/A=:", "a/b!", `%"f%c3%bc"`, `%"x"`, "007", "1e3")
	}
	params := func() {
		for range rng.IntN(4) {
			b.WriteString(pick(";", ";", "; ", ";  ") + pick("r", "t", "q", "w", "pk", "*k", "a-b.c_d", "r"))
			if rng.IntN(4) > 0 {
				b.WriteString("=" + bare())
			}
		}
	}
	b.WriteString(pick("", "", " "))
	for i := range 1 + rng.IntN(4) {
		if i > 0 {
			b.WriteString(pick(",", ", ", " , ", ",\t"))
		}
		if rng.IntN(6) == 0 {
			b.WriteString("(" + pick("", " "))
			for range rng.IntN(3) {
				b.WriteString(bare())
				params()
				b.WriteString(pick(" ", " ", "  ", ""))
			}
			b.WriteString(")")
		} else {
			b.WriteString(bare())
		}
		params()
	}
	b.WriteString(pick("", "", "", " ", "\t"))
	s := []byte(b.String())
	for rng.IntN(3) == 0 && len(s) > 0 {
		i := rng.IntN(len(s))
		switch rng.IntN(3) {
		case 0:
			s = slices.Delete(s, i, i+1)
		case 1:
			s[i] = damage[rng.IntN(len(damage))]
		default:
			s = slices.Insert(s, i, damage[rng.IntN(len(damage))])
		}
	}
	return string(s)
}
