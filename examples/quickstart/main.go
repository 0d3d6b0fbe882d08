// Command quickstart does the same job with three clients at once, each against
// a fake partner of its own on a loopback port: 200 calls where the partner
// allows 20 in any 2 seconds. It needs no network, takes about 20 seconds and
// exits non-zero if a call through comity failed. Flags choose how the partner
// counts and what its headers say.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"

	"golang.org/x/time/rate"

	"github.com/comity/comity"
)

const (
	calls   = 200
	workers = 8
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	serverName := flag.String("server", "sliding-log", "how the partner counts: "+choices(servers))
	headersName := flag.String("headers", "ietf", "how it reports: "+choices(headers))
	flag.Parse()
	if err := run(ctx, *serverName, *headersName); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// wrappers are the three ways to call the partner, by what goes round the
// transport that sends.
var wrappers = []struct {
	name string
	wrap func(http.RoundTripper) http.RoundTripper
}{
	{"http.Client alone", func(base http.RoundTripper) http.RoundTripper { return base }},
	{"with x/time/rate", func(base http.RoundTripper) http.RoundTripper {
		return limited{base, rate.NewLimiter(rate.Limit(allowed)/rate.Limit(window.Seconds()), allowed)}
	}},
	{"with comity", func(base http.RoundTripper) http.RoundTripper {
		// The zero Config: nobody told this client what the partner allows.
		t, err := comity.New(base, comity.Config{})
		if err != nil {
			panic(err) // the zero Config is valid
		}
		return t
	}},
}

// limited is what one writes by hand with golang.org/x/time/rate, by someone
// who knows the limit and takes its whole burst.
type limited struct {
	base http.RoundTripper
	l    *rate.Limiter
}

func (c limited) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := c.l.Wait(req.Context()); err != nil {
		return nil, err
	}
	return c.base.RoundTrip(req)
}

func run(ctx context.Context, serverName, headersName string) error {
	s, ok := servers[serverName]
	if !ok {
		return fmt.Errorf("no server %q: want one of %s", serverName, choices(servers))
	}
	reports, ok := headers[headersName]
	if !ok {
		return fmt.Errorf("no headers %q: want one of %s", headersName, choices(headers))
	}

	jobs := make([]*job, len(wrappers))
	for i, w := range wrappers {
		p, err := openPartner(s, reports)
		if err != nil {
			return err
		}
		defer p.Close()
		jobs[i] = newJob(w.name, p.url, w.wrap)
	}
	fmt.Printf("%d calls by %d workers; the partner allows %s; best possible: %.0f s.\n\n",
		calls, workers, s.rule, s.ideal(calls).Seconds())

	shown := show(os.Stdout, jobs)
	for _, j := range jobs {
		go j.run(ctx)
	}
	for _, j := range jobs {
		<-j.over
	}
	shown.end()

	if err := ctx.Err(); err != nil {
		return err
	}
	table(os.Stdout, s, jobs)
	if ours := jobs[len(jobs)-1].tally(); ours.done < calls {
		return errors.New("a call through comity failed: " + ours.first)
	}
	return nil
}
