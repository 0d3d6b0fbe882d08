package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// shown is the live progress: drawn over and over on a terminal, and else a line
// every ten seconds.
type shown struct {
	out   io.Writer
	term  bool
	runs  []*fleetRun
	start time.Time
	stop  chan struct{}
	over  chan struct{}
}

func show(out io.Writer, runs []*fleetRun) *shown {
	return &shown{out: out, runs: runs, stop: make(chan struct{}), over: make(chan struct{}), term: terminal(out)}
}

func terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (s *shown) begin(start time.Time) {
	s.start = start
	every := 10 * time.Second
	if s.term {
		every = time.Second
	}
	go func() {
		defer close(s.over)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
				s.draw(n > 0)
			case <-s.stop:
				return
			}
		}
	}()
}

// end stops drawing and waits until nothing more is drawn.
func (s *shown) end() {
	close(s.stop)
	<-s.over
}

func (s *shown) draw(again bool) {
	at := time.Since(s.start).Truncate(time.Second)
	act := "healthy"
	switch {
	case at > recoverAt:
		act = "recovery"
	case at > overloadAt:
		act = "overload"
	}
	var b strings.Builder
	if again && s.term {
		fmt.Fprintf(&b, "\x1b[%dA", len(s.runs)+1)
	}
	fmt.Fprintf(&b, "\x1b[2K"[:s.escape()]+"%2.0f s, %s: users ask for %.0f %% of the capacity\n", at.Seconds(), act, 100*load(at-1))
	for _, r := range s.runs {
		last := r.sum(max(at-time.Second, 0), min(at, theEnd))
		done := int(float64(last.ok) / capacity * 30)
		fmt.Fprintf(&b, "\x1b[2K"[:s.escape()]+"  %-24s served %4d/s %-32s on the wire %5d/s\n", r.name, last.ok, strings.Repeat("█", min(done, 32)), last.wire)
	}
	io.WriteString(s.out, b.String())
}

// escape is the length of the sequence that clears a line, where there is a terminal.
func (s *shown) escape() int {
	if s.term {
		return len("\x1b[2K")
	}
	return 0
}

// table writes what became of each fleet.
func table(out io.Writer, runs []*fleetRun) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\n\tgoodput\ton the wire\tp99\tsuccess in the\t")
	for _, m := range mix {
		fmt.Fprintf(w, "%v\t", m.class)
	}
	fmt.Fprint(w, "\n\tof capacity\tof capacity\t\t10 s after\t")
	for range mix {
		fmt.Fprint(w, "served\t")
	}
	fmt.Fprintln(w)
	for _, r := range runs {
		during, after := r.sum(overloadAt, recoverAt), r.sum(recoverAt, recoverAt+10*time.Second)
		all := capacity * (recoverAt - overloadAt).Seconds()
		fmt.Fprintf(w, "%s\t%.0f %%\t%.0f %%\t%v\t%.0f %%\t", r.name, 100*float64(during.ok)/all, 100*float64(during.wire)/all,
			r.p99().Round(10*time.Millisecond), 100*min(1, float64(after.ok)/float64(max(after.asked, 1))))
		for _, m := range mix {
			s := r.classes[m.class]
			fmt.Fprintf(w, "%.0f %%\t", 100*float64(s.ok)/float64(max(s.asked, 1)))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	fmt.Fprintf(out, `
Goodput, wire, p99 and classes are those of the overload, in which users ask for
%.0f %% of what the backend can do. It sees no classes: who is shed is decided by
the instances, each for itself.
`, 100*loadDuring)
}
