package comity

import "time"

// settleByHeaders corrects what k was charged by what the Settle of each limit
// reads in the answer to a. It runs user code, so the pacer is locked only to book
// what came of it.
func (p *pacer) settleByHeaders(k *turn, a *Attempt, now time.Time) {
	own, ok := readSettle(k.charges, a)
	common, okCommon := readSettle(k.globals, a)
	if !ok && !okCommon {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if okCommon {
		k.pol.shared.mu.Lock()
		correct(k.globals, common, now)
		k.pol.shared.mu.Unlock()
	}
	if ok && correct(k.charges, own, now) {
		p.freed(now)
	}
}

// unsettled is what a limit without a Settle of its own says.
const unsettled = -1

// readSettle asks the Settle of each limit what was spent of it.
func readSettle(cs []charge, a *Attempt) (actual []int, any bool) {
	for i := range cs {
		settle := cs[i].rule.Settle
		if settle == nil {
			continue
		}
		if actual == nil {
			actual = make([]int, len(cs))
			for j := range actual {
				actual[j] = unsettled
			}
		}
		actual[i] = max(settle(a), 0)
	}
	return actual, actual != nil
}

// correct books what was spent in the end, by charge. It reports whether units came
// free.
func correct(cs []charge, actual []int, now time.Time) (freed bool) {
	for i := range cs {
		c, n := &cs[i], actual[i]
		if n == unsettled || c.b == nil || n == c.n || c.rule.Shadow && !c.took {
			continue
		}
		freed = freed || n < c.n
		c.b.lim.Adjust(now, n-c.n)
		c.n = n
	}
	return freed
}
