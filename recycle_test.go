package comity

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A try that is used again must not remember anything of the call before.
func TestTryUsedAgainIsClean(t *testing.T) {
	rt, err := New(instant{}, Config{})
	require.NoError(t, err)
	req, err := http.NewRequest(http.MethodGet, "http://a.example", nil)
	require.NoError(t, err)
	for range 100 {
		_, err = rt.RoundTrip(req)
		require.NoError(t, err)
		a := tries.Get().(*try)
		require.Equal(t, &try{}, a)
		tries.Put(a)
	}
}
