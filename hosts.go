package comity

import (
	"net/netip"
	"net/url"
	"strings"
)

// hostOf returns the name under which the host of u is known, whatever its
// spelling: lower case, no trailing dot, no default port, no user; IP literals
// as net/netip writes them, other scripts in punycode. It allocates only if u
// spells the host otherwise. A URL without a host is known by its scheme.
func hostOf(u *url.URL) string {
	if plainHost(u.Host) {
		return u.Host
	}
	if u.Host == "" {
		return strings.ToLower(u.Scheme) + ":"
	}
	return canonicalHost(u.Host, defaultPort(u.Scheme))
}

// plainHost reports whether host is a name or an IPv4 address without a port, in
// canonical form.
func plainHost(host string) bool {
	if host == "" || host[len(host)-1] == '.' {
		return false
	}
	for i := range len(host) {
		c := host[i]
		if c < '-' || c > 'z' || c == ':' || c == '@' || c == '[' || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

func defaultPort(scheme string) string {
	switch scheme {
	case "http", "ws":
		return "80"
	case "https", "wss":
		return "443"
	}
	return strings.ToLower(scheme) // no port
}

// canonicalHost returns host[:port] in canonical form, without the port if that
// is the default one.
func canonicalHost(hostport, def string) string {
	if i := strings.LastIndexByte(hostport, '@'); i >= 0 {
		hostport = hostport[i+1:]
	}
	host, port := splitPort(hostport)
	for len(port) > 1 && port[0] == '0' {
		port = port[1:]
	}
	host = canonicalName(host)
	if port == "" || port == def {
		return host
	}
	if len(hostport) == len(host)+1+len(port) && strings.HasPrefix(hostport, host) && strings.HasSuffix(hostport, port) {
		return hostport
	}
	return host + ":" + port
}

// splitPort cuts the port off host[:port]. Unlike net.SplitHostPort it takes a
// host without one.
func splitPort(hostport string) (host, port string) {
	i := strings.LastIndexByte(hostport, ':')
	if i < 0 || strings.IndexByte(hostport[i:], ']') >= 0 {
		return hostport, ""
	}
	if strings.IndexByte(hostport, ':') < i && hostport[0] != '[' {
		return hostport, "" // an IPv6 address without brackets
	}
	return hostport[:i], hostport[i+1:]
}

// canonicalName returns a host without its port in canonical form.
func canonicalName(host string) string {
	if plainHost(host) {
		return host
	}
	if strings.IndexByte(host, ':') >= 0 {
		return canonicalIP(host)
	}
	name := strings.TrimRight(host, ".")
	switch {
	case name == "":
		return host // nobody's name, and not the one of no host either
	case plainHost(name):
		return name
	case isASCII(name):
		return strings.ToLower(name)
	}
	return strings.TrimRight(asciiHost(name), ".")
}

// canonicalIP returns an IPv6 literal as net/netip writes it, in brackets, or as
// the IPv4 address that it maps.
func canonicalIP(host string) string {
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip, err := netip.ParseAddr(bare)
	if err != nil {
		return strings.ToLower(host)
	}
	if ip.Is4In6() {
		return ip.Unmap().String()
	}
	var buf [64]byte
	b := append(buf[:0], '[')
	b = append(ip.AppendTo(b), ']')
	if string(b) == host {
		return host
	}
	return string(b)
}

// sentPath returns the escaped path of u as it goes over the wire.
func sentPath(u *url.URL) string {
	if u.Opaque == "" {
		return u.EscapedPath()
	}
	path := u.Opaque
	if rest, ok := strings.CutPrefix(path, "//"); ok { // "//host/path", for what EscapedPath would escape otherwise
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return "/"
		}
		path = rest[i:]
	}
	path, _, _ = strings.Cut(path, "?")
	return path
}
