package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/comity/comity/examples/crawler/site"
)

// shown is the live progress of a crawl: a bar on a terminal, else a line now and
// then.
type shown struct {
	out        io.Writer
	s          *site.Site
	start      time.Time
	stop, over chan struct{}
}

func show(out io.Writer, s *site.Site) *shown {
	p := &shown{out: out, s: s, start: time.Now(), stop: make(chan struct{}), over: make(chan struct{})}
	go p.run()
	return p
}

// end draws a last time and waits until nothing more is drawn.
func (p *shown) end() {
	close(p.stop)
	<-p.over
}

func (p *shown) run() {
	defer close(p.over)
	draw, every := p.line, 5*time.Second
	if f, ok := p.out.(*os.File); ok && terminal(f) {
		draw, every = p.bar, 100*time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			draw()
		case <-p.stop:
			draw()
			fmt.Fprintln(p.out)
			return
		}
	}
}

func (p *shown) line() {
	done, all := p.s.Done()
	fmt.Fprintf(p.out, "%5.1f s: %d of %d pages\n", time.Since(p.start).Seconds(), done, all)
}

func (p *shown) bar() {
	const width = 40
	done, all := p.s.Done()
	full := done * width / max(all, 1)
	fmt.Fprintf(p.out, "\r\x1b[2K%s%s %4d of %d pages %5.1f s", strings.Repeat("█", full), strings.Repeat("·", width-full),
		done, all, time.Since(p.start).Seconds())
}

func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// report writes what the servers saw of each host, and what became of the crawl.
func report(out io.Writer, s *site.Site, c *crawler, r result) {
	fmt.Fprintf(out, "%-10s %5s %5s %8s %8s %4s %7s %8s  %s\n", "host", "pages", "calls", "gap", "least", "open", "refused", "silence", "")
	for _, h := range s.Hosts() {
		v := h.Report()
		gap := "-"
		if v.Gap >= 0 {
			gap = milli(v.Gap)
		}
		fmt.Fprintf(out, "%-10s %5d %5d %8s %8s %4d %7d %8s  %s\n", v.Name, v.Pages, v.Calls, gap, milli(v.Floor), v.Most, v.Refusals,
			milli(v.Silence), v.Role)
	}
	for _, why := range c.lost {
		fmt.Fprintln(out, "given up:", why)
	}
	for _, v := range r.violations {
		fmt.Fprintln(out, "violation:", v)
	}
	for _, url := range r.missing {
		fmt.Fprintln(out, "lost:", url)
	}
	done, _ := s.Done()
	fmt.Fprintf(out, "%d pages in %.1f s; best possible %.1f s (%.2f times); %d violations, %d pages lost\n",
		done, r.took.Seconds(), r.bound.Seconds(), r.took.Seconds()/r.bound.Seconds(), len(r.violations), len(r.missing))
}

func milli(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
