package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/comity/comity"
)

// An explanation is what comity makes of one response.
type explanation struct {
	Status     int       `json:"status"`
	Verdict    string    `json:"verdict"`
	Clock      string    `json:"clock"`
	Fields     []reading `json:"fields"`
	RetryAfter string    `json:"retry_after,omitempty"`
	Retry      string    `json:"retry,omitempty"`
	Quotas     []quota   `json:"quotas"`
	Next       next      `json:"next"`

	line string
}

// A reading is what one field says.
type reading struct {
	Field   string   `json:"field"`
	Values  []string `json:"values"`
	Means   string   `json:"means,omitempty"`
	Why     string   `json:"why,omitempty"`
	Dropped string   `json:"dropped,omitempty"`
}

// A quota is a limit that the server reported; -1 and "" are not given.
type quota struct {
	Name      string `json:"name"`
	Unit      string `json:"unit"`
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
	Window    string `json:"window,omitempty"`
	Reset     string `json:"reset,omitempty"`
}

// explain reads res as if it had just arrived. What it says of instants is
// measured against its own Date, so that one that was saved last week is read as
// on the day.
func explain(res *response, d *comity.Dialect, now time.Time) (*explanation, error) {
	e := &explanation{
		Status: res.status, line: strings.TrimSpace(fmt.Sprint(res.proto, " ", res.status, " ", res.reason)),
		Fields: []reading{}, Quotas: []quota{},
	}
	e.Clock = "this machine's, as there is no Date"
	if date, err := http.ParseTime(res.header.Get("Date")); err == nil {
		now, e.Clock = date, "Date, "+date.UTC().Format("2006-01-02 15:04:05")+" UTC"
	}
	x := &reader{d: d, res: res, now: now}
	x.all = x.read(res.names...)
	for _, name := range res.names {
		if r, ok := x.field(name); ok {
			e.Fields = append(e.Fields, r)
		}
	}
	if x.all.RetryAfter >= 0 {
		e.RetryAfter = x.all.RetryAfter.String()
	}
	if x.all.Retry != 0 {
		e.Retry = map[int]string{1: "yes", -1: "no"}[x.all.Retry]
	}
	for _, q := range x.all.Quotas {
		e.Quotas = append(e.Quotas, quota{q.Name, q.Unit, q.Limit, q.Remaining, known(q.Window), known(q.Reset)})
	}
	var err error
	e.Verdict, e.Next, err = try(res, d, now)
	return e, err
}

func known(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return d.String()
}

// A reader finds out what each field says by reading the response with it,
// without it and by it alone: it knows nothing of how comity reads.
type reader struct {
	d   *comity.Dialect
	res *response
	now time.Time
	all comity.Advice
}

// read reads the fields with these names only.
func (x *reader) read(names ...string) comity.Advice {
	h := http.Header{}
	for _, name := range names {
		h[name] = x.res.header[name]
	}
	for _, name := range []string{"Date", "Age", "Via"} { // what others depend on
		if v := x.res.header[name]; v != nil {
			h[name] = v
		}
	}
	return x.d.Parse(h, x.now)
}

// field reports what the field says; ok is false if it is not about limits.
func (x *reader) field(name string) (r reading, ok bool) {
	r = reading{Field: name, Values: x.res.header[name]}
	alone := x.read(name)
	without := x.read(slices.DeleteFunc(slices.Clone(x.res.names), func(n string) bool { return n == name })...)
	switch {
	case alone.RetryAfter >= 0 || alone.Retry != 0:
		x.directive(&r, alone, without)
	case len(alone.Quotas) > 0:
		x.quotas(&r, name, alone)
	case !sameQuotas(x.all, without):
		x.effect(&r, without)
	}
	if slices.Contains(x.all.Malformed, name) || slices.Contains(alone.Malformed, name) {
		r.Dropped = whyDropped(r.Values, r.Means != "")
	}
	if r.Means == "" && r.Dropped == "" {
		switch {
		case looksLikeLimit(name):
			r.Means, r.Why = "nothing", "no field that is read, or others say the same"
		case name == "Date" && usesDate(x):
			r.Means, r.Why = "the clock of the server", "resets and delays that are instants count from it"
		case name == "Age" && x.stored():
			r.Means, r.Why = "a stored answer", "its quotas are old, and its delays have run for that long"
		default:
			return r, false
		}
	}
	return r, true
}

