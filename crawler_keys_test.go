package comity

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// 24 spellings of 8 hosts are 8 destinations, and the name of each is a spelling of
// it.
func TestCrawler17SpellingsOfHosts(t *testing.T) {
	rt, err := New(instant{}, Config{MaxDestinations: -1})
	require.NoError(t, err)
	call := func(link string) {
		req, err := http.NewRequest(http.MethodGet, link, nil)
		require.NoError(t, err)
		_, err = rt.RoundTrip(req)
		require.NoError(t, err)
	}
	for _, link := range []string{
		"http://example.com", "http://EXAMPLE.com", "http://example.com.", "http://example.com:/x", "https://example.com:443", "http://example.com:080",
		"http://example.com:8080", "http://me:secret@Example.COM.:8080", "https://example.com:08080",
		"http://bücher.example", "http://BÜCHER.example", "http://xn--bcher-kva.example", "http://b%C3%BCcher.example.",
		"http://www.example.com", "https://WWW.example.com",
		"http://127.0.0.1", "http://[::ffff:127.0.0.1]:80",
		"http://[::1]", "http://[0:0:0:0:0:0:0:1]", "https://[::1]:443",
		"http://[2001:db8::1]:8443", "https://[2001:0DB8:0::1]:8443",
		"http://中国。中国", "http://xn--fiqs8s.xn--fiqs8s",
	} {
		call(link)
	}
	names := func() (names []string) {
		for _, d := range rt.Destinations() {
			names = append(names, d.Key)
		}
		return names
	}
	all := names()
	require.Len(t, all, 8)
	for _, name := range all {
		call("http://" + name)
	}
	require.Equal(t, all, names())
}

// Whatever a URL holds, the name of its host is the name of that name.
func FuzzHostName(f *testing.F) {
	for _, s := range []string{"http://Example.COM.:80/", "http://me@[::FFFF:1.2.3.4]:08", "https://bücher。example:443", "http://a%41..:", "x:y", "http://[fe80::1%25eth0]", "http://\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return
		}
		name := hostOf(u)
		if again := hostOf(&url.URL{Scheme: u.Scheme, Host: name}); name != "" && again != name { // "": there is but a port
			t.Errorf("%q: %q is called %q", s, name, again)
		}
	})
}
