// Command crawler crawls a small web of 60 loopback hosts: polite to each of them,
// whatever it asks for, and held up by none. The servers watch: it exits non-zero if
// a host was called sooner or more often than it allows, if a page was fetched that
// robots.txt disallows, or if one was lost. It needs no network and takes about 15
// seconds. With -naive the same workers wait at each host in turn, for minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/examples/crawler/site"
)

// options are the flags.
type options struct {
	workers int
	naive   bool
	site    site.Options
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.IntVar(&o.workers, "workers", 16, "how many pages are fetched at once at most")
	flag.IntVar(&o.site.Hosts, "hosts", 60, "how many hosts there are")
	flag.BoolVar(&o.naive, "naive", false, "have workers wait for hosts")
	flag.Float64Var(&o.site.Scale, "scale", 1, "multiplies all times; 10 is as slow as outside")
	flag.Uint64Var(&o.site.Seed, "seed", 1, "of the links between hosts")
	flag.Parse()
	r, err := run(ctx, o, os.Stdout)
	if err == nil {
		err = r.verdict()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crawler:", err)
		os.Exit(1)
	}
}

// result is how a crawl went.
type result struct {
	took, bound time.Duration
	violations  []string
	missing     []string
}

func (r result) verdict() error {
	if n := len(r.violations) + len(r.missing); n > 0 {
		return fmt.Errorf("%d violations, %d pages lost", len(r.violations), len(r.missing))
	}
	return nil
}

func run(ctx context.Context, o options, out io.Writer) (r result, err error) {
	s, err := site.Open(o.site)
	if err != nil {
		return r, err
	}
	defer s.Close()
	scale := o.site.Scale
	policy := polite(s.Gap(), time.Duration(scale*float64(time.Second)))
	if o.naive {
		policy.MaxWait = comity.Forever
	}
	m := newManners(policy)
	m.group = s.Group
	base := s.Transport()
	defer base.CloseIdleConnections()
	c, err := newCrawler(base, m, time.Duration(scale*float64(time.Second)/2))
	if err != nil {
		return r, err
	}

	shown := show(out, s)
	start := time.Now()
	if o.naive {
		err = newNaive(c).run(ctx, o.workers, s.Seeds())
	} else {
		f := newFrontier()
		for _, link := range s.Seeds() {
			f.add(link)
		}
		err = f.run(ctx, o.workers, func(h *host) []string { return c.fetch(ctx, h) })
	}
	r.took, r.bound = time.Since(start), s.Bound()
	shown.end()
	if err != nil {
		return r, errors.Join(err, context.Cause(ctx))
	}
	r.violations, r.missing = s.Violations(), s.Missing()
	report(out, s, c, r)
	return r, nil
}
