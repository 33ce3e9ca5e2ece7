package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// inMode returns a limit of three tokens with three more to reserve, at a second each.
func inMode(m runtime.Mode) *runtime.Policy {
	p := reservable(3)
	p.Mode = m
	return p
}

// TestModes is the table of runtime.Mode: the answer of each verb to a key without tokens, and how many calls reached
// the store.
func TestModes(t *testing.T) {
	spent := runtime.Decision{Allowed: true, Taken: 3, TakenAt: epoch}
	ask := map[string]func(ctx context.Context, l limiter.ReservableLimit) (any, error){
		"Allow":     func(ctx context.Context, l limiter.ReservableLimit) (any, error) { return l.Allow(ctx) },
		"AllowN(4)": func(ctx context.Context, l limiter.ReservableLimit) (any, error) { return l.AllowN(ctx, 4) },
		"Check":     func(ctx context.Context, l limiter.ReservableLimit) (any, error) { return l.Check(ctx) },
		"Require":   func(ctx context.Context, l limiter.ReservableLimit) (any, error) { return nil, l.Require(ctx) },
		"Wait":      func(ctx context.Context, l limiter.ReservableLimit) (any, error) { return nil, l.Wait(ctx) },
		"Reserve, Settle(3)": func(ctx context.Context, l limiter.ReservableLimit) (any, error) {
			r := must(l.Reserve(ctx))
			return r.Decision, r.Settle(ctx, 3)
		},
		"ReserveN(4), Cancel": func(ctx context.Context, l limiter.ReservableLimit) (any, error) {
			r := must(l.ReserveN(ctx, 4))
			return r.Decision, r.Cancel(ctx)
		},
		"Refund": func(ctx context.Context, l limiter.ReservableLimit) (any, error) { return l.Refund(ctx, spent) },
		"Peek":   func(ctx context.Context, l limiter.ReservableLimit) (any, error) { return l.Peek(ctx) },
		"Reset":  func(ctx context.Context, l limiter.ReservableLimit) (any, error) { return nil, l.Reset(ctx) },
	}
	type row struct {
		verb   string
		want   string
		calls  int64
		tokens float64 // of the enforced limit of that name afterwards
	}
	uncounted := []row{
		{"Allow", "allowed", 0, 0},
		{"AllowN(4)", "allowed", 0, 0},
		{"Check", "allowed", 0, 0},
		{"Require", "<nil>", 0, 0},
		{"Wait", "<nil>", 0, 0},
		{"Reserve, Settle(3)", "allowed", 0, 0},
		{"ReserveN(4), Cancel", "allowed", 0, 0},
		{"Refund", "allowed", 0, 0},
		{"Peek", "unlimited", 0, 0},
		{"Reset", "<nil>", 1, 3},
	}
	for mode, rows := range map[runtime.Mode][]row{
		runtime.ModeEnforce: {
			{"Allow", "denied, retry after 1s", 1, 0},
			{"AllowN(4)", "count exceeds capacity", 1, 0},
			{"Check", "denied, retry after 1s", 1, 0},
			{"Require", "rate limited", 1, 0},
			{"Reserve, Settle(3)", "reserved, use after 1s", 2, -3},
			{"ReserveN(4), Cancel", "the reservation was denied, or is already settled or cancelled", 1, 0},
			{"Refund", "allowed, 1 left", 1, 1},
			{"Peek", "0 of 3 left, full after 3s", 1, 0},
			{"Reset", "<nil>", 1, 3},
		},
		runtime.ModeShadow: {
			{"Allow", "allowed in shadow mode, would be denied", 1, 0},
			{"AllowN(4)", "allowed in shadow mode, would be denied", 1, 0},
			{"Check", "allowed in shadow mode, would be denied", 1, 0},
			{"Require", "<nil>", 1, 0},
			{"Wait", "<nil>", 1, -1},
			{"Reserve, Settle(3)", "allowed in shadow mode, would be delayed", 2, -3},
			{"ReserveN(4), Cancel", "allowed in shadow mode, would be denied", 1, 0},
			{"Refund", "allowed, 1 left", 1, 1},
			{"Peek", "0 of 3 left, full after 3s", 1, 0},
			{"Reset", "<nil>", 1, 3},
		},
		runtime.ModeOff:       uncounted,
		runtime.ModeUnlimited: uncounted,
		runtime.ModeBlock: {
			{"Allow", "denied, no retry passes", 0, 0},
			{"AllowN(4)", "denied, no retry passes", 0, 0},
			{"Check", "denied, no retry passes", 0, 0},
			{"Require", `limit "limit": rate limited, no retry passes`, 0, 0},
			{"Wait", `limit "limit": rate limited, no retry passes`, 0, 0},
			{"Reserve, Settle(3)", "the reservation was denied, or is already settled or cancelled", 0, 0},
			{"ReserveN(4), Cancel", "the reservation was denied, or is already settled or cancelled", 0, 0},
			{"Refund", "allowed, 1 left", 1, 1},
			{"Peek", "blocked with 0 of 3 left, full after 3s", 1, 0},
			{"Reset", "<nil>", 1, 3},
		},
	} {
		for _, row := range rows {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				mem := still()
				store := &counted{Store: mem}
				limits := limiter.New(store)
				enforced := inMode(runtime.ModeEnforce)
				runtimetest.Do(t, mem, runtimetest.Call(runtimetest.Of(enforced, runtimetest.Take(3))))
				// A plan's unlimited policy has no numbers.
				p := inMode(mode)
				if mode == runtime.ModeUnlimited {
					p = &runtime.Policy{Name: p.Name, Kind: p.Kind, Mode: mode}
				}
				got, err := ask[row.verb](t.Context(), limits.Reservable(p, runtime.KeyOf(runtime.String("k"))))
				if err != nil {
					require.ErrorContains(t, err, row.want, "%v: %s", mode, row.verb)
				} else {
					require.Equal(t, row.want, fmt.Sprint(got), "%v: %s", mode, row.verb)
				}
				require.Equal(t, row.calls, store.calls.Load(), "%v: %s: calls of the store", mode, row.verb)
				require.Equal(t, row.tokens, runtimetest.Left(t, mem, enforced), "%v: %s", mode, row.verb)
				require.Equal(t, start, time.Now(), "%v: %s must not wait", mode, row.verb)
			})
		}
	}
}

