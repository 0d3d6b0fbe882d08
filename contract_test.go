package comity_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
	"github.com/comity/comity/comitytest"
)

func TestTransportKeepsTheContract(t *testing.T) {
	t.Run("zero", func(t *testing.T) {
		comitytest.TestRoundTripper(t, func(base http.RoundTripper) http.RoundTripper {
			return must(comity.New(base, comity.Config{}))
		})
	})
	t.Run("full", func(t *testing.T) {
		comitytest.TestRoundTripper(t, func(base http.RoundTripper) http.RoundTripper {
			rt, err := comity.New(base, comity.Config{
				Policies: map[string]comity.Policy{"": {
					Limits:      []comity.Limit{{N: 1000, Per: time.Second, Burst: 1000}},
					MaxInFlight: 64,
					Retry:       comity.Retry{Timeout: time.Minute},
				}},
				Trace: &comity.Trace{Sent: func(*comity.Attempt) {}},
			})
			require.NoError(t, err)
			return rt
		})
	})
}
