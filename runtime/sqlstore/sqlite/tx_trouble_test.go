package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// TestTxNil has no transaction, be it in a variable of the type of one.
func TestTxNil(t *testing.T) {
	_, store := app(t)
	for _, tx := range []runtime.Tx{nil, (*sql.Tx)(nil), (*sql.Conn)(nil)} {
		d, err := runtime.NewLimiter(store).WithTx(tx).Limit(told, runtime.Key{}).Allow(t.Context())
		require.ErrorIs(t, err, runtime.ErrNilTx)
		require.EqualError(t, err, `limit "told": the transaction is nil`)
		assert.False(t, d.Allowed)
	}
}

// TestTxOfAnotherDatabase says what to do where the transaction's database has no table.
func TestTxOfAnotherDatabase(t *testing.T) {
	_, store := app(t)
	limiter := runtime.NewLimiter(store)
	require.NoError(t, limiter.Limit(told, runtime.Key{}).Require(t.Context()))

	other, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "other.db"))
	require.NoError(t, err)
	defer other.Close()
	err = sqlstore.RunInTx(t.Context(), other, func(tx *sql.Tx) error {
		return limiter.WithTx(tx).Limit(told, runtime.Key{}).Require(t.Context())
	})
	assert.ErrorContains(t, err, `limit "told": there is no table "rate_limits" where the transaction was begun: begin it in the database that holds the counts, or create the table there: call Migrate, or run what "ratelimitgen sql -dialect sqlite" prints: `)
	assert.ErrorContains(t, err, "no such table: rate_limits")
}
