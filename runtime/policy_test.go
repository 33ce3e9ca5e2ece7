package runtime_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/stretchr/testify/require"
)

func TestPolicyIsRefused(t *testing.T) {
	valid := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Period: time.Second, Capacity: 10, MaxReserved: 10}
	require.NoError(t, valid.Validate())
	for _, row := range []struct {
		edit func(*runtime.Policy)
		want string
	}{
		{func(p *runtime.Policy) { p.Name = "" }, "the name is empty"},
		{func(p *runtime.Policy) { p.Kind = 0 }, "Kind(0) is not one of the kinds token bucket, fixed window, sliding window"},
		{func(p *runtime.Policy) { p.Kind = 4 }, "Kind(4) is not one of the kinds token bucket, fixed window, sliding window"},
		{func(p *runtime.Policy) { p.Rate = 0 }, "rate 0 is not between 1 and 1000000000000000"},
		{func(p *runtime.Policy) { p.Rate = runtime.MaxTokens + 1 }, "rate 1000000000000001 is not between 1 and 1000000000000000"},
		{func(p *runtime.Policy) { p.Period = 0 }, "period 0s is not between 1ns and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Period = runtime.MaxPeriod + 1 }, "period 87600h0m0.000000001s is not between 1ns and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Capacity = -1 }, "capacity -1 is not between 0 and 1000000000000000"},
		{func(p *runtime.Policy) { p.MaxReserved = -1 }, "maxReserved -1 is not between 0 and 1000000000000000"},
		{func(p *runtime.Policy) { p.Capacity, p.MaxReserved = 0, 0 }, "no request can pass with capacity 0 and maxReserved 0: raise one of them"},
		{func(p *runtime.Policy) { p.Kind, p.Capacity = runtime.SlidingWindow, 5 }, "the capacity of a sliding window must equal its rate, 10, but is 5"},
		{func(p *runtime.Policy) { p.Kind = runtime.SlidingWindow }, "a sliding window cannot be reserved ahead: leave MaxReserved at 0"},
		{func(p *runtime.Policy) { p.Kind, p.Start = runtime.TokenBucket, runtime.StartOffset(0) }, "a token bucket has no windows: leave Start out"},
		{func(p *runtime.Policy) {
			p.Kind, p.MaxReserved, p.Start = runtime.SlidingWindow, 0, runtime.StartFirstUse()
		}, "a sliding window cannot start at first use: give an offset, or leave Start out"},
		{func(p *runtime.Policy) { p.Shards = -1 }, "shards -1 is not between 0 and 1024"},
		{func(p *runtime.Policy) { p.Shards = runtime.MaxShards + 1 }, "shards 1025 is not between 0 and 1024"},
		{func(p *runtime.Policy) { p.Shards, p.Start = 2, runtime.StartFirstUse() }, "windows that start at first use cannot have shards: each shard would start its own window"},
		{func(p *runtime.Policy) { p.Shards, p.Capacity, p.MaxReserved = 11, 20, 20 }, "rate 10 over 11 shards leaves a shard without a token"},
		{func(p *runtime.Policy) { p.Shards, p.Capacity = 6, 5 }, "capacity 5 over 6 shards leaves a shard without a token"},
		{func(p *runtime.Policy) { p.Shards, p.MaxReserved = 6, 5 }, "maxReserved 5 over 6 shards leaves a shard without a token"},
		{func(p *runtime.Policy) { p.Timeout = -1 }, "timeout -1ns is not between 0s and 87600h0m0s"},
		{func(p *runtime.Policy) { p.DenyCache = -1 }, "denyCache -1ns is not between 0s and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Lease.Tokens = 5 }, "a lease for 0s is not between 1ns and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Lease.For = 5 }, "a lease of 0 tokens is not between 1 and the capacity, 10"},
		{func(p *runtime.Policy) { p.Lease = runtime.Lease{Tokens: 11, For: 1} }, "a lease of 11 tokens is not between 1 and the capacity, 10"},
		{func(p *runtime.Policy) { p.Lease, p.Start = runtime.Lease{Tokens: 1, For: 1}, runtime.StartFirstUse() }, "windows that start at first use cannot be leased: their end is not known in advance"},
		{func(p *runtime.Policy) { p.OnError = 2 }, "OnError(2) is neither FailClosed nor FailOpen"},
		{func(p *runtime.Policy) { p.Durability = 3 }, "Durability(3) is not DurabilityDefault, DurabilityRelaxed or DurabilityFull"},
	} {
		p := valid
		row.edit(&p)
		err := p.Validate()
		require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
		require.EqualError(t, err, "invalid policy: "+row.want)
	}
}

func TestStartSaysWhatItIs(t *testing.T) {
	offset, aligned := runtime.StartAt(time.Unix(90, 0)).Offset()
	require.True(t, aligned)
	require.Equal(t, 90*time.Second, offset)
	_, aligned = runtime.Start{}.Offset()
	require.False(t, aligned)
	require.True(t, runtime.StartFirstUse().FirstUse())
	require.False(t, runtime.StartOffset(0).FirstUse())
}

func TestWordsAreWrittenAsInLimitsYAML(t *testing.T) {
	require.Equal(t, "[token bucket fixed window sliding window]", fmt.Sprint(runtime.Kinds()))
	require.Equal(t, "[closed open]", fmt.Sprint(runtime.OnErrors()))
	require.Equal(t, "[relaxed full]", fmt.Sprint(runtime.Durabilities()))
}
