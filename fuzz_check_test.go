package comity_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comity/comity"
)

// check holds the run to what must be so at its end.
func (p *play) check(rt *comity.Transport) {
	synctest.Wait()
	time.Sleep(time.Second)
	for _, d := range rt.Destinations() {
		if d.InFlight != 0 || d.Waiting != 0 {
			p.t.Errorf("%s: %d in flight and %d waiting at the end", d.Key, d.InFlight, d.Waiting)
		}
	}
	for i := range p.gates {
		if n := p.gates[i].inside.Load(); n != 0 {
			p.t.Errorf("%d attempts entered gate %d and did not leave", n, i)
		}
	}
	for _, c := range p.calls {
		p.checkBodies(c)
	}
	p.checkSends()
	n := len(p.sends)
	time.Sleep(96 * time.Hour) // longer than any hold, quota and window
	if len(p.sends) != n {
		p.t.Errorf("%d sends after all calls had ended", len(p.sends)-n)
	}
	// Nothing is lost: the limit gives what it gave at first.
	p.steps, p.gates[1].nth = nil, 0
	c := &scriptedCall{id: len(p.calls), method: "GET", host: "a.example", end: "read"}
	began := time.Now()
	p.call(rt, c)
	if c.tries != 1 || time.Since(began) != 0 {
		p.t.Errorf("after a long rest a call was sent %d times and took %s", c.tries, time.Since(began))
	}
}

func (p *play) checkBodies(c *scriptedCall) {
	for i, b := range c.uploads {
		if b.closes.Load() == 0 {
			p.t.Errorf("body %d of the request of call %d is open", i+1, c.id)
		}
		if b.late.Load() {
			p.t.Errorf("body %d of the request of call %d was read after Close", i+1, c.id)
		}
	}
	for i, b := range c.answered {
		if b.closes.Load() == 0 && (c.end != "leave" || i < len(c.answered)-1) {
			p.t.Errorf("the body of answer %d of %d to call %d is open", i+1, len(c.answered), c.id)
		}
	}
}

// checkSends holds the sends to the limit, to the order in which calls came, and
// to what may be sent again.
func (p *play) checkSends() {
	l := p.policy.Limits[0]
	burst := max(l.Burst, 1)
	if l.Algorithm == comity.LeakyBucket {
		burst = 1
	}
	last := map[string]send{}
	before := map[*scriptedCall]send{}
	for i, s := range p.sends {
		sent := 0
		for j := i; j >= 0; j-- {
			if p.sends[j].call.host != s.call.host {
				continue
			}
			sent++
			span := s.at.Sub(p.sends[j].at)
			if most := burst + int(int64(span)*int64(l.N)/int64(l.Per)); sent > most {
				p.t.Fatalf("%d sends within %s, at most %d are allowed by %s", sent, span, most, l)
			}
		}
		if s.n == 1 {
			// Those of one instant are woken in order; which is first here is up to
			// the scheduler.
			prev, ok := last[s.call.host]
			if ok && s.call.id < prev.call.id && s.at.After(prev.at) {
				p.t.Errorf("call %d went %s before call %d", prev.call.id, s.at.Sub(prev.at), s.call.id)
			}
			if !ok || s.call.id > prev.call.id {
				last[s.call.host] = s
			}
		} else {
			p.checkAgain(s, before[s.call])
		}
		before[s.call] = s
	}
}

// checkAgain: a POST without a key is sent again only if it was not carried out.
func (p *play) checkAgain(s, before send) {
	if p.policy.Retry.Max < 0 || p.policy.MaxWait < 0 {
		p.t.Errorf("call %d was sent again although nothing is", s.call.id)
	}
	refused := before.step.err == nil && before.step.status/100 == 4
	var op *net.OpError
	unsent := errors.As(before.step.err, &op) && op.Op == "dial"
	if s.call.method == "POST" && !refused && !unsent {
		p.t.Errorf("a POST was sent again after %s", fmt.Sprint(before.step))
	}
}

// Long tapes at random reach further in a second than the fuzzer does in a minute.
func TestRandomPlays(t *testing.T) {
	plays := 500
	if os.Getenv("COMITY_LONG") == "1" {
		plays = 30_000
	}
	for seed := range plays {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		data := make(tape, r.IntN(300))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		synctest.Test(t, func(t *testing.T) { (&play{t: t, tape: data}).run() })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
