package comity

import "time"

// Destination is a snapshot of what a Transport knows of one destination.
type Destination struct {
	Key         string // its name; "name#part" for a part of a split one
	Pattern     string // pattern of its policy
	InFlight    int
	Waiting     int
	HeldUntil   time.Time
	Limits      []LimitState
	Quotas      []Quota  // as last reported, less what was sent since, Reset counted from the snapshot
	Requests    float64  // attempted within Adaptive.Window
	Accepts     float64  // accepted within it
	RejectRate  float64  // probability that the next call is refused
	RetryTokens float64  // retries the budget allows now
	Gates       []string // how each gate prints itself
	LastUsed    time.Time
}

// LimitState is a snapshot of one limit.
type LimitState struct {
	Name      string
	Key       string
	Available float64   // units free now
	Margin    float64   // learned widening of the spacing; 0 is none
	Next      time.Time // when the next unit is free
}
