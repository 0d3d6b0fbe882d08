package comity_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/comity/comity"
)

func TestWithCallKeepsWhatTheInnerLeavesZero(t *testing.T) {
	ctx := comity.WithCall(context.Background(), comity.Call{Criticality: comity.Sheddable, MaxWait: time.Second, Idempotent: true})
	ctx = comity.WithCall(ctx, comity.Call{Criticality: comity.CriticalPlus, Key: "tenant"})
	require.Equal(t, comity.Call{
		Criticality: comity.CriticalPlus, MaxWait: time.Second, Idempotent: true, Key: "tenant",
	}, comity.CallFrom(ctx))
	require.Equal(t, comity.Call{}, comity.CallFrom(context.Background()))
}

func TestSettleCorrectsTheChargeOfTheLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport(t, replies(200), every(comity.Policy{MaxWait: -1, Limits: []comity.Limit{
			{N: 100, Per: time.Hour, Burst: 100, Unit: "tokens"}, {N: 50, Per: time.Hour, Burst: 50}}}))
		call := func(estimate int) (context.Context, error) {
			ctx := comity.WithCall(t.Context(), comity.Call{Cost: comity.Cost{"tokens": estimate}})
			_, err := rt.RoundTrip(get(t, ctx, "http://a.example"))
			return ctx, err
		}
		ctx, err := call(90)
		require.NoError(t, err)
		_, err = call(20)
		require.ErrorIs(t, err, comity.ErrThrottled)
		comity.Settle(ctx, comity.Cost{"tokens": 30})
		ctx, err = call(20)
		require.NoError(t, err)
		comity.Settle(ctx, comity.Cost{"tokens": 70})
		_, err = call(1)
		require.ErrorIs(t, err, comity.ErrThrottled)

		comity.Settle(context.Background(), comity.Cost{"tokens": 1})
		comity.Settle(comity.WithCall(context.Background(), comity.Call{}), comity.Cost{"tokens": 1})
	})
}

func TestReportIsLearnedAsIfTheHeadersHadSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []comity.Hold
		cfg := every(comity.Policy{MaxWait: -1})
		cfg.Trace = &comity.Trace{Held: func(h comity.Hold) { held = append(held, h) }}
		base := replies(200)
		rt := transport(t, base, cfg)
		ctx := comity.WithCall(t.Context(), comity.Call{})
		_, err := rt.RoundTrip(get(t, ctx, "http://a.example"))
		require.NoError(t, err)
		comity.Report(ctx, comity.Limited, comity.Advice{RetryAfter: time.Minute})
		require.Len(t, held, 1)
		require.Equal(t, "a.example", held[0].Destination)
		require.Equal(t, time.Minute, held[0].Told)
		require.Equal(t, comity.Limited, held[0].Attempt.Verdict)
		_, err = rt.RoundTrip(get(t, ctx, "http://a.example"))
		var refused *comity.ThrottledError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, comity.ReasonHeld, refused.Reason)
		require.Equal(t, 1, base.count(), "nothing is sent again")
		comity.Report(context.Background(), comity.Limited, comity.Advice{})
	})
}

func TestLimitSettlesByTheHeadersOfTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := func(a *comity.Attempt) int {
			n, _ := strconv.Atoi(a.Response.Header.Get("Units-Used"))
			return n
		}
		estimate := func(*http.Request) int { return 60 }
		policy := comity.Policy{MaxWait: -1, Limits: []comity.Limit{
			{N: 100, Per: time.Hour, Burst: 100, Unit: "units", Cost: estimate, Settle: used}, {N: 10, Per: time.Hour, Burst: 10}}}
		cfg := every(policy)
		cfg.Limits = []comity.Limit{{Name: "all", N: 200, Per: time.Hour, Burst: 200, Unit: "units", Cost: estimate, Settle: used}}
		rt := transport(t, replies(answer(200, "", "Units-Used", "5"), answer(200, "", "Units-Used", "90"), 200), cfg)
		for i := range 3 {
			_, err := rt.RoundTrip(get(t, t.Context(), "http://a.example"))
			require.Equal(t, i == 2, errors.Is(err, comity.ErrThrottled), "%d: %v", i, err)
		}
		require.InDelta(t, 5, rt.Destinations()[0].Limits[0].Available, 1)
	})
}
