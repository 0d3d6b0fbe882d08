package main

import (
	"errors"
	"sync"

	"github.com/sony/gobreaker/v2"

	"github.com/comity/comity"
)

// Breaker is a [comity.Guard]: a circuit breaker of sony/gobreaker for each
// destination. Its fields are gobreaker's; Name and IsExcluded are set here.
type Breaker gobreaker.Settings

// NewGate makes Breaker a Guard.
func (b Breaker) NewGate(dest string) comity.Gate {
	b.Name, b.IsExcluded = dest, func(err error) bool { return err == errNoVerdict }
	return &gate{cb: gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings(b))}
}

type gate struct {
	cb   *gobreaker.TwoStepCircuitBreaker[any]
	done sync.Map // by *comity.Attempt: what Allow returned for it
}

func (g *gate) Enter(a *comity.Attempt) error {
	done, err := g.cb.Allow()
	if err == nil {
		g.done.Store(a, done)
	}
	return err
}

func (g *gate) Leave(a *comity.Attempt) {
	done, _ := g.done.LoadAndDelete(a)
	done.(func(error))(outcome[a.Verdict])
}

func (g *gate) String() string { return "breaker " + g.cb.State().String() }

// outcome is what each end says about the destination. Of a call that its caller
// gave up, or that met a limit of this client, nothing.
var outcome = [...]error{
	comity.Unsent: errNoVerdict, comity.Canceled: errNoVerdict, comity.Limited: errNoVerdict,
	comity.Overloaded: errFailed, comity.Broken: errFailed, comity.Accepted: nil,
}

var errNoVerdict, errFailed = errors.New("no verdict"), errors.New("failed")
