package livetest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// execModes are all modes in which pgx sends statements.
var execModes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// onEachWay is onEach, with pgx in each of its modes and lib/pq with binary parameters too.
func onEachWay(t *testing.T, test func(t *testing.T, s server)) {
	onEach(t, test)
	for _, mode := range execModes[1:] {
		s := servers[0].with("default_query_exec_mode=" + mode)
		atOnce(t, s.name+"-"+mode, func(t *testing.T) { test(t, s) })
	}
	atOnce(t, "postgres-pq-binary", func(t *testing.T) { test(t, servers[1].with("binary_parameters=yes")) })
}

// used are the policies of useEverything: each has the capacity 2.
func used() []*runtime.Policy {
	precise := once("precise", 2)
	precise.Kind, precise.Rate, precise.Precise = runtime.SlidingWindow, 2, true
	penalized := once("penalized", 2)
	penalized.Penalty = runtime.PenaltyOf(0, time.Hour)
	held := &runtime.Policy{Name: "held", Kind: runtime.InFlight, Rate: 2, Capacity: 2, Period: runtime.MaxPeriod / 2}
	sharded := once("sharded", 2)
	sharded.Rate, sharded.Shards = 2, 2
	overridden := overridable()
	overridden.Name, overridden.Rate, overridden.Capacity = "overridden", 2, 2
	return []*runtime.Policy{once("plain", 2), precise, penalized, held, sharded, overridden}
}

// useEverything takes what limits of each kind have, and runs all other statements of a store too.
func useEverything(ctx context.Context, t *testing.T, db *sql.DB, store *sqlstore.Store) {
	t.Helper()
	limits, policies := limiter.New(store), used()
	key := func(i int) runtime.Key { return runtime.KeyOf(runtime.Int(i)) }
	for _, p := range policies {
		for i := range 3 {
			d, err := limits.Limit(p, key(0)).Allow(ctx)
			require.NoError(t, err, p.Name)
			assert.Equal(t, i < 2, d.Allowed, "%s, request %d", p.Name, i+1)
		}
		b, err := limits.Limit(p, key(0)).Peek(ctx)
		require.NoError(t, err, p.Name)
		assert.Zero(t, b.Remaining, p.Name)
		for i := range 3 {
			require.NoError(t, sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
				d, err := limits.WithTx(tx).Limit(p, key(1)).Allow(ctx)
				assert.Equal(t, i < 2, d.Allowed, "%s, request %d in a transaction", p.Name, i+1)
				return err
			}), p.Name)
		}
		require.NoError(t, limits.Limit(p, key(1)).Reset(ctx), p.Name)
	}
	// Several keys of a limit at once, and several limits.
	many := make([]runtime.Call, 8)
	for i := range many {
		many[i] = runtime.Call{Requests: []runtime.Request{{Policy: policies[i%2], Key: fmt.Sprint(10 + i/4), Count: 1}}}
	}
	answers, err := store.Do(ctx, many)
	require.NoError(t, err)
	for i := range answers {
		assert.True(t, answers[i].Allowed(), "call %d", i)
	}
	for i := range 3 {
		ds, err := limits.All(ctx, limits.Limit(policies[0], key(20)), limits.Limit(policies[4], key(20)), limits.Limit(policies[1], key(20)))
		require.NoError(t, err)
		assert.Equal(t, i < 2, ds.Allowed, "All, request %d", i+1)
	}
	overrides, why := limits.Overrides(policies[5], key(30)), runtime.OverrideEnd{Reason: "a test", Author: "a test"}
	require.NoError(t, func() error {
		_, err := overrides.Block(ctx, runtime.Block{Until: runtime.ForGood, Reason: "a test", Author: "a test"})
		return err
	}())
	require.ErrorIs(t, limits.Limit(policies[5], key(30)).Require(ctx), runtime.ErrLimited)
	log, err := store.OverrideHistory(ctx, "overridden", "30")
	require.NoError(t, err)
	assert.Len(t, log, 1)
	_, err = overrides.End(ctx, why)
	require.NoError(t, err)
	require.NoError(t, limits.Limit(policies[5], key(30)).Require(ctx))
	erased, err := store.Erase(ctx, "overridden", "30", why)
	require.NoError(t, err)
	assert.Equal(t, 1, erased.Rows)
	require.NoError(t, sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
		_, err := store.WithTx(tx).(runtime.Eraser).Erase(ctx, "overridden", "0", why)
		return err
	}))
	rows, _, err := store.Rows(ctx, runtime.Row{Name: "precise", Shard: -1}, 10)
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	assert.NotEmpty(t, rows[0].State.Log)
	_, err = store.Sweep(ctx, policies...)
	require.NoError(t, err)
	deleted, err := store.Forget(ctx, "precise")
	require.NoError(t, err)
	assert.Positive(t, deleted)
}

