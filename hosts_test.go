package comity

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpellingsOfAHostAreOneDestination(t *testing.T) {
	for want, spellings := range map[string][]string{
		"api.example.com":      {"http://api.example.com", "HTTP://API.Example.COM/x", "https://api.example.com:443", "http://api.example.com.:80/", "http://me:pw@api.example.com", "http://api.example.com:"},
		"api.example.com:8080": {"http://api.example.com:8080", "https://API.example.com.:8080", "http://api.example.com:08080"},
		"api.example.com:443":  {"http://api.example.com:443"},
		"127.0.0.1":            {"http://127.0.0.1", "http://127.0.0.1:80", "http://[::ffff:127.0.0.1]"},
		"127.0.0.1:9000":       {"http://127.0.0.1:9000"},
		"[::1]":                {"http://[::1]", "http://[0:0:0:0:0:0:0:1]:80", "https://[::0001]:443"},
		"[2001:db8::1]:8443":   {"https://[2001:DB8::1]:8443", "https://[2001:0db8:0::0001]:8443"},
		"[fe80::1%eth0]":       {"http://[fe80::1%25eth0]/"},
		"xn--bcher-kva.example": {"http://bücher.example", "http://BÜCHER.example.", "http://b%C3%BCcher.example",
			"http://xn--bcher-kva.example", "http://XN--BCHER-KVA.example"},
		"xn--fiqs8s.xn--fiqs8s": {"http://中国。中国"},
		"file:":                 {"file:///etc/hosts"},
	} {
		for _, s := range spellings {
			u, err := url.Parse(s)
			require.NoError(t, err)
			require.Equal(t, want, hostOf(u), s)
		}
	}
}

func TestCanonicalHostAllocatesNothing(t *testing.T) {
	for _, s := range []string{"https://api.example.com/x", "https://api.example.com:8443/x", "http://127.0.0.1:8080", "http://[::1]:8080", "http://[::1]/"} {
		u, err := url.Parse(s)
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(100, func() { hostOf(u) }), s)
	}
}

// The samples of RFC 3492, section 7.1, in lower case.
func TestPunycodeOfTheRFC(t *testing.T) {
	for plain, want := range map[string]string{
		"ليهمابتكلموشعربي؟":                        "egbpdaj6bu4bxfgehfvwxn",
		"他们为什么不说中文":                                "ihqwcrb4cv8a8dqg056pqjye",
		"他們爲什麽不說中文":                                "ihqwctvzc91f659drss3x8bo0yb",
		"pročprostěnemluvíčesky":                   "proprostnemluvesky-uyb24dma41a",
		"למההםפשוטלאמדבריםעברית":                   "4dbcagdahymbxekheh6e0a7fei0b",
		"почемужеонинеговорятпорусски":             "b1abfaaepdrnnbgefbadotcwatmq2g4l",
		"porquénopuedensimplementehablarenespañol": "porqunopuedensimplementehablarenespaol-fmd56a",
		"3年b組金八先生":                                 "3b-ww4c5e180e575a65lsy2b",
		"-> $1.00 <-":                              "-> $1.00 <--",
	} {
		got, ok := punycode(plain)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
}

func TestHostThatCannotBeEncodedIsItsLowerCase(t *testing.T) {
	long := ""
	for range 70 {
		long += "ü"
	}
	require.Equal(t, long+".example", canonicalHost(long+".EXAMPLE", "80"))
	require.Equal(t, "\xff.example", canonicalHost("\xff.EXAMPLE", "80"))
}
