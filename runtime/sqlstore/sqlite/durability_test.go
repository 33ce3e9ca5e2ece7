package sqlite_test

import (
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// settings are the values of the setting at each write, which the statements pass to test_setting.
var settings []int64

func init() {
	sqlite.MustRegisterScalarFunction("test_setting", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		settings = append(settings, args[0].(int64))
		return int64(1), nil
	})
}

// observed is the dialect with another setting than synchronous, because a statement cannot read that one.
func observed() dialect.Dialect {
	d := dialect.SQLite
	d.Sync = "PRAGMA user_version"
	d.Write = strings.Replace(d.Write, "WHERE true", "WHERE test_setting((SELECT user_version FROM pragma_user_version))", 1)
	d.Take, d.CompareAndSwap = "", ""
	return d
}

// onOne returns a store in a database with one connection, and the database.
func onOne(t *testing.T, d dialect.Dialect) (*sqlstore.Store, *sql.DB) {
	path := filepath.Join(t.TempDir(), "limits.db")
	db := must(sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"))(t)
	db.SetMaxOpenConns(1)
	store := must(agree.NewStore(db, d, sqlstore.Options{}))(t)
	t.Cleanup(func() {
		require.NoError(t, store.Close())
		require.NoError(t, db.Close())
	})
	require.NoError(t, store.Migrate(t.Context()))
	require.NoError(t, store.Ready(t.Context()))
	return store, db
}

func TestOnlyFullDurabilityWaitsForTheDisk(t *testing.T) {
	store, _ := onOne(t, observed())
	limits := limiter.New(store)
	limitOf := func(d runtime.Durability) limiter.Limit {
		p := *counted
		p.Name, p.Durability = d.String(), d
		return limits.Limit(&p, runtime.Key{})
	}
	usual, relaxed, full := limitOf(runtime.DurabilityDefault), limitOf(runtime.DurabilityRelaxed), limitOf(runtime.DurabilityFull)
	for _, row := range []struct {
		what  string
		items []limiter.Item
		want  int64
	}{
		{"as the database is set up", []limiter.Item{usual.N(1)}, 0},
		{"relaxed is no more than that", []limiter.Item{relaxed.N(1)}, 0},
		{"full waits", []limiter.Item{full.N(1)}, 2},
		{"and no longer", []limiter.Item{usual.N(1)}, 0},
		{"together with another", []limiter.Item{relaxed.N(1), full.N(1)}, 2},
		{"without it", []limiter.Item{usual.N(1), relaxed.N(1)}, 0},
	} {
		settings = nil
		_, err := limits.All(t.Context(), row.items...)
		require.NoError(t, err, row.what)
		require.NotEmpty(t, settings, row.what)
		for _, was := range settings {
			assert.Equal(t, row.want, was, row.what)
		}
	}
}

func TestFullDurabilityResetsSynchronous(t *testing.T) {
	store, db := onOne(t, dialect.SQLite)
	p := *counted
	p.Durability = runtime.DurabilityFull
	limit := limiter.New(store).Limit(&p, runtime.Key{})
	for i := range int64(2) {
		d := must(limit.Allow(t.Context()))(t)
		assert.Equal(t, counted.Capacity-1-i, d.Remaining)
		var synchronous string
		require.NoError(t, db.QueryRow("PRAGMA synchronous").Scan(&synchronous))
		assert.Equal(t, "1", synchronous, "NORMAL")
	}
}
