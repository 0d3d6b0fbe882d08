package comity

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReaderReplacesTheAdvice(t *testing.T) {
	var r reader
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	h := http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Limit": {"x"}, "Retry-After": {"2"}}
	a := Advice{Retry: 1, Malformed: []string{"Retry-After"}, Quotas: make([]Quota, 3)}
	r.read(nil, h, now, true, &a)
	require.Equal(t, Advice{
		RetryAfter: 2 * time.Second, Malformed: []string{"X-Ratelimit-Limit"},
		Quotas: []Quota{{Unit: "requests", Limit: -1, Remaining: 3, Window: -1, Reset: -1}},
	}, a)

	r.read(nil, http.Header{}, now, true, &a)
	require.Equal(t, Advice{RetryAfter: -1, Malformed: []string{}, Quotas: []Quota{}}, a)

	own := &Dialect{Parse: func(http.Header, time.Time) Advice { return Advice{RetryAfter: time.Hour} }}
	r.read(own, h, now, false, &a)
	require.Equal(t, Advice{RetryAfter: time.Hour}, a)

	r.read(&Dialect{Name: "only a quota"}, h, now, false, &a)
	require.Equal(t, 2*time.Second, a.RetryAfter)
}
