package comity

import "time"

// Readiness says when a call could go and what keeps it.
type Readiness struct {
	At     time.Time // earliest start; zero if it depends on another call's end
	Reason Reason    // "" when ready
	Limit  string    // limit, quota or gate that decides
}