// emptied creates a store in tables of the default schema, and leaves its own pool unused.
func (s server) emptied(t *testing.T, db *sql.DB) (table string) {
	table = newTable()
	require.NoError(t, s.storeIn(t, db, table, nil).Migrate(t.Context(), used()...))
	return table
}

// elsewhere makes a schema with tables of the same names, and returns the statement that has a session find them first.
func (s server) elsewhere(t *testing.T, db *sql.DB, table string) (schema, use string) {
	t.Helper()
	schema = newTable()
	execute(t, db, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		execute(t, db, "DROP SCHEMA "+schema+map[string]string{"postgres": " CASCADE"}[s.protocol()])
	})
	other := must(sqlstore.New(db, s.dialect, sqlstore.Options{Table: schema + "." + table}))(t)
	t.Cleanup(func() { other.Close() })
	require.NoError(t, other.Migrate(t.Context(), used()...))
	if s.protocol() == "postgres" {
		return schema, "SET search_path = " + schema + ", public"
	}
	return schema, "USE " + schema
}

// rowsIn returns the number of rows of a table.
func rowsIn(t *testing.T, db *sql.DB, table string) (rows int) {
	t.Helper()
	require.NoError(t, db.QueryRow("SELECT count(*) FROM "+table).Scan(&rows))
	return rows
}

// Another client of a pooler, or of the pool, leaves a session with a search path or a database in which there are tables of the
// same names.
func TestAnotherSchemaOfTheSessionChangesNothing(t *testing.T) {
	onEachWay(t, func(t *testing.T, s server) {
		admin := s.open(t)
		table := s.emptied(t, admin)
		schema, use := s.elsewhere(t, admin, table)
		db := s.open(t)
		db.SetMaxOpenConns(1)
		store := must(sqlstore.New(db, s.dialect, sqlstore.Options{Table: table}))(t)
		defer store.Close()
		require.NoError(t, store.Ready(t.Context(), used()...))
		execute(t, db, use)
		require.NoError(t, store.Ready(t.Context(), used()...))
		require.NoError(t, store.Migrate(t.Context(), used()...))
		useEverything(t.Context(), t, db, store)
		for _, of := range []string{table, dialect.OverridesTable(table)} {
			assert.Zero(t, rowsIn(t, admin, schema+"."+of))
			assert.NotZero(t, rowsIn(t, admin, of))
		}
	})
}

// The same in a transaction of the caller, which is the first call of the store.
func TestSchemaOfTheCallersTransactionChangesNothing(t *testing.T) {
	onEachWay(t, func(t *testing.T, s server) {
		db := s.open(t)
		table := s.emptied(t, db)
		schema, use := s.elsewhere(t, db, table)
		if s.protocol() == "postgres" {
			use = strings.Replace(use, "SET", "SET LOCAL", 1)
		}
		p := used()[5]
		for _, connections := range []int{2, 0} {
			pool := s.open(t)
			pool.SetMaxOpenConns(connections)
			store := must(sqlstore.New(pool, s.dialect, sqlstore.Options{Table: table}))(t)
			require.NoError(t, sqlstore.RunInTx(t.Context(), pool, func(tx *sql.Tx) error {
				if _, err := tx.Exec(use); err != nil {
					return err
				}
				return limiter.New(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context())
			}))
			require.NoError(t, store.Close())
		}
		assert.Zero(t, rowsIn(t, db, schema+"."+table))
		assert.Equal(t, 1, rowsIn(t, db, table))
	})
}