func TestInvalidCountIsAnErrorInEveryMode(t *testing.T) {
	limits := limiter.New(still())
	for _, mode := range append(runtime.Modes(), runtime.ModeUnlimited) {
		_, err := limits.Limit(inMode(mode), runtime.Key{}).AllowN(t.Context(), -1)
		require.ErrorIs(t, err, runtime.ErrInvalidCount, "%v", mode)
	}
}

// A wait that must be refunded, because the context ends, must not refund tokens that it has not taken.
func TestUncountedWaitRefundsNothing(t *testing.T) {
	store := still()
	enforced := inMode(runtime.ModeEnforce)
	runtimetest.Do(t, store, runtimetest.Call(runtimetest.Of(enforced, runtime.Request{Count: 6, Reserve: true})))
	ctx, cancel := context.WithCancel(t.Context())
	limit := limiter.New(&canceling{store, cancel}).Reservable(inMode(runtime.ModeShadow), runtime.KeyOf(runtime.String("k")))
	require.ErrorIs(t, limit.Wait(ctx), context.Canceled)
	require.Equal(t, -3.0, runtimetest.Left(t, store, enforced))
}

// canceling is a store that cancels the context of its caller after a call.
type canceling struct {
	runtime.Store
	cancel func()
}

func (c *canceling) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers, err := c.Store.Do(context.WithoutCancel(ctx), calls)
	c.cancel()
	return answers, err
}
