package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// shown is the live progress of jobs: bars that are redrawn on a terminal, and
// else a line for each job now and then.
type shown struct {
	out  *os.File
	jobs []*job
	stop chan struct{}
	over chan struct{}
}

func show(out *os.File, jobs []*job) *shown {
	s := &shown{out: out, jobs: jobs, stop: make(chan struct{}), over: make(chan struct{})}
	go s.run()
	return s
}

// end draws a last time and waits until nothing more is drawn.
func (s *shown) end() {
	close(s.stop)
	<-s.over
}

func (s *shown) run() {
	defer close(s.over)
	draw, every := s.line, 5*time.Second
	if terminal(s.out) {
		draw, every = s.bars(), 100*time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			draw()
		case <-s.stop:
			draw()
			fmt.Fprintln(s.out)
			return
		}
	}
}

func (s *shown) line() {
	var b strings.Builder
	for i, j := range s.jobs {
		t := j.tally()
		if i == 0 {
			fmt.Fprintf(&b, "%4.0f s", s.elapsed().Seconds())
		}
		fmt.Fprintf(&b, " | %s: %d done, %d failed", j.name, t.done, t.failed)
	}
	fmt.Fprintln(s.out, b.String())
}

func (s *shown) elapsed() time.Duration {
	var longest time.Duration
	for _, j := range s.jobs {
		longest = max(longest, j.tally().took)
	}
	return longest
}

// bars returns a func that draws a bar for each job over the bars before.
func (s *shown) bars() func() {
	const width = 40
	up := ""
	return func() {
		var b strings.Builder
		b.WriteString(up)
		for _, j := range s.jobs {
			t := j.tally()
			done, failed := t.done*width/calls, t.failed*width/calls
			fmt.Fprintf(&b, "\x1b[2K%-18s %s%s%s %3d done %3d failed %5.1f s\n", j.name,
				strings.Repeat("█", done), strings.Repeat("x", failed), strings.Repeat("·", max(0, width-done-failed)),
				t.done, t.failed, t.took.Seconds())
		}
		io.WriteString(s.out, b.String())
		up = fmt.Sprintf("\x1b[%dA", len(s.jobs))
	}
}

func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// table writes how the jobs ended.
func table(out io.Writer, s server, jobs []*job) {
	fmt.Fprintf(out, "%-18s %10s %13s %8s %8s %11s\n", "", "calls done", "refused (429)", "failed", "time", "quota used")
	for _, j := range jobs {
		t := j.tally()
		fmt.Fprintf(out, "%-18s %10d %13d %8d %6.1f s %9.0f %%\n", j.name, t.done, t.refused, t.failed, t.took.Seconds(), 100*used(s, t))
	}
	fmt.Fprint(out, `
Quota used: calls done, of those that the partner would have served until the job
was over, or could have been.
`)
}

// used is the part of the partner's quota that a job turned into answers. A job
// that gave calls up is measured over the time that all of them need.
func used(s server, t tally) float64 {
	d := t.took
	if t.failed > 0 {
		d = max(d, s.ideal(calls))
	}
	return float64(t.done) / s.offered(t.start, d)
}
