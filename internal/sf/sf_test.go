package sf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/comity/comity/internal/sf"
	"github.com/stretchr/testify/require"
)

// print writes a List as the Reader sees it.
func print(s string) string {
	var b strings.Builder
	r := sf.NewReader(s)
	for r.Next() {
		v := r.Value()
		fmt.Fprintf(&b, "[%d %d %q", v.Kind, v.Int, v.Text)
		for {
			key, v, ok := r.Param()
			if !ok {
				break
			}
			fmt.Fprintf(&b, " %s=%d %d %q", key, v.Kind, v.Int, v.Text)
		}
		b.WriteByte(']')
	}
	if r.Err() != nil {
		return r.Err().Error()
	}
	return b.String()
}

func TestListIsReadAsWritten(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"spaces", "   ", ""},
		{"item", `"default";r=50;t=30`, `[3 0 "default" r=1 50 "" t=1 30 ""]`},
		{"two", `"a";q=1 , ` + "\t" + `"b"`, `[3 0 "a" q=1 1 ""][3 0 "b"]`},
		{"escapes", `"a,b;c\"d\\"`, `[3 0 "a,b;c\"d\\"]`},
		{"bytes", `"a";pk=:QXBwLTk5OQ==:`, `[3 0 "a" pk=5 0 "QXBwLTk5OQ=="]`},
		{"bytes without padding", `:QXBwLTk5OQ:`, `[5 0 "QXBwLTk5OQ"]`},
		{"no bytes", `::`, `[5 0 ""]`},
		{"numbers", `-5, 1.5, -0.125, 999999999999999`, `[1 -5 ""][2 1500 ""][2 -125 ""][1 999999999999999 ""]`},
		{"token", `foo/bar:*;a`, `[4 0 "foo/bar:*" a=6 1 ""]`},
		{"boolean", `?1;b=?0`, `[6 1 "" b=6 0 ""]`},
		{"date", `@1659578233`, `[7 1659578233 ""]`},
		{"display string", `%"f%c3%bc%c3%bc"`, `[8 0 "füü"]`},
		{"inner list", `("a" "b";x=1 );q=10, ()`, `[9 0 "" q=1 10 ""][9 0 ""]`},
		{"space behind semicolon", `a; b=1`, `[4 0 "a" b=1 1 ""]`},
		{"equal parameters", `a;r=5;r=2`, `[4 0 "a" r=1 5 "" r=1 2 ""]`},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, print(c.in)) })
	}
}

func TestListIsRefusedAsAWhole(t *testing.T) {
	for _, in := range []string{
		`,`, `a b`, `a;`, `a;=1`, `a;B=1`, `a;b=`, `a ;b`, `"a`, `"a\`, `"a\n"`, "\"a\x7f\"", `"ü"`, `-`, `1.`, `.5`, `1.2345`,
		`1234567890123456`, `1234567890123.1`, `?2`, `?`, `@`, `@1.5`, `:a:`, `:a`, `:a=b=:`, `:YQ===:`, `:$$$$:`, `%"%C3"`, `%"%ff"`, `%"a`, `%a`, `(a`,
		`("a""b")`, `(a,b)`, "\ta", `=`, `"fixed window";"api"`,
	} {
		t.Run(in, func(t *testing.T) { require.Equal(t, sf.ErrSyntax.Error(), print(in)) })
	}
	require.Equal(t, sf.ErrTrailing.Error(), print("a, "))
}

func TestAppendStringRoundTrips(t *testing.T) {
	b, ok := sf.AppendString(nil, `say "no" \ yes`)
	require.True(t, ok)
	r := sf.NewReader(string(b))
	require.True(t, r.Next())
	require.Equal(t, `say "no" \ yes`, r.Value().Text)

	for _, s := range []string{"a\n", "ü", "\x00", "\x7f"} {
		_, ok := sf.AppendString(nil, s)
		require.False(t, ok, "%q", s)
	}
}

func TestBytesAreDecoded(t *testing.T) {
	for _, in := range []string{":QXBwLTk5OQ==:", ":QXBwLTk5OQ:"} {
		r := sf.NewReader(in)
		require.True(t, r.Next())
		b, err := r.Value().Decode()
		require.NoError(t, err)
		require.Equal(t, "App-999", string(b))
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	s := `"permin";q=50;w=60, "perhr";q=1000;w=3600;pk=:QXBwLTk5OQ==:`
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r := sf.NewReader(s)
		for r.Next() {
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
	}))
}

func FuzzList(f *testing.F) {
	for _, s := range []string{`"a";r=1;t=2, "b"`, `("a" b);q=1.5, ?1, @1, %"%c3%bc", :YQ==:`, `a;b;c=d`, `"\"\\"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := sf.NewReader(s)
		n := 0
		for r.Next() {
			n++
			for {
				key, v, ok := r.Param()
				if !ok {
					break
				}
				require.NotEmpty(t, key)
				require.NotEqual(t, sf.Invalid, v.Kind)
			}
			v := r.Value()
			require.NotEqual(t, sf.Invalid, v.Kind)
			if v.Kind == sf.String {
				b, ok := sf.AppendString(nil, v.Text)
				require.True(t, ok)
				again := sf.NewReader(string(b))
				require.True(t, again.Next())
				require.Equal(t, v, again.Value())
			}
			if v.Kind == sf.Bytes {
				_, err := v.Decode()
				require.NoError(t, err)
			}
		}
		require.LessOrEqual(t, n, len(s))
		require.LessOrEqual(t, r.Pos(), len(s))
		if r.Err() == nil {
			require.Equal(t, len(s), r.Pos())
		}
	})
}