// directive explains a delay, or whether to try again.
func (x *reader) directive(r *reading, alone, without comity.Advice) {
	if alone.Retry != 0 {
		r.Means = map[int]string{1: "trying again is welcome", -1: "do not try again"}[alone.Retry]
		r.Why = "the server says so"
		return
	}
	if without.RetryAfter != x.all.RetryAfter || alone.RetryAfter == x.all.RetryAfter {
		r.Means = fmt.Sprintf("wait %s", x.all.RetryAfter)
		r.Why = x.whyTime(r, x.all.RetryAfter)
		return
	}
	r.Means = fmt.Sprintf("wait %s", alone.RetryAfter)
	r.Why = fmt.Sprintf("not used: a field that comes first says %s", x.all.RetryAfter)
}

// quotas explains what the field says of quotas by itself.
func (x *reader) quotas(r *reading, name string, alone comity.Advice) {
	var said []string
	for _, q := range alone.Quotas {
		var parts []string
		if q.Limit >= 0 {
			parts = append(parts, fmt.Sprintf("limit %d %s", q.Limit, q.Unit))
		}
		if q.Remaining >= 0 {
			parts = append(parts, fmt.Sprintf("%d %s left", q.Remaining, q.Unit))
		}
		if q.Window > 0 {
			parts = append(parts, "window "+q.Window.String())
		}
		if q.Reset >= 0 {
			parts = append(parts, "reset in "+q.Reset.String())
			r.Why = x.whyTime(r, q.Reset)
		}
		said = append(said, of(q.Name)+strings.Join(parts, ", "))
	}
	r.Means = strings.Join(said, "; ")
	if r.Why == "" {
		r.Why = whyQuota(name, alone.Quotas)
	}
}

// effect explains a field that says nothing by itself, by what it changes.
func (x *reader) effect(r *reading, without comity.Advice) {
	var said []string
	for _, q := range x.all.Quotas {
		if slices.Contains(without.Quotas, q) {
			continue
		}
		i := slices.IndexFunc(without.Quotas, func(o comity.Quota) bool { return o.Name == q.Name })
		switch {
		case i < 0 && slices.Contains(r.Values, q.Name):
			said = append(said, fmt.Sprintf("the name of the quota: %q", q.Name))
		case i >= 0:
			said = append(said, of(q.Name)+changed(without.Quotas[i], q))
		}
	}
	r.Means = strings.Join(said, "; ")
	r.Why = "means nothing alone: it completes the other fields"
	if r.Means == "" {
		r.Means = "part of a quota"
	}
}

func changed(from, to comity.Quota) string {
	var parts []string
	if from.Limit != to.Limit {
		parts = append(parts, fmt.Sprintf("limit %d", to.Limit))
	}
	if from.Remaining != to.Remaining {
		parts = append(parts, fmt.Sprintf("%d left", to.Remaining))
	}
	if from.Window != to.Window {
		parts = append(parts, fmt.Sprintf("window %s", known(to.Window)))
	}
	if from.Reset != to.Reset {
		parts = append(parts, fmt.Sprintf("reset in %s", known(to.Reset)))
	}
	return strings.Join(parts, ", ")
}

func of(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%q: ", name)
}

func sameQuotas(a, b comity.Advice) bool { return slices.Equal(a.Quotas, b.Quotas) }

// usesDate reports whether some reading changes with the Date.
func usesDate(x *reader) bool {
	h := x.res.header.Clone()
	h.Set("Date", x.now.Add(-time.Hour).UTC().Format(http.TimeFormat))
	a := x.d.Parse(h, x.now)
	return a.RetryAfter != x.all.RetryAfter || !sameQuotas(a, x.all)
}

// stored reports whether the Age changes something.
func (x *reader) stored() bool {
	h := x.res.header.Clone()
	h.Del("Age")
	a := x.d.Parse(h, x.now)
	return a.RetryAfter != x.all.RetryAfter || !sameQuotas(a, x.all)
}
