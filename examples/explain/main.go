// Command explain says what comity understands of a response: which of its
// header fields speak of limits, how each is read and why in that unit, what is
// dropped and why, and what the next call would do. It reads a response head,
// from standard input or a file:
//
//	curl -si https://api.github.com/zen | go run ./examples/explain
//
// Without input it explains an example.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/comity/comity"
)

// sample is what is explained if there is nothing else.
const sample = `HTTP/1.1 429 Too Many Requests
Date: Mon, 01 Jun 2026 12:00:00 GMT
Content-Type: application/json
X-RateLimit-Limit: 100, 100;w=60
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1780315245
X-RateLimit-Used: 100
X-RateLimit-Resource: search
X-RateLimit-Limit-Tokens: 90000
X-RateLimit-Remaining-Tokens: -1
X-RateLimit-Reset-Tokens: 1m30s
Retry-After: soon
X-Retry-In: 44.2s
`

// maxInput is how much is read: a head is never longer.
const maxInput = 1 << 20

func main() {
	asJSON := flag.Bool("json", false, "print JSON")
	name := flag.String("dialect", "auto", "read as `name` does: "+strings.Join(dialectNames(), ", "))
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: explain [-json] [-dialect name] [file]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(os.Stdout, *asJSON, *name, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "explain:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, asJSON bool, name string, args []string) error {
	d := dialectNamed(name)
	if d == nil {
		return fmt.Errorf("no dialect is named %q; there are %s", name, strings.Join(dialectNames(), ", "))
	}
	text, err := input(args)
	if err != nil {
		return err
	}
	res, err := parseHead(text)
	if err != nil {
		return err
	}
	e, err := explain(res, d, time.Now())
	if err != nil {
		return err
	}
	if !asJSON {
		return e.print(w)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(e)
}

// input reads the file or standard input, unless nobody writes to that.
func input(args []string) (string, error) {
	if len(args) > 1 {
		return "", fmt.Errorf("one file at a time, not %d", len(args))
	}
	in := os.Stdin
	if len(args) == 1 {
		f, err := os.Open(args[0])
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	} else if info, err := in.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintln(os.Stderr, "No input: this is an example. Try: curl -si URL | go run ./examples/explain")
		return sample, nil
	}
	b, err := io.ReadAll(io.LimitReader(in, maxInput))
	if err == nil && len(b) == 0 {
		return sample, nil
	}
	return string(b), err
}

var dialects = []*comity.Dialect{
	comity.Auto, comity.IETF, comity.IETFFields, comity.XRateLimit, comity.GitHub, comity.KuCoin, comity.DeltaMillis,
	comity.LegacyDiscord, comity.Strava, comity.Shopify, comity.Twitter, comity.Discogs, comity.Groq, comity.Etsy, comity.Xero,
	comity.Zendesk, comity.Riot, comity.PathOfExile, comity.Trakt, comity.Meta,
}

func dialectNames() (names []string) {
	for _, d := range dialects {
		names = append(names, d.Name)
	}
	return names
}

func dialectNamed(name string) *comity.Dialect {
	for _, d := range dialects {
		if d.Name == name {
			return d
		}
	}
	return nil
}
