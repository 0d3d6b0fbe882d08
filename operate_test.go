package comity_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

func keys(rt *comity.Transport) []string {
	var out []string
	for _, d := range rt.Destinations() {
		out = append(out, d.Key)
	}
	return out
}

func TestPolicyForIsAskedOncePerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		rt := transport(t, replies(200), comity.Config{
			Policies: map[string]comity.Policy{"fixed.example": {}, "*.fixed.example": {}},
			PolicyFor: func(host string) comity.Policy {
				asked[host]++
				if host == "b.example" || host == "c.example" {
					return comity.Policy{Name: "both"}
				}
				return comity.Policy{MaxInFlight: 7}
			},
		})
		for range 3 {
			for _, h := range []string{"A.example", "b.example", "c.example", "fixed.example", "x.fixed.example", "a.example:81"} {
				_, err := rt.RoundTrip(get(t, t.Context(), "http://"+h))
				require.NoError(t, err)
			}
		}
		require.Equal(t, map[string]int{"a.example": 1, "b.example": 1, "c.example": 1, "a.example:81": 1}, asked)
		require.Equal(t, []string{"a.example", "a.example:81", "both", "fixed.example", "x.fixed.example"}, keys(rt))
	})
}

func TestInvalidPolicyForFailsCallsUntilItIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(200)
		spread := 3.0
		rt := transport(t, base, comity.Config{PolicyFor: func(string) comity.Policy {
			return comity.Policy{Spread: spread, MaxWait: -1, Limits: []comity.Limit{{N: 1, Per: time.Hour}}}
		}})
		call := func() error {
			_, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
			return err
		}
		require.ErrorContains(t, call(), `comity: PolicyFor("a.example").Spread: 3`)
		require.NotErrorIs(t, call(), comity.ErrThrottled)
		spread = 0
		require.NoError(t, call())
		require.ErrorIs(t, call(), comity.ErrThrottled)
		spread = 3
		rt.Refresh("a.example")
		require.ErrorIs(t, call(), comity.ErrThrottled, "the policy of before")
		require.Equal(t, 1, base.count())
	})
}

func TestRefreshAppliesWhatPolicyForSaysNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := time.Duration(0)
		base := replies(200)
		rt := transport(t, base, comity.Config{PolicyFor: func(string) comity.Policy {
			return comity.Policy{MaxWait: -1, Delay: comity.Delay{Min: delay}}
		}})
		call := func(host string) error {
			res, err := rt.RoundTrip(get(t, t.Context(), "http://"+host))
			if err == nil {
				res.Body.Close()
			}
			return err
		}
		for range 3 {
			require.NoError(t, call("a.example"))
			require.NoError(t, call("b.example"))
		}
		delay = time.Minute
		require.NoError(t, call("a.example"))
		rt.Refresh("A.example.")
		rt.Refresh("unknown.example")
		require.ErrorIs(t, call("a.example"), comity.ErrThrottled, "the delay counts from the last answer")
		require.NoError(t, call("b.example"), "not refreshed")
		time.Sleep(time.Minute)
		require.NoError(t, call("a.example"))
		require.ErrorIs(t, call("a.example"), comity.ErrThrottled)
		require.Equal(t, []string{"a.example", "b.example"}, keys(rt))
	})
}

func TestSetPoliciesKeepsWhatWasSpentAndLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(200)
		policies := func(n int, per time.Duration) map[string]comity.Policy {
			return map[string]comity.Policy{"a.example": {MaxWait: -1, Limits: []comity.Limit{{N: n, Per: per, Burst: n}}}}
		}
		rt := transport(t, base, comity.Config{Policies: policies(3, time.Hour)})
		sent := func() (n int) {
			for {
				if _, err := rt.RoundTrip(get(t, t.Context(), "http://a.example")); err != nil {
					require.ErrorIs(t, err, comity.ErrThrottled)
					return n
				}
				n++
			}
		}
		require.Equal(t, 3, sent())
		require.ErrorContains(t, rt.SetPolicies(map[string]comity.Policy{"a.example": {}, "HTTP://b": {}}), "a pattern has no scheme")
		require.Zero(t, sent(), "all or none")
		require.NoError(t, rt.SetPolicies(policies(5, time.Hour)))
		require.LessOrEqual(t, sent(), 2)
		require.NoError(t, rt.SetPolicies(nil))
		for range 20 {
			_, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
			require.NoError(t, err)
		}
		ds := rt.Destinations()
		require.Len(t, ds, 1)
		require.Equal(t, "", ds[0].Pattern)
		require.GreaterOrEqual(t, ds[0].Requests, 23.0)
	})
}

func TestSetPoliciesReachesCallsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := replies(200)
		policy := func(l comity.Limit) map[string]comity.Policy {
			return map[string]comity.Policy{"": {MaxWait: comity.Forever, Limits: []comity.Limit{l}}}
		}
		rt := transport(t, base, comity.Config{Policies: policy(comity.Limit{N: 1, Per: time.Hour})})
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				_, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
				require.NoError(t, err)
			})
		}
		time.Sleep(time.Minute)
		require.NoError(t, rt.SetPolicies(policy(comity.Limit{N: 100, Per: time.Second})))
		wg.Wait()
		require.LessOrEqual(t, time.Since(start), time.Minute+100*time.Millisecond)
	})
}

// countedGuard counts the gates it makes.
type countedGuard struct{ made int }

func (g *countedGuard) NewGate(string) comity.Gate { g.made++; return &switchGate{} }

func TestGatesAreMadeAnewUnlessGuardsIsTheSameSlice(t *testing.T) {
	guard := &countedGuard{}
	guards := []comity.Guard{guard}
	rt := transport(t, replies(200), every(comity.Policy{Guards: guards}))
	call := func() {
		_, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
		require.NoError(t, err)
	}
	call()
	call()
	require.Equal(t, 1, guard.made)
	require.NoError(t, rt.SetPolicies(map[string]comity.Policy{"": {Guards: guards, MaxInFlight: 4}}))
	call()
	require.Equal(t, 1, guard.made)
	require.NoError(t, rt.SetPolicies(map[string]comity.Policy{"": {Guards: []comity.Guard{guard}}}))
	call()
	require.Equal(t, 2, guard.made)
}

func TestHoldStopsADestinationAndAllItsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []comity.Hold
		cfg := comity.Config{
			Policies: map[string]comity.Policy{"a.example": {MaxWait: -1, Key: func(r *http.Request) string { return r.Header.Get("Tenant") }}, "": {MaxWait: -1}},
			Trace:    &comity.Trace{Held: func(h comity.Hold) { held = append(held, h) }},
		}
		rt := transport(t, replies(200), cfg)
		call := func(host, tenant string) error {
			req := get(t, t.Context(), "http://"+host)
			req.Header.Set("Tenant", tenant)
			_, err := rt.RoundTrip(req)
			return err
		}
		require.NoError(t, call("a.example", "one"))
		require.NoError(t, call("a.example", "two"))
		until := time.Now().Add(time.Minute)
		rt.Hold("a.example", until)
		for _, tenant := range []string{"one", "two", "new", ""} {
			var refused *comity.ThrottledError
			require.ErrorAs(t, call("a.example", tenant), &refused, tenant)
			require.Equal(t, comity.ReasonHeld, refused.Reason)
			require.Equal(t, time.Minute, refused.RetryAfter)
		}
		require.NotEmpty(t, held)
		require.Equal(t, comity.Hold{Destination: held[0].Destination, Until: until, Told: -1}, held[0])

		rt.Hold("a.example#two", time.Time{})
		require.NoError(t, call("a.example", "two"))
		require.Error(t, call("a.example", "one"))
		rt.Hold("a.example", time.Time{})
		require.NoError(t, call("a.example", "one"))

		rt.Hold("new.example", until)
		require.Error(t, call("new.example", ""))
		time.Sleep(time.Minute)
		require.NoError(t, call("new.example", ""))
	})
}

func TestNextSpendsAndCreatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport(t, replies(200), every(comity.Policy{Limits: []comity.Limit{{Name: "slow", N: 1, Per: time.Minute}}}))
		req := get(t, t.Context(), "http://a.example")
		require.Equal(t, comity.Readiness{At: time.Now()}, rt.Next(req))
		require.Empty(t, rt.Destinations())
		for range 3 {
			start := time.Now()
			_, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, start, time.Now())
			require.Equal(t, comity.Readiness{At: time.Now().Add(time.Minute), Reason: comity.ReasonLimit, Limit: "slow"}, rt.Next(req))
			time.Sleep(time.Minute)
			require.Equal(t, comity.Readiness{At: time.Now()}, rt.Next(req))
		}
	})
}

func TestKeysSplitADestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport(t, replies(200), every(comity.Policy{Key: comity.CredentialKey("Authorization"), MaxWait: -1,
			Limits: []comity.Limit{{N: 1, Per: time.Hour}}}))
		call := func(token string, c comity.Call) error {
			req := get(t, comity.WithCall(t.Context(), c), "http://a.example")
			if token != "" {
				req.Header.Set("Authorization", token)
			}
			_, err := rt.RoundTrip(req)
			return err
		}
		for _, token := range []string{"Bearer one", "Bearer two", ""} {
			require.NoError(t, call(token, comity.Call{}))
			require.ErrorIs(t, call(token, comity.Call{}), comity.ErrThrottled)
		}
		require.NoError(t, call("Bearer one", comity.Call{Key: "tenant"}))
		all := keys(rt)
		require.Len(t, all, 4)
		require.Contains(t, all, "a.example")
		require.Contains(t, all, "a.example#tenant")
		require.NotContains(t, fmt.Sprint(all), "Bearer")
	})
}

func TestCredentialKeyTellsValuesApart(t *testing.T) {
	key := comity.CredentialKey("authorization", "X-Api-Key")
	of := func(pairs ...string) string { return key(&http.Request{Header: answer(200, "", pairs...).Header}) }
	require.Empty(t, of())
	require.Empty(t, of("Other", "x"))
	require.Equal(t, of("Authorization", "a"), of("Authorization", "a"))
	seen := map[string]bool{}
	for _, k := range []string{of("Authorization", "a"), of("X-Api-Key", "a"), of("Authorization", "ab"), of("Authorization", "a", "Authorization", "b"),
		of("Authorization", "a", "X-Api-Key", "b"), of("Authorization", "")} {
		require.Len(t, k, 16)
		require.False(t, seen[k])
		seen[k] = true
	}
}

func TestPoliciesChangeWhileCallsRun(t *testing.T) {
	var calls atomic.Int64
	rt := transport(t, replies(200), comity.Config{
		PolicyFor: func(host string) comity.Policy { return comity.Policy{MaxInFlight: 1 + int(calls.Add(1)%3)} },
	})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 300 {
				req := get(t, t.Context(), fmt.Sprintf("http://h%d.example", (i+n)%7))
				res, err := rt.RoundTrip(req)
				if err != nil && !errors.Is(err, comity.ErrThrottled) {
					t.Error(err)
					return
				}
				if res != nil {
					res.Body.Close()
				}
			}
		})
	}
	for n := range 100 {
		switch n % 3 {
		case 0:
			require.NoError(t, rt.SetPolicies(map[string]comity.Policy{"h1.example": {Name: "h2.example"}, "*.example": {MaxInFlight: 2}}))
		case 1:
			require.NoError(t, rt.SetPolicies(nil))
		default:
			rt.Refresh(fmt.Sprintf("h%d.example", n%7))
		}
	}
	wg.Wait()
	for _, d := range rt.Destinations() {
		require.Zero(t, d.InFlight, d.Key)
		require.Zero(t, d.Waiting, d.Key)
	}
}
