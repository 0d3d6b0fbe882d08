package egress

import (
	"fmt"
	"sync"
	"time"

	"github.com/comity/comity"
)

// Bulkhead is a [comity.Guard]: one cap on calls in flight, shared by every
// destination whose policy lists it.
//
// Use one for each group of calls that must not starve another: what one of them
// fills up, the others do not miss. It must not be changed, or copied, once it is
// in use. One without Max, or with a wrong share, refuses every call and says why.
type Bulkhead struct {
	Max    int           // places; required
	Wait   time.Duration // longest a call waits for a place, the most critical first; zero refuses at once
	Shares Shares
	Shadow bool // count refusals, refuse nothing

	once sync.Once
	pool pool
}

// NewGate makes Bulkhead a Guard.
func (b *Bulkhead) NewGate(dest string) comity.Gate {
	if b.Max <= 0 {
		return broken{"bulkhead", fmt.Errorf("egress: Bulkhead: Max: %d is not above 0", b.Max)}
	}
	if err := b.Shares.check(); err != nil {
		return broken{"bulkhead", fmt.Errorf("egress: Bulkhead: %w", err)}
	}
	b.once.Do(func() {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		b.pool.resize(b.Shares.caps(b.Max))
	})
	return bulkheadGate{b}
}

// bulkheadGate is the way of one destination into a Bulkhead.
type bulkheadGate struct{ b *Bulkhead }

// Enter implements [comity.Gate].
func (g bulkheadGate) Enter(a *comity.Attempt) error {
	return g.b.pool.enter(a.Request.Context(), rank(a.Call.Criticality), g.b.Wait, g.b.Shadow)
}

// Leave implements [comity.Gate].
func (g bulkheadGate) Leave(*comity.Attempt) { g.b.pool.leave() }

// String is the gate's name in errors and on pages.
func (g bulkheadGate) String() string {
	if g.b.Shadow {
		g.b.pool.mu.Lock()
		defer g.b.pool.mu.Unlock()
		return fmt.Sprintf("bulkhead %d (shadow, %d refused)", g.b.Max, g.b.pool.refused)
	}
	return fmt.Sprintf("bulkhead %d", g.b.Max)
}
