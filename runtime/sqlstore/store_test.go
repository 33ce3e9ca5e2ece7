package sqlstore

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// Nothing may hang, panic or allow.
func TestNilAndZeroStoresReturnErrNoStore(t *testing.T) {
	for name, s := range map[string]*Store{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			policy := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: 1,
				Lease: runtime.Lease{Tokens: 1, For: time.Second}}
			limits := limiter.New(s)
			_, taken := limits.Limit(policy, runtime.Key{}).Allow(ctx)
			_, inTx := limits.WithTx((*sql.Tx)(nil)).Limit(policy, runtime.Key{}).Allow(ctx)
			_, swept := s.Sweep(ctx, policy)
			for what, err := range map[string]error{
				"Allow": taken, "WithTx": inTx, "Sweep": swept, "Ready": s.Ready(ctx), "Migrate": s.Migrate(ctx), "Close": s.Close(),
			} {
				require.ErrorIs(t, err, runtime.ErrNoStore, what)
				require.ErrorContains(t, err, "the *sqlstore.Store is nil or zero: make it with sqlstore.New", what)
			}
			_, ok := s.TakeLocal(policy, "", 1)
			require.False(t, ok)
			require.NoError(t, ctx.Err())
		})
	}
}

func TestNewRefusesNilDatabaseAndZeroDialect(t *testing.T) {
	s, err := New(nil, dialect.Postgres, Options{})
	require.ErrorIs(t, err, runtime.ErrNoStore)
	require.EqualError(t, err, "the *sql.DB is nil: open the database with sql.Open, and pass it to sqlstore.New")
	require.Nil(t, s)
	s, err = New(&sql.DB{}, dialect.Dialect(99), Options{})
	require.ErrorIs(t, err, runtime.ErrNoStore)
	require.Nil(t, s)
	s, err = New(&sql.DB{}, 0, Options{})
	require.ErrorIs(t, err, runtime.ErrNoStore)
	require.Nil(t, s)
}
