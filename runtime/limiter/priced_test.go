package limiter_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// spent is a usage as generated code has it.
type spent struct{ Input, Cached, Output int64 }

func (u spent) Cost() (int64, error) {
	return runtime.Prices{{Name: "input", Millionths: 3_000_000}, {Name: "cached", Millionths: 300_000}, {Name: "output", Millionths: 15_000_000}}.Cost(u.Input, u.Cached, u.Output)
}

func spendPolicy(change ...func(*runtime.Policy)) *runtime.Policy {
	p := &runtime.Policy{Name: "llmSpend", Kind: runtime.FixedWindow, Rate: 1_000, Period: time.Hour, Capacity: 1_000, Start: runtime.StartOffset(0)}
	for _, c := range change {
		c(p)
	}
	return p
}

func reserving(p *runtime.Policy) { p.MaxReserved = 500 }

func pricedLimit(limits *limiter.Limiter, p *runtime.Policy, key string) limiter.PricedLimit[spent] {
	return limiter.Priced[spent](limits.Limit(p, runtime.KeyOf(runtime.String(key))))
}

// Each row is one request of a team that has 1,000 micro-dollars, by one method after the other.
func TestPricedLimitTakesTheCost(t *testing.T) {
	limits := limiter.New(still())
	team := pricedLimit(limits, spendPolicy(), "blue")
	for _, row := range []struct {
		name string
		do   func(context.Context, limiter.PricedLimit[spent], spent) (bool, error)
		used spent
		want bool
		left int64
	}{
		{"Allow", allowPriced, spent{Input: 100, Output: 20}, true, 400},
		{"Check", checkPriced, spent{Output: 20}, true, 400},
		{"Check", checkPriced, spent{Output: 27}, false, 400},
		{"Allow", allowPriced, spent{Output: 27}, false, 400},
		{"Allow", allowPriced, spent{}, true, 400},
		{"Allow, rounded up", allowPriced, spent{Cached: 1}, true, 399},
		{"Require", requirePriced, spent{Input: 3}, true, 390},
		{"Require", requirePriced, spent{Input: 131}, false, 390},
		{"Wait", waitPriced, spent{Input: 30}, true, 300},
		{"Charge", chargePriced, spent{Output: 40}, true, 0},
	} {
		allowed, err := row.do(t.Context(), team, row.used)
		require.NoError(t, err, row.name)
		assert.Equal(t, row.want, allowed, "%s %+v", row.name, row.used)
		assert.Equal(t, row.left, must(team.Peek(t.Context())).Remaining, "%s %+v", row.name, row.used)
	}
	b := must(team.Peek(t.Context()))
	assert.Equal(t, int64(1_300), b.Used, "what was charged beyond the limit is used too")
	require.NoError(t, team.Reset(t.Context()))

	_, err := team.Allow(t.Context(), spent{Output: 67})
	assert.ErrorIs(t, err, runtime.ErrExceedsCapacity)
	d := must(team.Allow(t.Context(), spent{Output: 10}))
	assert.Equal(t, int64(1_000), must(team.Refund(t.Context(), d)).Remaining, "all that was taken is refunded")
	assert.Equal(t, int64(1_000), must(team.Refund(t.Context(), d)).Remaining, "once")
}

func allowPriced(ctx context.Context, l limiter.PricedLimit[spent], u spent) (bool, error) {
	d, err := l.Allow(ctx, u)
	return d.Allowed, err
}

func checkPriced(ctx context.Context, l limiter.PricedLimit[spent], u spent) (bool, error) {
	d, err := l.Check(ctx, u)
	return d.Allowed, err
}

func chargePriced(ctx context.Context, l limiter.PricedLimit[spent], u spent) (bool, error) {
	d, err := l.Charge(ctx, u)
	return d.Allowed, err
}

func requirePriced(ctx context.Context, l limiter.PricedLimit[spent], u spent) (bool, error) {
	return denied(l.Require(ctx, u))
}

func waitPriced(ctx context.Context, l limiter.PricedLimit[spent], u spent) (bool, error) {
	return denied(l.Wait(ctx, u))
}

// denied returns whether an error is no denial, and the error if it is another one.
func denied(err error) (bool, error) {
	if errors.Is(err, runtime.ErrLimited) {
		return false, nil
	}
	return err == nil, err
}

