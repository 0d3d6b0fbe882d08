package site

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Transport returns a transport that reaches the hosts of s by their names, and
// nothing else: pages choose where a crawler connects to, so whatever does not lead
// to this machine is refused.
func (s *Site) Transport() *http.Transport {
	return &http.Transport{DialContext: s.dial, MaxIdleConnsPerHost: 2}
}

func (s *Site) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	h := s.byName[strings.ToLower(strings.TrimSuffix(host, "."))]
	if h == nil {
		return nil, fmt.Errorf("site: %s is not a host of this site", addr)
	}
	to, err := netip.ParseAddrPort(h.addr)
	if err != nil || !to.Addr().IsLoopback() {
		return nil, fmt.Errorf("site: %s does not lead to this machine", h.addr)
	}
	return new(net.Dialer).DialContext(ctx, network, h.addr)
}
