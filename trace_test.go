package comity_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

// record returns a Trace that writes down what happens.
func record(to *[]string) *comity.Trace {
	add := func(format string, args ...any) { *to = append(*to, fmt.Sprintf(format, args...)) }
	return &comity.Trace{
		Waiting: func(a *comity.Attempt, d time.Duration, why comity.Reason) { add("waiting %d %s %s", a.N, d, why) },
		Refused: func(a *comity.Attempt, err *comity.ThrottledError) { add("refused %d %s", a.N, err.Reason) },
		Sent:    func(a *comity.Attempt) { add("sent %d %s", a.N, a.Waited) },
		Done:    func(a *comity.Attempt) { add("done %d %s", a.N, a.Verdict) },
		Retry:   func(a *comity.Attempt, d time.Duration) { add("retry %d %s", a.N, d) },
		Held:    func(h comity.Hold) { add("held %s %s %t", h.Destination, h.Told, h.Attempt != nil) },
		Ready:   func(dest string) { add("ready %s", dest) },
	}
}

func TestEventsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		rt := transport(t, replies(answer(429, "", "Retry-After", "10"), errReset, 200), comity.Config{
			Policies: map[string]comity.Policy{"": {MaxInFlight: 1, Retry: comity.Retry{Base: 1, Cap: 1}}},
			Trace:    record(&got),
		})
		res, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, "body", text(t, res))
		require.GreaterOrEqual(t, len(got), 11)
		for i, prefix := range []string{"sent 1 0s", "done 1 limited", "held a.example 10s true", "ready a.example", "retry 1 10",
			"waiting 2 10", "sent 2 10", "done 2 overloaded", "ready", "retry 2 0s", "sent 3 10"} {
			require.True(t, strings.HasPrefix(got[i], prefix), "%d: %s: %q", i, prefix, got)
		}
		require.Equal(t, []string{"done 3 accepted", "ready a.example"}, got[11:])
	})
}

func TestHooksOfACallComeAfterThoseOfTheConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		sent := func(name string) *comity.Trace {
			return &comity.Trace{Sent: func(*comity.Attempt) { got = append(got, name) }}
		}
		rt := transport(t, replies(200), comity.Config{Trace: comity.Tee(sent("one"), nil, sent("two"), &comity.Trace{})})
		ctx := comity.WithCall(t.Context(), comity.Call{Trace: sent("call")})
		_, err := rt.RoundTrip(get(t, ctx, "http://a.example"))
		require.NoError(t, err)
		require.Equal(t, []string{"one", "two", "call"}, got)
	})
}

func TestTeeHasOnlyTheHooksItNeeds(t *testing.T) {
	tee := comity.Tee(nil, &comity.Trace{Ready: func(string) {}})
	require.NotNil(t, tee.Ready)
	require.Nil(t, tee.Sent)
	require.Equal(t, &comity.Trace{}, comity.Tee())
	var got []string
	all := comity.Tee(record(&got), record(&got))
	a := &comity.Attempt{N: 1}
	all.Waiting(a, 1, "")
	all.Refused(a, &comity.ThrottledError{})
	all.Sent(a)
	all.Done(a)
	all.Retry(a, 1)
	all.Held(comity.Hold{})
	all.Ready("x")
	require.Len(t, got, 14)
}

func TestLogTraceNeverWritesSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		rt := transport(t, replies(answer(429, "", "Retry-After", "10"), errReset, 200), comity.Config{
			Policies: map[string]comity.Policy{"": {Limits: []comity.Limit{{N: 1, Per: time.Hour, Burst: 3}}}},
			Trace:    comity.LogTrace(log),
		})
		req := request(t, t.Context(), http.MethodPut, "http://me:password@a.example/path?token=secret", "payload")
		req.Header.Set("Authorization", "Bearer secret")
		_, err := rt.RoundTrip(req)
		require.NoError(t, err)
		_, err = rt.RoundTrip(req)
		require.ErrorIs(t, err, comity.ErrThrottled)
		rt.Hold("a.example", time.Now().Add(time.Hour))
		rt.Hold("a.example", time.Time{})
		for _, s := range []string{"level=WARN msg=\"destination held\" destination=a.example", "level=INFO msg=\"call tried again\"",
			"level=WARN msg=\"call refused\"", "level=DEBUG msg=\"call sent\"", "level=DEBUG msg=\"call answered\"",
			"level=DEBUG msg=\"call held back\"", "status=429", "verdict=limited", "method=PUT", "level=DEBUG msg=\"destination ready\""} {
			require.Contains(t, out.String(), s)
		}
		for _, s := range []string{"secret", "password", "/path", "payload", "Bearer"} {
			require.NotContains(t, out.String(), s)
		}
	})
}
