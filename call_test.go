package comity_test

import (
	"context"
	"testing"
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
