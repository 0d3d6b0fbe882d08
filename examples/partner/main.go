// Command partner calls two fake partners under the limits that they publish and
// shows how each answer and each refusal looks to the caller. It needs no network
// and takes about 15 seconds. What a service copies from it is in client.go.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "partner:", err)
		os.Exit(1)
	}
}

// partners is a network of two hosts.
type partners struct{ pay, ship *comitytest.API }

// newPartners returns two that enforce what they publish; the bursts are for the
// network, which does not keep calls apart as they were sent.
func newPartners() partners {
	theirs := refunds
	theirs.Burst = 2
	return partners{
		pay:  &comitytest.API{Latency: latency, Limits: []comity.Limit{{N: 100, Per: time.Second, Burst: 10}, theirs}},
		ship: &comitytest.API{Latency: func() time.Duration { return 10 * latency() }, Limits: []comity.Limit{labels}},
	}
}

func (p partners) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "ship.example" {
		return p.ship.RoundTrip(r)
	}
	return p.pay.RoundTrip(r)
}

// stage is where the scenes play.
type stage struct {
	ctx    context.Context
	out    io.Writer
	client *http.Client
	rt     *comity.Transport
	net    partners
}

func run(ctx context.Context, out io.Writer) error {
	net := newPartners()
	rt, err := newTransport(net)
	if err != nil {
		return err
	}
	s := &stage{ctx, out, &http.Client{Transport: rt}, rt, net}
	for _, scene := range scenes {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(out, "\n%s\n", scene.title)
		scene.play(s)
	}
	return nil
}

func latency() time.Duration { return 20 * time.Millisecond }

// scenes are shown in this order: the last ones leave a partner held.
var scenes = []struct {
	title string
	play  func(*stage)
}{
	{"40 refunds of one merchant at once, 10 a second allowed: those that would wait more than 2 s fail at once.", (*stage).refunds},
	{"Meanwhile another merchant, and another endpoint, do not wait.", (*stage).others},
	{"A caller with too little time fails at once, and has spent nothing.", (*stage).hurried},
	{"A caller that gives up gets what it gave up with.", (*stage).givesUp},
	{"12 labels at once: two are under way, four wait, the others are too many.", (*stage).queue},
	{"The partner answers 429 with Retry-After: 1. The call waits and goes again, a POST too: it was not carried out.", (*stage).told},
	{"The partner answers 503. A POST may have been carried out: it is the caller's to decide.", (*stage).unavailable},
	{"With an Idempotency-Key it is sent again.", (*stage).idempotent},
	{"The connection is lost after the partner has read a POST. The error is that of the network.", (*stage).lost},
	{"The partner closes for an hour. The answer is handed over; whoever calls next is told for how long.", (*stage).closed},
}
