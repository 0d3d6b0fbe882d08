package comitytest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/comity/comity"
)

// RetryAfterOnly is the Dialect of a server that says no more than Retry-After,
// in whole seconds rounded up, and that only when it refuses.
var RetryAfterOnly = &comity.Dialect{
	Name:  "retry-after",
	Parse: comity.ParseAdvice,
	Write: func(h http.Header, _ time.Time, a comity.Advice) {
		if d := a.RetryAfter; d >= 0 {
			s := d / time.Second
			if d%time.Second > 0 {
				s++
			}
			h.Set("Retry-After", strconv.FormatInt(int64(s), 10))
		}
	},
}
