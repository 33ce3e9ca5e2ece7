package runtime_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// A denial by a block says when the block ends, and a Peek agrees with it.
func TestEndOfABlock(t *testing.T) {
	o := newOverriding(t, overridable())
	ctx := t.Context()
	whole := o.limiter.OverridesForAll(o.policy)
	for _, row := range []struct {
		do          func()
		retry       time.Duration
		text, peek  string
		left, value float64
	}{
		{func() { o.block(o.overrides("a"), time.Hour) }, time.Hour, "denied, retry after 1h", "blocked for 1h with 7 of 10 left, full after 18m", 0, 7},
		{func() { o.now = o.now.Add(10 * time.Minute) }, 50 * time.Minute, "denied, retry after 50m", "blocked for 50m with 8 of 10 left, full after 8m", 0, 8 + 2./3},
		// The later end of two blocks counts.
		{func() { o.block(whole, time.Minute) }, 50 * time.Minute, "denied, retry after 50m", "blocked for 50m with 8 of 10 left, full after 8m", 0, 8 + 2./3},
		{func() { o.block(whole, time.Hour) }, time.Hour, "denied, retry after 1h", "blocked for 1h with 8 of 10 left, full after 8m", 0, 8 + 2./3},
		{func() { o.now = o.now.Add(time.Hour - 1) }, 1, "denied, retry after 1ms", "blocked for 1ms with 10 of 10 left", 0, 10},
		{func() { o.now = o.now.Add(1) }, 0, "allowed, 10 left", "10 of 10 left", 10, 10},
		{func() { o.block(o.overrides("a"), time.Hour); o.blockForGood(whole) }, runtime.Never, "denied, no retry passes", "blocked with 10 of 10 left", 0, 10},
	} {
		if row.retry == time.Hour && row.value == 7 {
			_, err := o.key("a").AllowN(ctx, 3)
			require.NoError(t, err)
		}
		row.do()
		d, err := o.key("a").Check(ctx)
		require.NoError(t, err)
		require.Equal(t, row.retry, d.RetryAfter)
		require.Equal(t, row.text, d.String())
		d, err = o.key("a").CheckN(ctx, 0)
		require.NoError(t, err)
		require.True(t, d.Allowed, "a block takes away no tokens")
		require.Equal(t, row.retry, d.BlockedFor)
		b, err := o.key("a").Peek(ctx)
		require.NoError(t, err)
		require.Equal(t, row.peek, b.String())
		require.Equal(t, row.retry, b.BlockedFor, "as long as a request is denied")
		require.Equal(t, row.left, float64(b.Remaining))
		require.InDelta(t, row.value, b.Value, 1e-6)
		// A call that needs the store for another limit.
		ds, err := o.limiter.All(ctx, o.key("a").Checked(), o.limiter.Limit(bucket("other", 5), runtime.Key{}).CheckedN(0))
		require.NoError(t, err)
		require.Equal(t, row.retry, ds.RetryAfter)
		require.Equal(t, row.retry == 0, ds.Allowed)
		r, err := o.limiter.Group(o.key("a").Checked()).Reserve(ctx)
		require.NoError(t, err)
		require.Equal(t, row.retry, r.Decisions.RetryAfter)
	}
}

// A limit that limits.yaml blocks has no end of its block, whatever an operator does.
func TestBlockOfABlockedLimitHasNoEnd(t *testing.T) {
	p := overridable()
	p.Mode = runtime.ModeBlock
	o := newOverriding(t, p)
	o.block(o.overrides("a"), time.Hour)
	d, err := o.key("a").Allow(t.Context())
	require.NoError(t, err)
	require.Equal(t, runtime.Never, d.RetryAfter)
}

// The longest wait of several limits is that of the call, whether it is the end of a block or the next token.
func TestBlockBesideADenial(t *testing.T) {
	for end, want := range map[time.Duration]time.Duration{time.Minute: 6 * time.Minute, time.Hour: time.Hour} {
		o := newOverriding(t, overridable())
		_, err := o.key("empty").AllowN(t.Context(), 10)
		require.NoError(t, err)
		o.block(o.overrides("blocked"), end)
		ds, err := o.limiter.All(t.Context(), o.key("empty"), o.key("blocked"))
		require.NoError(t, err)
		require.Equal(t, want, ds.RetryAfter)
		require.Equal(t, []string{"calls", "calls"}, ds.DeniedBy())
	}
}

// While the store fails, a block is known from memory, and so is its end.
func TestEndOfABlockWhileTheStoreFails(t *testing.T) {
	for _, onError := range []runtime.OnError{runtime.FailOpen, runtime.FailLocal} {
		p := overridable()
		p.OnError = onError
		o := newOverriding(t, p)
		o.now = time.Now() // the counts in memory are by this clock
		store := &faulty{Store: o.store}
		o.limiter = limiter.New(store)
		o.block(o.overrides("blocked"), time.Hour)
		store.err = errors.New("down")
		ds, err := o.limiter.All(t.Context(), o.key("blocked"), o.key("other"))
		require.NoError(t, err)
		require.False(t, ds.Allowed)
		require.InDelta(t, time.Hour, ds.RetryAfter, float64(time.Minute))
	}
}

// Memory has one row for a key with shards, also for the policy that follows an override.
func TestEndOfAnOverrideOfShardsWhileTheStoreFails(t *testing.T) {
	p := overridable()
	p.OnError, p.Shards = runtime.FailLocal, 2
	o := newOverriding(t, p)
	o.now = time.Now() // the counts in memory are by this clock
	store := &faulty{Store: o.store}
	o.limiter = limiter.New(store)
	o.override(o.overrides("a"), runtime.Override{Capacity: 2, Until: o.now.Add(time.Minute)})
	store.err = errors.New("down")
	var d runtime.Decision
	for range 3 {
		var err error
		d, err = o.key("a").Allow(t.Context())
		require.NoError(t, err)
	}
	require.False(t, d.Allowed)
	require.Error(t, d.FailedLocal)
	require.Positive(t, d.RetryAfter)
}

// Clients of a block come back as spread out as those of a denial.
func TestJitterAfterABlock(t *testing.T) {
	p := overridable()
	p.Jitter = time.Minute
	o := newOverriding(t, p)
	o.block(o.limiter.OverridesForAll(p), time.Hour)
	seen := map[time.Duration]bool{}
	for i := range 10 {
		d, err := o.key(fmt.Sprint(i)).Allow(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Hour, d.RetryAfter)
		require.LessOrEqual(t, d.Jitter, time.Minute)
		seen[d.RetryIn()] = true
	}
	require.Len(t, seen, 10)
}
