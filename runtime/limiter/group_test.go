package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// team returns a limiter with a limit of 10 tokens that can be reserved, one of 3 that cannot, and one to check.
func team(store runtime.Store) (limits *limiter.Limiter, tokens limiter.ReservableLimit, calls, suspended limiter.Limit) {
	limits = limiter.New(store)
	r := reservable(10)
	r.Name = "tokens"
	return limits, limits.Reservable(r, runtime.Key{}), limits.Limit(bucket("calls", 3), runtime.Key{}),
		limits.Limit(bucket("suspended", 1), runtime.Key{})
}

func TestAllTakesFromAllOrNone(t *testing.T) {
	limits := limiter.New(still())
	small := limits.Limit(bucket("small", 2), runtime.Key{})
	large := limits.Limit(bucket("large", 10), runtime.Key{})
	ds := must(limits.All(t.Context(), large.N(5), small))
	require.True(t, ds.Allowed)
	require.Equal(t, "allowed", ds.String())
	ds = must(limits.All(t.Context(), large.N(8), small.N(2)))
	require.False(t, ds.Allowed)
	require.Equal(t, `denied by "large" and "small", retry after 3s`, ds.String())
	require.Equal(t, 3*time.Second, ds.RetryAfter, "the largest of 3s and 1s")
	for i, want := range []string{"large has 5", "small has 1"} {
		require.Equal(t, want, fmt.Sprintf("%s has %d", ds.Each[i].Limit, ds.Each[i].Remaining), "nothing was taken")
	}
	_, err := limits.All(t.Context(), large.N(8), small.N(3))
	require.EqualError(t, err, `limit "small": count exceeds capacity: 3 is more than the capacity, 2`)
	require.Equal(t, runtime.Balance{Limit: "large", Capacity: 10, Remaining: 5, Value: 5, Used: 5, FullAfter: 5 * time.Second}, must(large.Peek(t.Context())))
}

func TestGroupChecksWhatAllowWouldTake(t *testing.T) {
	limits, tokens, calls, suspended := team(still())
	for _, row := range []struct {
		name    string
		items   []limiter.ReserveItem
		allowed bool
		err     error
	}{
		{"all", []limiter.ReserveItem{tokens.N(10), calls, suspended.Checked()}, true, nil},
		{"takes of one key add up", []limiter.ReserveItem{calls.N(2), calls.N(2)}, false, runtime.ErrExceedsCapacity},
		{"checks do not", []limiter.ReserveItem{calls.CheckedN(2), calls.N(2)}, true, nil},
		{"nothing", nil, false, runtime.ErrInvalidCall},
		{"nil", []limiter.ReserveItem{nil}, false, runtime.ErrInvalidCall},
		{"nil beside another", []limiter.ReserveItem{calls, nil}, false, runtime.ErrInvalidCall},
		{"another limiter", []limiter.ReserveItem{tokens, limiter.New(still()).Limit(bucket("x", 1), runtime.Key{})}, false, runtime.ErrInvalidCall},
		{"count 0", []limiter.ReserveItem{tokens.CheckedN(0)}, true, nil},
		{"count -1", []limiter.ReserveItem{tokens.CheckedN(-1)}, false, runtime.ErrInvalidCount},
	} {
		t.Run(row.name, func(t *testing.T) {
			ds, err := limits.Group(row.items...).Check(t.Context())
			require.ErrorIs(t, err, row.err)
			require.Equal(t, row.allowed, ds.Allowed)
			ds, err = limits.Group(row.items...).Allow(t.Context())
			require.ErrorIs(t, err, row.err)
			require.Equal(t, row.allowed, ds.Allowed)
			require.NoError(t, errors.Join(tokens.Reset(t.Context()), calls.Reset(t.Context())))
		})
	}
}

