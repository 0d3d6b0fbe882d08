package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// shown is what the scenes print, in order, on a fake clock. Holds are a little
// longer than told, by chance.
var shown = []string{
	`21 answered, the last after 2s`,
	`19 refused, reason "limit"`,
	`after 0s: .*comity: pay.example: limit "refunds" \(10/s, key m1\): next call in 2.1s, MaxWait is 2s`,
	`own callers get 503 with Retry-After: 3; errors.Is ErrThrottled true, DeadlineExceeded false`,
	`another merchant`,
	`  200 after 0s\n  200 after 0s\n`,
	`after 0s: .* next call in \d+ms, context ends in 300ms`,
	`own callers get 504; errors.Is ErrThrottled true, DeadlineExceeded true`,
	`after 200ms: .*: the shop closed its window`,
	`own callers get 502; errors.Is ErrThrottled false`,
	`6 answered`,
	`6 refused, reason "queue"`,
	`after 0s: .*comity: ship.example: 4 calls wait already \(MaxWaiting\)`,
	`200 after 1s\n  calls that the partner received: 2`,
	`503 after .*\n  calls that the partner received: 1`,
	`200 after .*\n  calls that the partner received: 2`,
	`: EOF\n    own callers get 502; .*\n  calls that the partner received: 1`,
	`429 after .*\n  calls that the partner received: 1`,
	`after 0s: .*comity: pay.example: held for 1h.* by 429 with Retry-After, MaxWait is 2s`,
	`own callers get 503 with Retry-After: 36\d\d;`,
	`pay.example is held for 1h`,
}

func TestEachAnswerAndRefusalLooksAsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), &out))
		rest := out.String()
		for _, want := range shown {
			at := regexp.MustCompile(want).FindStringIndex(rest)
			if at == nil {
				t.Fatalf("%q is not shown, or not in its place:\n%s", want, out.String())
			}
			rest = rest[at[1]:]
		}
	})
}

func TestPartnersSeeNoMoreThanTheyAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newPartners()
		rt, err := newTransport(net)
		require.NoError(t, err)
		s := &stage{ctx: t.Context(), out: &bytes.Buffer{}, client: &http.Client{Transport: rt}, rt: rt, net: net}
		s.refunds()
		s.others()
		s.queue()
		require.Len(t, net.pay.Hits(), 21+12)
		require.Len(t, net.ship.Hits(), 6)
		require.Empty(t, net.pay.Over())
		require.Empty(t, net.ship.Over())
	})
}

func TestRelayOfWhatIsNoRefusal(t *testing.T) {
	w := httptest.NewRecorder()
	relay(w, http.ErrHandlerTimeout)
	require.Equal(t, http.StatusBadGateway, w.Code)
}
