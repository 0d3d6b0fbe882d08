package comity

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reporter answers 200 and with its quota.
type reporter struct{ left int }

func (r *reporter) RoundTrip(*http.Request) (*http.Response, error) {
	r.left--
	return &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{
		"X-Ratelimit-Limit": {"1000"}, "X-Ratelimit-Remaining": {strconv.Itoa(r.left)}, "X-Ratelimit-Reset": {"60"}}, Body: http.NoBody}, nil
}

// A try that is used again must not remember anything of the call before but where
// it went, which the next one compares.
func TestTryUsedAgainIsClean(t *testing.T) {
	for name, base := range map[string]http.RoundTripper{"silent": instant{}, "quota": &reporter{left: 1000}} {
		t.Run(name, func(t *testing.T) {
			rt, err := New(base, Config{})
			require.NoError(t, err)
			req, err := http.NewRequest(http.MethodGet, "http://a.example", nil)
			require.NoError(t, err)
			for range 300 {
				_, err = rt.RoundTrip(req)
				require.NoError(t, err)
				a := tries.Get().(*try)
				d := a.d
				a.t, a.d, a.group, a.Destination, a.turn.by, a.turn.pol = nil, nil, nil, "", nil, nil
				a.N, a.now, a.turn.crit, a.turn.maxWait = 0, time.Time{}, 0, 0 // each call sets them
				a.ruling.told, a.quotas = 0, [2]Quota{}
				require.Equal(t, &try{}, a)
				if d != nil { // with the race detector the pool drops some
					require.Zero(t, d.pacer.inFlight)
				}
				tries.Put(a)
			}
		})
	}
}