// A stream reserves an estimate, and settles for its usage: less, as much or more. Then the key is as if only that had been
// taken, whether or not the limit has reservations.
func TestStreamSettlesItsUsage(t *testing.T) {
	for _, policy := range []*runtime.Policy{
		spendPolicy(), spendPolicy(reserving), spendPolicy(func(p *runtime.Policy) { p.Kind, p.Start = runtime.TokenBucket, runtime.Start{} }),
		spendPolicy(func(p *runtime.Policy) { p.Kind = runtime.SlidingWindow }), spendPolicy(func(p *runtime.Policy) { p.Shards = 4 }, reserving),
	} {
		limits := limiter.New(still())
		for _, row := range []struct {
			used spent
			left int64
		}{{spent{Input: 100, Output: 8}, 580}, {spent{Input: 100, Output: 20}, 400}, {spent{}, 1_000}, {spent{Input: 101, Output: 40}, 97}, {spent{Cached: 1}, 999}} {
			team := pricedLimit(limits, policy, "blue")
			r := must(team.Reserve(t.Context(), spent{Input: 100, Output: 20}))
			require.True(t, r.Allowed)
			assert.Equal(t, int64(600), r.Taken)
			assert.Zero(t, r.Delay())
			require.NoError(t, r.Wait(t.Context()))
			_, err := spent{Input: -1}.Cost()
			require.ErrorIs(t, err, runtime.ErrInvalidCount)
			require.ErrorIs(t, r.Settle(t.Context(), spent{Input: -1}), runtime.ErrInvalidCount)
			require.ErrorIs(t, r.Settle(t.Context(), spent{Input: math.MaxInt64}), runtime.ErrExceedsCapacity)
			require.NoError(t, r.Settle(t.Context(), row.used), "it is still open")
			assert.ErrorIs(t, r.Settle(t.Context(), row.used), runtime.ErrNotReserved)
			assert.Equal(t, row.left, must(team.Peek(t.Context())).Remaining, "%+v", row.used)
			require.NoError(t, team.Reset(t.Context()))
		}
	}
}

func TestPricedReservations(t *testing.T) {
	now := epoch
	limits := limiter.New(&memstore.Store{Clock: func() time.Time { return now }})
	ahead, plain := pricedLimit(limits, spendPolicy(reserving), "blue"), pricedLimit(limits, spendPolicy(func(p *runtime.Policy) { p.Name = "other" }), "blue")
	require.True(t, must(ahead.Allow(t.Context(), spent{Output: 60})).Allowed)
	require.True(t, must(plain.Allow(t.Context(), spent{Output: 60})).Allowed)

	r := must(plain.Reserve(t.Context(), spent{Output: 20}))
	assert.False(t, r.Allowed, "it has no reservations, so that the cost must be available")
	assert.Equal(t, runtime.Never, r.Delay())
	assert.True(t, r.At().IsZero())

	r = must(ahead.Reserve(t.Context(), spent{Output: 20}))
	assert.True(t, r.Allowed)
	assert.Positive(t, r.Delay())
	assert.Equal(t, now.Add(r.Delay()), r.At())

	// As text, with the job that will use it, and settled by the one that has.
	text := must(r.MarshalText())
	resumed := must(ahead.Resume(text))
	require.NoError(t, resumed.Settle(t.Context(), spent{Output: 6}))
	assert.Equal(t, int64(10), must(ahead.Peek(t.Context())).Remaining)
	_, err := plain.Resume(text)
	assert.ErrorIs(t, err, runtime.ErrInvalidCall, "another limit")

	waited := must(ahead.WaitReserve(t.Context(), spent{Cached: 30}))
	require.NoError(t, waited.Cancel(t.Context()))
	assert.Equal(t, int64(10), must(ahead.Peek(t.Context())).Remaining)
}