// pg_dump empties the search path of the session that a pooler gives it.
func TestEmptySearchPathChangesNothing(t *testing.T) {
	for _, s := range servers[:2] {
		t.Run(s.name, func(t *testing.T) {
			db := s.open(t)
			db.SetMaxOpenConns(1)
			execute(t, db, "SET search_path = ''")
			table := newTable()
			store := must(sqlstore.New(db, s.dialect, sqlstore.Options{Table: table}))(t)
			defer store.Close()
			require.NoError(t, store.Migrate(t.Context(), used()...))
			t.Cleanup(func() {
				for _, of := range []string{table, dialect.OverridesTable(table), dialect.RegistryTable(table)} {
					execute(t, db, "DROP TABLE public."+of)
				}
			})
			fresh := must(sqlstore.New(db, s.dialect, sqlstore.Options{Table: table}))(t)
			defer fresh.Close()
			require.NoError(t, fresh.Ready(t.Context(), used()...))
			useEverything(t.Context(), t, db, fresh)
		})
	}
}

// A session that begins with one table and now finds another does not show which is meant.
func TestTwoTablesOfOneNameAreRefused(t *testing.T) {
	for _, s := range servers[:2] {
		db := s.open(t)
		db.SetMaxOpenConns(1)
		table := s.emptied(t, db)
		schema, use := s.elsewhere(t, db, table)
		execute(t, db, use)
		store := must(sqlstore.New(db, s.dialect, sqlstore.Options{Table: table}))(t)
		says := fmt.Sprintf(`there is a table %q in the schemas`, table)
		for _, err := range []error{store.Ready(t.Context()), take(t.Context(), store), takeInTx(t.Context(), db, store)} {
			assert.ErrorContains(t, err, says)
			assert.ErrorContains(t, err, fmt.Sprintf("%q", schema))
			assert.ErrorContains(t, err, "set Options.Table to schema.table")
		}
		require.NoError(t, store.Close())
		execute(t, db, "RESET search_path")
	}
}

// Names of schemas that need quotes.
func TestSchemaWithAnyNameIsFound(t *testing.T) {
	onEachServer(t, func(t *testing.T, s server) {
		db := s.open(t)
		for i, name := range []string{"my-app", "My App: é", "a.b", "key", "it's", "100%", "a?b", "p$1"} {
			name = fmt.Sprintf("%s %s", newTable(), name)
			quoted := s.dialect.Quote + name + s.dialect.Quote
			execute(t, db, "CREATE SCHEMA "+quoted)
			drop := "DROP SCHEMA " + quoted + map[string]string{"postgres": " CASCADE"}[s.protocol()]
			t.Cleanup(func() { execute(t, db, drop) })
			at := s.database(t, name)
			if s.protocol() == "postgres" {
				at = s.with("search_path=" + strings.ReplaceAll(strings.ReplaceAll(quoted, "%", "%25"), " ", "%20"))
			}
			own := at.open(t)
			store := must(sqlstore.New(own, s.dialect, sqlstore.Options{Table: fmt.Sprint("t", i)}))(t)
			require.NoError(t, store.Migrate(t.Context(), used()...), name)
			require.NoError(t, store.Ready(t.Context(), used()...), name)
			useEverything(t.Context(), t, own, store)
			require.NoError(t, store.Close())
		}
	})
}

// A table's name is also that of the type of its rows.
func TestTableMayHaveTheNameOfAType(t *testing.T) {
	db := servers[0].open(t)
	name := newTable()
	execute(t, db, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, db, "DROP DATABASE "+name+" WITH (FORCE)") })
	s := servers[0].database(t, name)
	own := s.open(t)
	rows := must(own.Query("SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typrelid = 0 AND left(typname, 1) <> '_'"))(t)
	var types []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		types = append(types, name)
	}
	require.NoError(t, rows.Err())
	require.Greater(t, len(types), 50)
	require.Subset(t, types, []string{"text", "path", "box", "date", "uuid"})
	for _, name := range append(types, "_text", "select", "table", "user", "key", "k", "r", "u", "t0", "excluded") {
		store := must(sqlstore.New(own, s.dialect, sqlstore.Options{Table: name}))(t)
		if !assert.NoError(t, store.Migrate(t.Context()), name) {
			continue
		}
		assert.NoError(t, store.Ready(t.Context()), name)
		assert.NoError(t, takeInTx(t.Context(), own, store), name)
		assert.NoError(t, take(t.Context(), store), name)
		precise := used()[1]
		limits := limiter.New(store)
		for i := range 3 {
			ds, err := limits.All(t.Context(), limits.Limit(precise, runtime.Key{}), limits.Limit(once("plain", 5), runtime.Key{}))
			assert.NoError(t, err, name)
			assert.Equal(t, i < 2, ds.Allowed, name)
		}
		assert.NoError(t, sweep(t.Context(), store), name)
		assert.NoError(t, store.Close())
	}
}
