package comity

// spread is when the next call may go at the earliest if part of the quota, its last
// units, is spaced evenly over the time to its reset. With all of it spread and a
// steady demand, nobody waits longer for the reset than for any other call.
func (q *quota) spread(now stamp, part float64) stamp {
	left := q.rest - q.flying
	if part <= 0 || !q.known || q.limit <= 0 || left <= 0 || float64(left) > part*float64(q.limit) {
		return now
	}
	last, took := q.lastGo, max(q.lastN, 1)
	if last.IsZero() {
		last = q.base // the call whose answer reported it first
	}
	reset := q.reset()
	if q.hi.IsZero() || q.nature().kind == kindRefill {
		// No end to spread over: one a spacing, which a bucket regains meanwhile.
		return last.Add(mulDuration(q.spacing(), took))
	}
	if !reset.After(now) || !reset.After(last) {
		return now
	}
	// What the last call took has its share of the time since then.
	return last.Add(saturate(float64(reset.Sub(last)) * float64(took) / float64(left+took)))
}

// left is what may still be spent of q, calls in flight taken off.
func (q *quota) left() int64 { return max(q.rest-q.flying, 0) }