// With other limits, all or none.
func TestPricedItems(t *testing.T) {
	limits := limiter.New(still())
	team, calls := pricedLimit(limits, spendPolicy(), "blue"), limits.Limit(&runtime.Policy{Name: "calls", Kind: runtime.TokenBucket, Rate: 2, Capacity: 2, Period: time.Hour}, runtime.Key{})
	left := func() []int64 {
		balances := must(limits.PeekAll(t.Context(), team.Of(spent{}), calls))
		return []int64{balances[0].Remaining, balances[1].Remaining}
	}
	ds := must(limits.All(t.Context(), calls, team.Of(spent{Output: 20})))
	assert.True(t, ds.Allowed)
	assert.Equal(t, []int64{700, 1}, left())
	ds = must(limits.All(t.Context(), calls, team.Of(spent{Output: 50})))
	assert.Equal(t, []string{"llmSpend"}, ds.DeniedBy())
	assert.Equal(t, []int64{700, 1}, left())
	ds = must(limits.All(t.Context(), calls.Checked(), team.CheckedOf(spent{Output: 50})))
	assert.Equal(t, []string{"llmSpend"}, ds.DeniedBy())
	assert.Equal(t, []int64{700, 1}, left())

	rs := must(limits.ReserveAll(t.Context(), calls, team.Of(spent{Output: 20})))
	require.NoError(t, limiter.PricedReservationOf[spent](rs.At(1)).Settle(t.Context(), spent{Output: 1}))
	assert.Equal(t, []int64{685, 0}, left())

	ctx := limiter.WithTaken(t.Context(), must(limits.All(t.Context(), team.Of(spent{Output: 20}))))
	assert.ErrorIs(t, limiter.SettleUsage(ctx, "llmSpend", spent{Output: -1}), runtime.ErrInvalidCount)
	assert.ErrorIs(t, limiter.SettleUsage(ctx, "calls", spent{}), limiter.ErrNotTaken)
	require.NoError(t, limiter.SettleUsage(ctx, "llmSpend", spent{Output: 5}))
	assert.Equal(t, []int64{610, 0}, left())
}

// Units of less than 0 and a cost that is no int64 are errors with the name of the limit, although it fails open, is
// unlimited or off: the store is not reached, and the observer sees each.
func TestInvalidUsageNeverReachesTheStore(t *testing.T) {
	for _, mode := range []runtime.Mode{runtime.ModeEnforce, runtime.ModeShadow, runtime.ModeOff} {
		policy := spendPolicy(reserving, func(p *runtime.Policy) { p.OnError, p.Mode = runtime.FailOpen, mode })
		for _, row := range []struct {
			used spent
			err  error
			text string
		}{
			{spent{Input: 5, Cached: -1}, runtime.ErrInvalidCount, `limit "llmSpend": invalid count: -1 units of cached are less than 0`},
			{spent{Output: math.MaxInt64}, runtime.ErrExceedsCapacity, `limit "llmSpend": count exceeds capacity: the cost is more than 9223372036854775807`},
		} {
			watch := new(spy)
			limits := limiter.New(unreached{t}, limiter.Observe(watch))
			team := pricedLimit(limits, policy, "blue")
			ctx := t.Context()
			for name, do := range map[string]func() error{
				"Allow":       func() error { _, err := team.Allow(ctx, row.used); return err },
				"Charge":      func() error { _, err := team.Charge(ctx, row.used); return err },
				"Require":     func() error { return team.Require(ctx, row.used) },
				"Wait":        func() error { return team.Wait(ctx, row.used) },
				"Reserve":     func() error { _, err := team.Reserve(ctx, row.used); return err },
				"WaitReserve": func() error { _, err := team.WaitReserve(ctx, row.used); return err },
				"All":         func() error { _, err := limits.All(ctx, team.Of(spent{Input: 1}), team.Of(row.used)); return err },
				"ReserveAll":  func() error { _, err := limits.ReserveAll(ctx, team.Of(row.used)); return err },
			} {
				err := do()
				assert.ErrorIs(t, err, row.err, name)
				assert.EqualError(t, err, row.text, name)
				seen := watch.take()
				require.Len(t, seen, 1, name)
				assert.Equal(t, []any{"llmSpend", runtime.OutcomeInvalid}, []any{seen[0].Limit, seen[0].Outcome}, name)
			}
			_, err := team.Check(ctx, row.used)
			assert.EqualError(t, err, row.text)
			_, err = limits.All(ctx, team.CheckedOf(row.used))
			assert.EqualError(t, err, row.text)
		}
	}
}

