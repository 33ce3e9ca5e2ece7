package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// printed is the usage of a limit with prices: a page costs 2.5 tokens.
type printed int64

func (p printed) Cost() (int64, error) {
	return runtime.Prices{{Name: "pages", Millionths: 2_500_000}}.Cost(int64(p))
}

// Costs are taken from leased blocks and from shards, reserved, settled and rolled back, as counts are.
func TestCostsOfEveryKindAreSettled(t *testing.T) {
	window := runtime.Policy{Name: "window", Kind: runtime.FixedWindow, Rate: 1_000, Capacity: 1_000, Period: 1_000 * time.Hour, MaxReserved: 100}
	leased, sharded, penalized, sliding, precise := window, window, window, window, window
	leased.Name, leased.MaxReserved, leased.Lease = "leased", 0, runtime.Lease{Tokens: 500, For: time.Hour}
	sharded.Name, sharded.Shards = "sharded", 4
	penalized.Name, penalized.MaxReserved, penalized.Penalty = "penalized", 0, runtime.PenaltyOf(0, time.Hour)
	sliding.Name, sliding.Kind, sliding.MaxReserved = "sliding", runtime.SlidingWindow, 0
	precise = sliding
	precise.Name, precise.Precise = "precise", true
	for _, p := range []*runtime.Policy{&window, &leased, &sharded, &penalized, &sliding, &precise} {
		t.Run(p.Name, func(t *testing.T) {
			db, store := app(t)
			limits := limiter.New(store)
			key := runtime.KeyOf(runtime.Int64(7))
			limit := limiter.Priced[printed](limits.Limit(p, key))
			used := func(want int64) {
				t.Helper()
				// Leased tokens count as used until the block is given back.
				if b := must(limit.Peek(t.Context()))(t); p.Lease.Tokens == 0 {
					assert.Equal(t, want, b.Used)
				}
			}
			assert.True(t, must(limit.Allow(t.Context(), 11))(t).Allowed)
			used(28)
			r := must(limit.Reserve(t.Context(), 40))(t)
			require.True(t, r.Allowed)
			used(128)
			require.NoError(t, r.Settle(t.Context(), 1))
			used(31)
			r = must(limit.Reserve(t.Context(), 1))(t)
			require.NoError(t, r.Settle(t.Context(), 41))
			used(31 + 103)
			d := must(limit.Charge(t.Context(), 2))(t)
			used(31 + 103 + 5)
			must(limit.Refund(t.Context(), d))(t)
			used(31 + 103)

			tx := must(db.BeginTx(t.Context(), nil))(t)
			inside := limiter.Priced[printed](limits.WithTx(tx).Limit(p, key))
			assert.True(t, must(inside.Allow(t.Context(), 100))(t).Allowed)
			require.NoError(t, tx.Rollback())
			used(31 + 103)

			assert.False(t, must(limit.Allow(t.Context(), 399))(t).Allowed)
			d = must(limit.Allow(t.Context(), 1))(t)
			assert.Equal(t, !p.Penalizes(), d.Allowed, "a cost that is denied has a penalty too")
			_, err := limit.Allow(t.Context(), 401)
			assert.ErrorIs(t, err, runtime.ErrExceedsCapacity)

			// With the blocks given back, and without those of other processes.
			require.NoError(t, store.Close())
			again := must(sqlstore.New(db, dialect.SQLite, sqlstore.Options{}))(t)
			want := int64(31 + 103)
			if d.Allowed {
				want += 3
			}
			assert.Equal(t, want, must(limiter.New(again).Limit(p, key).Peek(t.Context()))(t).Used)
		})
	}
}
