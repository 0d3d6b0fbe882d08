package comity

import (
	"context"
	"log/slog"
	"time"
)

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

// Tee returns a Trace that calls the hooks of each of traces in order. Nil traces
// are left out.
func Tee(traces ...*Trace) *Trace {
	all := make([]*Trace, 0, len(traces))
	for _, t := range traces {
		if t != nil {
			all = append(all, t)
		}
	}
	// A hook that none has stays nil, so that it costs nothing.
	out := &Trace{}
	for _, t := range all {
		if t.Waiting != nil {
			out.Waiting = func(a *Attempt, d time.Duration, why Reason) {
				each(all, func(t *Trace) bool { return t.Waiting != nil }, func(t *Trace) { t.Waiting(a, d, why) })
			}
		}
		if t.Refused != nil {
			out.Refused = func(a *Attempt, err *ThrottledError) {
				each(all, func(t *Trace) bool { return t.Refused != nil }, func(t *Trace) { t.Refused(a, err) })
			}
		}
		if t.Sent != nil {
			out.Sent = func(a *Attempt) {
				each(all, func(t *Trace) bool { return t.Sent != nil }, func(t *Trace) { t.Sent(a) })
			}
		}
		if t.Done != nil {
			out.Done = func(a *Attempt) {
				each(all, func(t *Trace) bool { return t.Done != nil }, func(t *Trace) { t.Done(a) })
			}
		}
		if t.Retry != nil {
			out.Retry = func(a *Attempt, d time.Duration) {
				each(all, func(t *Trace) bool { return t.Retry != nil }, func(t *Trace) { t.Retry(a, d) })
			}
		}
		if t.Held != nil {
			out.Held = func(h Hold) {
				each(all, func(t *Trace) bool { return t.Held != nil }, func(t *Trace) { t.Held(h) })
			}
		}
		if t.Ready != nil {
			out.Ready = func(dest string) {
				each(all, func(t *Trace) bool { return t.Ready != nil }, func(t *Trace) { t.Ready(dest) })
			}
		}
	}
	return out
}

// each calls f for those of traces that have its hook.
func each(traces []*Trace, has func(*Trace) bool, f func(*Trace)) {
	for _, t := range traces {
		if has(t) {
			f(t)
		}
	}
}

// LogTrace returns a Trace that writes to l: refusals and holds as warnings,
// retries as information, the rest for debugging. Of a request it writes the
// method and the destination, never its URL, a header or a body.
func LogTrace(l *slog.Logger) *Trace {
	log := func(a *Attempt, level slog.Level, msg string, attrs ...slog.Attr) {
		ctx := a.Request.Context()
		if !l.Enabled(ctx, level) {
			return
		}
		l.LogAttrs(ctx, level, msg, append([]slog.Attr{
			slog.String("destination", a.Destination),
			slog.String("method", a.Request.Method),
			slog.Int("try", a.N),
		}, attrs...)...)
	}
	return &Trace{
		Waiting: func(a *Attempt, d time.Duration, why Reason) {
			log(a, slog.LevelDebug, "call held back", slog.String("reason", string(why)), slog.Duration("wait", d))
		},
		Refused: func(a *Attempt, err *ThrottledError) {
			log(a, slog.LevelWarn, "call refused", slog.String("reason", string(err.Reason)),
				slog.Duration("waited", a.Waited), slog.Duration("retry_after", err.RetryAfter), slog.String("error", err.Error()))
		},
		Sent: func(a *Attempt) {
			log(a, slog.LevelDebug, "call sent", slog.Duration("waited", a.Waited))
		},
		Done: func(a *Attempt) {
			log(a, slog.LevelDebug, "call answered", append(outcome(a), slog.Duration("latency", a.Latency))...)
		},
		Retry: func(a *Attempt, d time.Duration) {
			log(a, slog.LevelInfo, "call tried again", append(outcome(a), slog.Duration("wait", d))...)
		},
		Held: func(h Hold) {
			ctx := context.Background()
			if h.Attempt != nil {
				ctx = h.Attempt.Request.Context()
			}
			l.LogAttrs(ctx, slog.LevelWarn, "destination held", slog.String("destination", h.Destination),
				slog.Time("until", h.Until), slog.Duration("told", h.Told))
		},
		Ready: func(dest string) {
			l.LogAttrs(context.Background(), slog.LevelDebug, "destination ready", slog.String("destination", dest))
		},
	}
}

// outcome says how a ended: by its status, or by its error, which may hold
// addresses but no URL.
func outcome(a *Attempt) []slog.Attr {
	v := slog.String("verdict", a.Verdict.String())
	if a.Response != nil {
		return []slog.Attr{v, slog.Int("status", a.Response.StatusCode)}
	}
	return []slog.Attr{v, slog.Any("error", a.Err)}
}
