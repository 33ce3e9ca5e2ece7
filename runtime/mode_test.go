package runtime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// counting is a store that counts its calls.
type counting struct {
	*memstore.Store
	calls int
}

func (c *counting) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	c.calls++
	return c.Store.Do(ctx, calls)
}

// inMode returns a limit of three tokens with three more to reserve, at a second each.
func inMode(m runtime.Mode) *runtime.Policy {
	p := reservable(3)
	p.Mode = m
	return p
}

// TestModes is the table of runtime.Mode: the answer of each verb to a key without tokens, and how many calls reached the
// store.
func TestModes(t *testing.T) {
	spent := runtime.Decision{Allowed: true, Taken: 3, TakenAt: epoch}
	ask := map[string]func(t *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error){
		"Allow": func(_ *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			d, err := l.Allow(ctx)
			return d.String(), err
		},
		"AllowN(4)": func(_ *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			d, err := l.AllowN(ctx, 4)
			return d.String(), err
		},
		"Check": func(_ *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			d, err := l.Check(ctx)
			return d.String(), err
		},
		"Require": func(_ *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			return "nil", l.Require(ctx)
		},
		"Wait": func(_ *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			return "nil", l.Wait(ctx)
		},
		"Reserve, Settle(3)": func(t *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			r, err := l.Reserve(ctx)
			require.NoError(t, err)
			return r.Decision.String(), r.Settle(ctx, 3)
		},
		"ReserveN(4), Cancel": func(t *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			r, err := l.ReserveN(ctx, 4)
			require.NoError(t, err)
			return r.Decision.String(), r.Cancel(ctx)
		},
		"Refund": func(_ *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			d, err := l.Refund(ctx, spent)
			return d.String(), err
		},
		"Peek": func(_ *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			b, err := l.Peek(ctx)
			return b.String(), err
		},
		"Reset": func(_ *testing.T, ctx context.Context, l limiter.ReservableLimit) (string, error) {
			return "nil", l.Reset(ctx)
		},
	}
	type row struct {
		verb   string
		want   string
		calls  int
		tokens float64 // of the enforced limit of that name afterwards
	}
	uncounted := []row{
		{"Allow", "allowed", 0, 0},
		{"AllowN(4)", "allowed", 0, 0},
		{"Check", "allowed", 0, 0},
		{"Require", "nil", 0, 0},
		{"Wait", "nil", 0, 0},
		{"Reserve, Settle(3)", "allowed", 0, 0},
		{"ReserveN(4), Cancel", "allowed", 0, 0},
		{"Refund", "allowed", 0, 0},
		{"Peek", "unlimited", 0, 0},
		{"Reset", "nil", 1, 3},
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
			{"Reset", "nil", 1, 3},
		},
		runtime.ModeShadow: {
			{"Allow", "allowed in shadow mode, would be denied", 1, 0},
			{"AllowN(4)", "allowed in shadow mode, would be denied", 1, 0},
			{"Check", "allowed in shadow mode, would be denied", 1, 0},
			{"Require", "nil", 1, 0},
			{"Wait", "nil", 1, -1},
			{"Reserve, Settle(3)", "allowed in shadow mode, would be delayed", 2, -3},
			{"ReserveN(4), Cancel", "allowed in shadow mode, would be denied", 1, 0},
			{"Refund", "allowed, 1 left", 1, 1},
			{"Peek", "0 of 3 left, full after 3s", 1, 0},
			{"Reset", "nil", 1, 3},
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
			{"Reset", "nil", 1, 3},
		},
	} {
		for _, row := range rows {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				store := &counting{Store: still()}
				limits := limiter.New(store)
				enforced := inMode(runtime.ModeEnforce)
				do(t, store.Store, call(request(enforced, take(3))))
				// A plan's unlimited policy has no numbers.
				p := inMode(mode)
				if mode == runtime.ModeUnlimited {
					p = &runtime.Policy{Name: p.Name, Kind: p.Kind, Mode: mode}
				}
				got, err := ask[row.verb](t, t.Context(), limits.Reservable(p, runtime.KeyOf(runtime.String("k"))))
				if err != nil {
					require.ErrorContains(t, err, row.want, "%v: %s", mode, row.verb)
				} else {
					require.Equal(t, row.want, got, "%v: %s", mode, row.verb)
				}
				require.Equal(t, row.calls, store.calls, "%v: %s: calls of the store", mode, row.verb)
				require.Equal(t, row.tokens, left(t, store.Store, enforced), "%v: %s", mode, row.verb)
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

// In shadow mode, AllowUpTo lets more tokens be used than there are. What was not used of those comes first: it was not taken.
func TestRefundOfMoreThanShadowModeHasTaken(t *testing.T) {
	for _, row := range []struct{ unused, left int64 }{{0, 0}, {3, 0}, {4, 0}, {6, 2}, {9, 5}, {20, 5}} {
		shadow := bucket("shadow", 5)
		shadow.Mode = runtime.ModeShadow
		limit := limiter.New(still()).Limit(shadow, runtime.Key{})
		d, err := limit.AllowUpTo(t.Context(), 9)
		require.NoError(t, err)
		require.EqualValues(t, 9, d.Taken)
		after, err := limit.RefundN(t.Context(), d, row.unused)
		require.NoError(t, err)
		require.Equal(t, row.left, after.Remaining, "%d unused", row.unused)
	}
}

// A shadow limit takes exactly what an enforced one takes, and is Shadowed exactly when that denies, delays, or refuses
// a count beyond the capacity.
func TestShadowTakesWhatEnforcingTakes(t *testing.T) {
	d := roll(47)
	seen := map[bool]int{}
	for range randomSteps() / traceSteps / 5 {
		enforced := d.policy(t)
		shadow := enforced
		shadow.Mode = runtime.ModeShadow
		now := epoch
		stores := []runtime.Store{clocked(&now), clocked(&now)}
		for range traceSteps {
			q := d.request(enforced)
			if enforced.Shards > 2 && q.Op != runtime.Charge && q.Op != runtime.Refund {
				q.Op = runtime.Peek // which shards are used is random
			}
			want := do(t, stores[0], call(request(&enforced, q)))[0]
			got := do(t, stores[1], call(request(&shadow, q)))[0]
			exceeds := errors.Is(want.Err, runtime.ErrExceedsCapacity) && (q.Op == runtime.Take || q.Op == runtime.Check)
			if want.Err != nil && !exceeds {
				require.Equal(t, want.Err, got.Err)
				continue
			}
			require.True(t, got.Allowed(), "%+v", got)
			shadowed := exceeds || !want.Allowed() || want.Decisions[0].Delay > 0
			require.Equal(t, shadowed, got.Decisions[0].Shadowed, "%+v: %+v, %+v", q, want, got)
			seen[shadowed]++
			if !exceeds {
				require.Equal(t, want.Decisions[0].Value, got.Decisions[0].Value)
				require.Equal(t, want.Decisions[0].TakenAt, got.Decisions[0].TakenAt)
			}
			now = now.Add(d.upTo(min(enforced.Period, 24*time.Hour)))
		}
	}
	require.Greater(t, seen[true], 100)
	require.Greater(t, seen[false], 100)
}

func TestShadowPassesWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := limiter.New(&faulty{Store: still(), err: errDown})
		limit := func(m runtime.Mode, o runtime.OnError) limiter.Limit {
			p := onError(o)
			p.Name, p.Mode = m.String()+" "+o.String(), m
			return limits.Limit(p, runtime.Key{})
		}
		shadow := limit(runtime.ModeShadow, runtime.FailClosed)
		d, err := shadow.Allow(t.Context())
		require.NoError(t, err)
		require.Equal(t, errDown, d.FailedOpen)

		off, block := limit(runtime.ModeOff, runtime.FailClosed), limit(runtime.ModeBlock, runtime.FailClosed)
		open, closed := limit(runtime.ModeEnforce, runtime.FailOpen), limit(runtime.ModeEnforce, runtime.FailClosed)
		_, err = limits.All(t.Context(), shadow, closed)
		require.ErrorIs(t, err, errDown, "one of them must be enforced")
		ds, err := limits.All(t.Context(), shadow, off, open)
		require.NoError(t, err)
		require.True(t, ds.Allowed)
		require.NoError(t, ds.Each[1].FailedOpen, "nothing has failed for a limit that does not use the store")
		ds, err = limits.All(t.Context(), open, block)
		require.NoError(t, err)
		require.False(t, ds.Allowed, "a block does not depend on the store")
		require.Equal(t, runtime.Never, ds.RetryAfter)
		require.Equal(t, `denied by "block closed", no retry passes`, ds.String())
	})
}

