// Package site is a small web of loopback servers for crawlers to be tried on: 60
// hosts, many of them awkward in a way that is common in the wild. It watches from
// the server's side whether a crawler keeps to what the hosts ask for.
package site

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// Pages is how many pages each host has.
const Pages = 20

// Options say what a Site is like. The zero Options are 60 hosts in the time that
// the constants of this package state.
type Options struct {
	Hosts int     // 60 if zero
	Scale float64 // multiplies all times of the site; 1 if zero. Retry-After stays in whole seconds
	Seed  uint64  // of the links between hosts
}

// Times of the site at Scale 1: a tenth of what a crawler should use outside.
const (
	gap        = 100 * time.Millisecond // between the end of an answer and the next call
	crawlDelay = 500 * time.Millisecond // the same where robots.txt asks for it
	interval   = 50 * time.Millisecond  // between the starts of calls to one address with two names
	slowness   = 600 * time.Millisecond // to the headers of the slow host
	outage     = 2 * time.Second        // of robots.txt
	busy       = time.Second            // for which a host answers 503 and says nothing else
	retryAfter = 2 * time.Second
)

// Site is a web of hosts. Open makes one.
type Site struct {
	hosts   []*Host
	byName  map[string]*Host
	scale   float64
	rnd     *rand.Rand
	servers []*http.Server
	group   group
	began   time.Time
}

// Open starts the servers of a Site.
func Open(o Options) (*Site, error) {
	if o.Hosts <= 0 {
		o.Hosts = len(roles)
	}
	if o.Scale <= 0 {
		o.Scale = 1
	}
	s := &Site{byName: map[string]*Host{}, scale: o.Scale, rnd: rand.New(rand.NewPCG(o.Seed, 60)), began: time.Now()}
	for i := range o.Hosts {
		r := roles[i*len(roles)/o.Hosts%len(roles)]
		h := &Host{Name: fmt.Sprintf("h%02d.test", i), role: r, site: s, seen: map[int]int{}, floor: s.of(gap), least: -1}
		s.hosts = append(s.hosts, h)
		s.byName[h.Name] = h
	}
	if err := s.listen(); err != nil {
		s.Close()
		return nil, err
	}
	s.link()
	return s, nil
}

// Close stops the servers.
func (s *Site) Close() {
	for _, server := range s.servers {
		server.Close()
	}
}

// of scales a time.
func (s *Site) of(d time.Duration) time.Duration { return time.Duration(float64(d) * s.scale) }

// wait is the Retry-After of the site in seconds.
func (s *Site) wait() int { return max(1, int((s.of(retryAfter)+time.Second-1)/time.Second)) }

// Gap is the least time between the end of an answer of any host and the next call
// to it.
func (s *Site) Gap() time.Duration { return s.of(gap) }

// Hosts returns the hosts.
func (s *Site) Hosts() []*Host { return s.hosts }

// Seeds returns the first page of each host, from which all others are linked.
func (s *Site) Seeds() []string {
	var urls []string
	for _, h := range s.hosts {
		urls = append(urls, h.url("/0"))
	}
	return urls
}

// Group returns the name of the group of hosts that name is in, and the least time
// between the starts of two calls to it; "" for a host of its own.
func (s *Site) Group(name string) (string, time.Duration) {
	if h := s.byName[name]; h != nil && h.role == twoNames {
		return "address", s.of(interval)
	}
	return "", 0
}

// link draws the links between hosts.
func (s *Site) link() {
	plain := s.hosts[0]
	for _, h := range s.hosts {
		if h.role == ordinary {
			plain = h
			break
		}
	}
	for _, h := range s.hosts {
		h.target = plain.url("/7")
		if h.role == redirectsToPrivate {
			h.target = plain.url("/private/7")
		}
		for range Pages {
			other := s.hosts[s.rnd.IntN(len(s.hosts))]
			name := other.Name
			switch s.rnd.IntN(4) { // hosts are spelled in many ways
			case 0:
				name = strings.ToUpper(name)
			case 1:
				if !strings.Contains(name, ":") {
					name += ".:80"
				}
			}
			h.links = append(h.links, fmt.Sprintf("http://%s/%d", name, s.rnd.IntN(Pages)))
		}
	}
}

// listen gives each host an address of its own on one port where that can be, else
// a port of its own on one address.
func (s *Site) listen() error {
	lns, err := s.listenOnOnePort()
	if err != nil {
		if lns, err = s.listenOnOneAddress(); err != nil {
			return err
		}
	}
	shared := -1
	for i, h := range s.hosts {
		ln := lns[i]
		switch h.role {
		case unreachable:
			h.addr = ln.Addr().String()
			ln.Close()
			continue
		case twoNames:
			if shared >= 0 {
				ln.Close()
				h.addr = s.hosts[shared].addr
				continue
			}
			shared = i
		}
		h.addr = ln.Addr().String()
		server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
		s.servers = append(s.servers, server)
		go server.Serve(ln)
	}
	s.ipv6()
	return nil
}

func (s *Site) listenOnOnePort() ([]net.Listener, error) {
	port := 0
	var lns []net.Listener
	for i := range s.hosts {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", 10+i%200, port))
		if err != nil || i >= 200 {
			for _, ln := range lns {
				ln.Close()
			}
			return nil, fmt.Errorf("site: one port: %w", err)
		}
		port = ln.Addr().(*net.TCPAddr).Port
		lns = append(lns, ln)
	}
	return lns, nil
}

func (s *Site) listenOnOneAddress() ([]net.Listener, error) {
	var lns []net.Listener
	for range s.hosts {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("site: %w", err)
		}
		lns = append(lns, ln)
	}
	return lns, nil
}

// ipv6 turns one ordinary host into one that is an IPv6 address, where there is
// IPv6.
func (s *Site) ipv6() {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return
	}
	for i := len(s.hosts) - 1; i > 0; i-- {
		if h := s.hosts[i]; h.role == ordinary {
			delete(s.byName, h.Name)
			h.Name, h.addr = "[::1]", ln.Addr().String()
			s.byName[h.Name] = h
			server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
			s.servers = append(s.servers, server)
			go server.Serve(ln)
			return
		}
	}
	ln.Close()
}