// Without tokens, a group passes whatever its limits have left, but not its checks or a blocked limit.
func TestGroupsWithoutTokens(t *testing.T) {
	limits, tokens, calls, suspended := team(still())
	must(tokens.Charge(t.Context(), 20))
	ds := must(limits.Group(tokens.N(0), calls).Allow(t.Context()))
	require.True(t, ds.Allowed, "%v", ds)
	require.Equal(t, []int64{0, 1}, []int64{ds.Each[0].Taken, ds.Each[1].Taken})
	require.True(t, must(limits.Group(tokens.N(0), calls).Check(t.Context())).Allowed)
	rs := must(limits.ReserveAll(t.Context(), tokens.N(0), calls.N(0)))
	require.Zero(t, rs.Delay())
	require.NoError(t, rs.At(0).Settle(t.Context(), 1), "what was used beyond nothing is charged")
	require.Equal(t, -11.0, value(t, tokens))
	require.NoError(t, rs.Cancel(t.Context()))
	_, err := limits.Group(tokens.N(-1), calls).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrInvalidCount)
	require.NoError(t, suspended.Require(t.Context()))
	require.Equal(t, []string{"suspended"}, must(limits.Group(tokens.N(0), suspended.Checked()).Allow(t.Context())).DeniedBy())
}

func TestGroupRequireReturnsTheLongestDenial(t *testing.T) {
	limits, tokens, calls, suspended := team(still())
	require.NoError(t, errors.Join(suspended.Require(t.Context()), calls.RequireN(t.Context(), 3)))
	err := limits.Group(tokens, calls.N(2), suspended.Checked()).Require(t.Context())
	limited := new(runtime.LimitedError)
	require.ErrorAs(t, err, &limited)
	require.Equal(t, "calls", limited.Limit)
	require.Equal(t, 2*time.Second, limited.RetryAfter)
}

func TestReserveAllTakesAllOrNone(t *testing.T) {
	limits, tokens, calls, suspended := team(still())
	all := func(n int64) *limiter.Reservations {
		return must(limits.ReserveAll(t.Context(), tokens.N(n), calls, suspended.Checked()))
	}
	first := all(6)
	require.True(t, first.Allowed)
	require.Zero(t, first.Delay())
	second := all(6)
	require.Equal(t, 2*time.Second, second.Delay(), "the largest: calls are available at once")
	require.Zero(t, second.At(1).Delay())
	require.Equal(t, -2.0, value(t, tokens))

	require.NoError(t, calls.Require(t.Context()))
	denied := all(1)
	require.Equal(t, []string{"calls"}, denied.DeniedBy())
	require.Equal(t, runtime.Never, denied.Delay())
	require.Equal(t, runtime.Never, denied.At(0).Delay(), "it would have passed alone, but nothing was taken")
	require.ErrorIs(t, denied.Cancel(t.Context()), runtime.ErrNotReserved)
	require.ErrorIs(t, denied.At(0).Settle(t.Context(), 1), runtime.ErrNotReserved)
	require.Equal(t, -2.0, value(t, tokens))
}

func TestReservationsAreCancelledOnce(t *testing.T) {
	store := &faulty{Store: still(), err: nil}
	limits, tokens, calls, _ := team(store)
	rs := must(limits.ReserveAll(t.Context(), tokens.N(6), calls))
	store.err = errDown
	require.ErrorIs(t, rs.Cancel(t.Context()), errDown)
	store.err = nil
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, rs.Cancel(ended), "it was still open, and is cancelled even if the context has ended")
	require.ErrorIs(t, rs.Cancel(t.Context()), runtime.ErrNotReserved)
	require.Equal(t, 10.0, value(t, tokens))
}

func TestReserveOnlyLimitsCanBeReservedTogether(t *testing.T) {
	limits, tokens, _, _ := team(still())
	crawl := limits.ReserveOnly(&runtime.Policy{Name: "crawl", Kind: runtime.TokenBucket, Rate: 2, Period: time.Second, MaxReserved: 10}, runtime.Key{})
	rs := must(limits.ReserveAll(t.Context(), tokens, crawl, crawl.N(2)))
	require.Equal(t, 500*time.Millisecond, rs.At(1).Delay())
	require.Equal(t, 1500*time.Millisecond, rs.Delay(), "the sum of both")
	_, err := limits.Group(tokens, crawl).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
}

// ofMode returns one key of a limit of 3 tokens, of which 3 more can be reserved.
func ofMode(limits *limiter.Limiter, name string, mode runtime.Mode, o runtime.OnError) limiter.ReservableLimit {
	p := bucket(name, 3)
	p.MaxReserved, p.Mode, p.OnError = 3, mode, o
	if mode == runtime.ModeUnlimited {
		p = &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Mode: mode}
	}
	return limits.Reservable(p, runtime.Key{})
}

