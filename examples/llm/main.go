// Command llm sends a batch of prompts to a fake model on a loopback port that
// allows so many requests a minute and so many tokens a minute. What an answer
// takes is known only afterwards, so each call is charged an estimate, and
// corrected when the model has said what it was. It needs no network and takes
// about 20 seconds; with -settle=false nearly twice as long, for the tokens that
// were set aside and never used.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"github.com/comity/comity"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	prompts := flag.Int("prompts", 150, "how many prompts there are")
	workers := flag.Int("workers", 16, "how many are under way at most")
	settle := flag.Bool("settle", true, "correct each estimate once the answer is there")
	flag.Parse()
	if err := run(ctx, newBatch(*prompts, *workers, *settle)); err != nil {
		fmt.Fprintln(os.Stderr, "llm:", err)
		os.Exit(1)
	}
}

// The limits of the account, which client and model both know.
var (
	requests = comity.Limit{Name: "requests", N: 1200, Per: time.Minute, Burst: 20}
	tokens   = comity.Limit{Name: "tokens", N: 240_000, Per: time.Minute, Burst: 8000, Unit: "tokens"}
)

func run(ctx context.Context, b *batch) error {
	m := newModel()
	server := httptest.NewServer(m)
	defer server.Close()
	client, err := newClient(http.DefaultTransport)
	if err != nil {
		return err
	}
	b.client, b.url = client, server.URL

	done := make(chan result, 1)
	start := time.Now()
	go func() { done <- b.run(ctx) }()
	live := terminal(os.Stdout)
	for tick := time.Tick(time.Second / 2); ; {
		select {
		case <-tick:
			if live {
				fmt.Printf("\r%s\x1b[K", b.progress(time.Now()))
			}
			continue
		case r := <-done:
			if live {
				fmt.Print("\r\x1b[K")
			}
			return report(b, r, m, time.Since(start))
		}
	}
}

// newClient returns a client that keeps to the limits of the account, however
// long a call has to wait for its turn.
func newClient(base http.RoundTripper) (*http.Client, error) {
	t, err := comity.New(base, comity.Config{Policies: map[string]comity.Policy{
		"": {Limits: []comity.Limit{requests, tokens}, MaxWait: comity.Forever},
	}})
	return &http.Client{Transport: t}, err
}

func report(b *batch, r result, m *model, took time.Duration) error {
	fmt.Printf("prompts      %d, %d failed\n", b.prompts, r.failed)
	fmt.Printf("estimated    %d tokens\n", r.estimated)
	fmt.Printf("used         %d tokens, %.0f %% of what the account allows in this time\n", r.used, 100*share(r.used, took))
	fmt.Printf("refused      %d calls\n", m.refused())
	fmt.Printf("took         %s\n", took.Round(time.Second/10))
	if r.failed > 0 {
		return errors.New("not all prompts were answered")
	}
	return nil
}

// share returns what part of the tokens that can be had in the given time used
// is: those of the bucket and those that come in.
func share(used int, took time.Duration) float64 {
	return float64(used) / (float64(tokens.Burst) + float64(tokens.N)*float64(took)/float64(tokens.Per))
}

// terminal reports whether f shows a line that is written over.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
