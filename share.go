package comity

import "time"

// sharing is how a client divides a quota with others on the same key, whom it
// cannot see: with r units left it sends (r + 1/2)·a calls a second. All see the
// same r, so they need not know how many they are; a grows by a fixed amount and
// is cut by a part, as in additive increase, multiplicative decrease (Chiu and
// Jain, 1989), so that their parts become equal. It is a plain state machine.
type sharing struct {
	on       bool
	a        float64 // calls a second for each unit left, as of at
	at       stamp   // when a was brought up to date
	evidence stamp   // the last sign of others
	cut      stamp   // the last cut

	gone  int64 // units that others took, in this period
	tried int64 // calls that there was budget for, in this period
	met   int64 // and that were refused
	since stamp
}

const (
	shareStart   = 0.1    // a at first, of the quota's rate
	shareGrowth  = 1.1e-4 // a grows by as much a second, times the square of the rate
	shareFast    = 8      // times that while little is used
	shareCut     = 0.7
	shareEnd     = 60 * time.Second
	shareWindows = 6
	shareUnits   = 2    // units gone that are no evidence yet,
	sharePart    = 0.02 // nor is this part of the limit
	shareMet     = 3    // refusals despite budget that are no evidence yet,
	shareMetPart = 0.15 // nor is this part of the calls
)

// period begins the counts anew once a period is over.
func (s *sharing) period(now stamp, window time.Duration) {
	if now.Sub(s.since) > max(2*window, 5*time.Second) {
		s.gone, s.tried, s.met, s.since = 0, 0, 0, now
	}
}

// took notes units that somebody else took. limit is -1 if not known.
func (s *sharing) took(now stamp, n, limit int64, rate float64) {
	if n <= 0 {
		return
	}
	s.gone += n
	if s.gone > shareUnits && float64(s.gone) > sharePart*float64(limit) {
		s.see(now, rate)
	}
}

// ended notes how a call went that there was budget for.
func (s *sharing) ended(now stamp, refused bool, rate float64) {
	s.tried++
	if !refused {
		return
	}
	s.met++
	if s.met > shareMet && float64(s.met) > shareMetPart*float64(s.tried) {
		s.see(now, rate)
	}
}

// see notes evidence of others.
func (s *sharing) see(now stamp, rate float64) {
	s.evidence = now
	if !s.on && rate > 0 {
		s.on, s.a, s.at = true, shareStart*rate, now
	}
}

// crowded reports whether there was evidence of others lately.
func (s *sharing) crowded(now stamp) bool {
	return !s.evidence.IsZero() && now.Sub(s.evidence) < shareEnd
}

// grow brings a up to date. top is whether hardly anything is used.
func (s *sharing) grow(now stamp, rate float64, top bool) {
	dt := max(now.Sub(s.at), 0).Seconds()
	s.at = now
	g := shareGrowth * rate * rate
	if top {
		g *= shareFast
	}
	s.a = min(s.a+g*dt, rate)
}

// reduce cuts a after a refusal, or at the end of a window that others used up;
// once for all that was sent before it was known.
func (s *sharing) reduce(now, sent stamp) {
	if !s.on || !sent.After(s.cut) {
		return
	}
	s.a *= shareCut
	s.cut = now
}

// spacing is the time between two calls with r units left.
func (s *sharing) spacing(r int64) time.Duration {
	return saturate(float64(time.Second) / ((float64(max(r, 0)) + 0.5) * max(s.a, 1e-6)))
}

// over ends the state once there has been no evidence for long.
func (s *sharing) over(now stamp, window time.Duration) {
	if s.on && now.Sub(s.evidence) > max(shareEnd, min(mulDuration(window, shareWindows), maxHold)) {
		*s = sharing{}
	}
}