func TestModesOfTheLimitsOfAGroup(t *testing.T) {
	for _, row := range []struct {
		name    string
		mode    runtime.Mode
		n       int64 // of the limit with the mode
		allowed bool
		left    float64 // of the enforced limit, from which 2 are taken
		delay   time.Duration
	}{
		{"unlimited passes", runtime.ModeUnlimited, 1e9, true, 1, 0},
		{"off passes", runtime.ModeOff, 1e9, true, 1, 0},
		{"shadow passes with too many", runtime.ModeShadow, 1e9, true, 1, 0},
		{"shadow passes without a delay", runtime.ModeShadow, 5, true, 1, 0},
		{"enforce delays all", runtime.ModeEnforce, 5, true, 1, 2 * time.Second},
		{"block denies all", runtime.ModeBlock, 1, false, 3, runtime.Never},
		{"no tokens of a blocked limit", runtime.ModeBlock, 0, true, 1, 0},
		{"no tokens of an unlimited one", runtime.ModeUnlimited, 0, true, 1, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			limits := limiter.New(still())
			enforced, other := ofMode(limits, "enforced", runtime.ModeEnforce, runtime.FailClosed), ofMode(limits, "other", row.mode, runtime.FailClosed)
			rs := must(limits.ReserveAll(t.Context(), enforced.N(2), other.N(row.n)))
			require.Equal(t, row.allowed, rs.Allowed)
			require.Equal(t, row.delay, rs.Delay())
			require.Equal(t, row.left, value(t, enforced))
			if !row.allowed {
				require.Equal(t, []string{"other"}, rs.DeniedBy())
				require.ErrorIs(t, rs.At(0).Settle(t.Context(), 1), runtime.ErrNotReserved)
				require.ErrorIs(t, rs.At(1).Cancel(t.Context()), runtime.ErrNotReserved)
				return
			}
			require.NoError(t, rs.Cancel(t.Context()))
			require.Equal(t, 3.0, value(t, enforced))
			require.ErrorIs(t, rs.Cancel(t.Context()), runtime.ErrNotReserved)
		})
	}
}

// The error of a call of thousands of limits names some of them, each once.
func TestErrorsOfLargeCallsAreShort(t *testing.T) {
	for _, row := range []struct {
		limits int
		names  string
	}{
		{1, `"limit 0"`},
		{5, `"limit 0", "limit 1", "limit 2", "limit 3", "limit 4"`},
		{2000, `"limit 0", "limit 1", "limit 2", "limit 3", "limit 4" and 1995 more`},
	} {
		store := &faulty{Store: still()}
		limits := limiter.New(store)
		items := make([]limiter.ReserveItem, max(10, row.limits))
		for i := range items {
			items[i] = limits.Limit(bucket(fmt.Sprintf("limit %d", i%row.limits), 10), runtime.KeyOf(runtime.Int(i)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := limits.ReserveAll(ctx, items...)
		require.EqualError(t, err, "limit "+row.names+": context canceled")
		rs := must(limits.ReserveAll(t.Context(), items...))
		require.NoError(t, rs.Err())
		require.NoError(t, rs.Cancel(t.Context()))
		require.EqualError(t, rs.Cancel(t.Context()), "limit "+row.names+": "+runtime.ErrNotReserved.Error())
	}
	limits := limiter.New(still())
	var items []limiter.Item
	for i := range 8 {
		p := bucket(fmt.Sprintf("limit %d", i), 10)
		p.Mode = runtime.ModeBlock
		items = append(items, limits.Limit(p, runtime.Key{}))
	}
	ds := must(limits.All(t.Context(), items...))
	require.Equal(t, `denied by "limit 0" and "limit 1" and "limit 2" and "limit 3" and "limit 4" and 3 more, no retry passes`, ds.String())
	require.Len(t, ds.DeniedBy(), 8)
	var limited *runtime.LimitedError
	require.ErrorAs(t, ds.Err(), &limited)
	require.Equal(t, runtime.Never, limited.RetryAfter)
	require.ErrorIs(t, limiter.Decisions{}.Err(), runtime.ErrLimited)
	require.Equal(t, "denied", limiter.Decisions{}.String())
}
