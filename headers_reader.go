package comity

import (
	"net/http"
	"time"
)

// A reader reads the answers of one destination. It is safe for concurrent use,
// and ready as its zero value.
type reader struct{}

// read replaces *a by what h says at now, in dialect d. It keeps the memory of
// a.Quotas and a.Malformed.
func (r *reader) read(d *Dialect, h http.Header, now time.Time, refused bool, a *Advice) {
	readRules := rulesOf(d)
	if readRules == nil {
		*a = d.Parse(h, now)
		return
	}
	parseInto(h, now, readRules, a)
}
