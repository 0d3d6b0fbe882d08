package comity

import "time"

// Trace is a set of hooks, each of which may be nil. They run on the path of
// the call, outside every lock: keep them short.
type Trace struct {
	Waiting func(a *Attempt, d time.Duration, why Reason) // a begins to be held back, for about d; -1 if that depends on another call's end
	Refused func(a *Attempt, err *ThrottledError)         // a is not sent
	Sent    func(a *Attempt)                              // a goes to the base transport
	Done    func(a *Attempt)                              // headers or an error came back
	Retry   func(a *Attempt, d time.Duration)             // a is tried again after d
	Held    func(h Hold)                                  // all calls to a destination stop
	Ready   func(dest string)                             // a hold ended early or a place became free
}

// Hold is a stop of all calls to a destination.
type Hold struct {
	Destination string
	Until       time.Time
	Told        time.Duration // what was asked for, before any cap; -1 if nothing was
	Attempt     *Attempt      // the attempt whose answer caused it; nil for [Transport.Hold]
}