// The other errors are those of a Limit.
func TestPricedLimitWithoutKeyOrStore(t *testing.T) {
	_, err := limiter.Priced[spent](limiter.Limit{}).Allow(t.Context(), spent{})
	assert.ErrorIs(t, err, runtime.ErrInvalidPolicy)
	_, err = pricedLimit(limiter.New(nil), spendPolicy(), "blue").Allow(t.Context(), spent{Input: 1})
	assert.ErrorIs(t, err, runtime.ErrNoStore)
	_, err = pricedLimit(limiter.New(unreached{t}), spendPolicy(), "").Allow(t.Context(), spent{Input: 1})
	assert.ErrorIs(t, err, runtime.ErrEmptyKey)
}

// costing is a usage that is its cost.
type costing struct{ cost int64 }

func (u costing) Cost() (int64, error) { return u.cost, nil }

// Whatever the kind, the penalty, the shards and the mode, a limit with prices decides as one whose callers pass the cost.
func TestPricedLimitDecidesByItsCost(t *testing.T) {
	for seed := range uint64(runtimetest.Steps() / 100) {
		dice := runtimetest.Roll(seed)
		p := dice.PolicyOf(t, runtimetest.Pick[int64](dice, 3, 10, 97, 40_000))
		if p.Capacity == 0 || p.Calendar.PerKey() {
			continue
		}
		p.Mode = runtimetest.Pick(dice, runtime.ModeEnforce, runtime.ModeEnforce, runtime.ModeShadow)
		switch dice.IntN(4) {
		case 0:
			p.Penalty, p.MaxReserved = runtime.PenaltyOf(0, p.Period), 0
		case 1:
			p.Precise = p.Kind == runtime.SlidingWindow && p.Rate <= 1_000
		}
		if p.Validate() != nil {
			continue
		}
		now := epoch
		count := limiter.New(clocked(&now)).Reservable(&p, runtime.KeyOf(runtime.String("k")))
		priced := limiter.Priced[costing](limiter.New(clocked(&now)).Limit(&p, runtime.KeyOf(runtime.String("k"))))
		var last, lastPriced runtime.Decision
		for step := range 50 {
			if now = now.Add(max(0, dice.Jump(p))); now.UnixNano() > runtimetest.LastInstant {
				break
			}
			n := dice.CountUpTo(p.Capacity)
			var d, want runtime.Decision
			var err, wantErr error
			switch op := dice.IntN(6); {
			case op < 2:
				d, err = priced.Allow(t.Context(), costing{n})
				want, wantErr = count.AllowN(t.Context(), n)
				last, lastPriced = want, d
			case op == 2:
				d, err = priced.Check(t.Context(), costing{n})
				want, wantErr = count.CheckN(t.Context(), n)
			case op == 3:
				d, err = priced.Charge(t.Context(), costing{n})
				want, wantErr = count.Charge(t.Context(), n)
			case op == 4 && lastPriced.Limit != "":
				d, err = priced.Refund(t.Context(), lastPriced)
				want, wantErr = count.RefundN(t.Context(), last, last.Taken)
			default:
				used := dice.CountUpTo(2 * n)
				if p.Reserves() {
					r := must(count.ReserveN(t.Context(), n))
					rp := must(priced.Reserve(t.Context(), costing{n}))
					want, d = r.Decision, rp.Decision
					wantErr, err = r.Settle(t.Context(), used), rp.Settle(t.Context(), costing{used})
					break
				}
				want = must(count.AllowN(t.Context(), n))
				rp := must(priced.Reserve(t.Context(), costing{n}))
				d = rp.Decision
				switch {
				case !d.Allowed || d.TakenAt.IsZero():
					continue
				case used < n:
					must(count.RefundN(t.Context(), want, n-used))
				case used > n:
					must(count.Charge(t.Context(), used-n))
				}
				err = rp.Settle(t.Context(), costing{used})
			}
			require.Equal(t, wantErr, err, "seed %d, step %d: %+v", seed, step, p)
			want.Receipt = d.Receipt // of its own call
			require.Equal(t, want, d, "seed %d, step %d: %+v", seed, step, p)
			require.Equal(t, must(count.Peek(t.Context())), must(priced.Peek(t.Context())), "seed %d, step %d: %+v", seed, step, p)
		}
	}
}