func TestUnlimitedPolicyNeedsNoNumbers(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Mode: runtime.ModeUnlimited}
	require.ErrorIs(t, p.Validate(), runtime.ErrInvalidPolicy, "the kind is missing")
	for _, p.Kind = range runtime.Kinds() {
		require.NoError(t, p.Validate())
	}
	p.Shards = -1
	require.EqualError(t, p.Validate(), "invalid policy: shards -1 is not between 0 and 1024")
}

// The rows of a plan without a limit are those that other plans have left.
func TestUnlimitedPolicyDoesNotJudgeSweeps(t *testing.T) {
	p, unlimited := bucket("limit", 3), &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited}
	now := epoch
	store := clocked(&now)
	do(t, store, call(request(p, take(1))))
	for _, row := range []struct {
		after    time.Duration
		policies []*runtime.Policy
		deleted  int
	}{
		{0, []*runtime.Policy{unlimited}, 0},
		{0, []*runtime.Policy{unlimited, p}, 0},
		{2 * time.Hour, []*runtime.Policy{unlimited}, 0},
		{0, []*runtime.Policy{unlimited, p}, 1},
	} {
		now = now.Add(row.after)
		n, err := store.Sweep(t.Context(), row.policies...)
		require.NoError(t, err)
		require.Equal(t, row.deleted, n)
	}
}

// A wait that must be refunded, because the context ends, must not refund tokens that it has not taken.
func TestUncountedWaitRefundsNothing(t *testing.T) {
	store := still()
	enforced := inMode(runtime.ModeEnforce)
	do(t, store, call(request(enforced, runtime.Request{Count: 6, Reserve: true})))
	ctx, cancel := context.WithCancel(t.Context())
	limit := limiter.New(&canceling{store, cancel}).Reservable(inMode(runtime.ModeShadow), runtime.KeyOf(runtime.String("k")))
	require.ErrorIs(t, limit.Wait(ctx), context.Canceled)
	require.Equal(t, -3.0, left(t, store, enforced))
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
