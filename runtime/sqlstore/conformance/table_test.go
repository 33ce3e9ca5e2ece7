package conformance

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// spoiled is a table that the store cannot use: the statement that creates it with the match of was replaced by is.
// says is part of the error.
type spoiled struct{ was, is, says string }

// spoiledTables is by the protocol.
var spoiledTables = map[string][]spoiled{
	"postgres": {
		{`prev .*`, ``, `prev is missing`},
		{`value DOUBLE PRECISION`, `value BIGINT`, `value is "bigint" instead of "double precision"`},
		{`value DOUBLE PRECISION`, `value TEXT`, `value is "text" instead of "double precision"`},
		{`at_ns BIGINT`, `at_ns DOUBLE PRECISION`, `at_ns is "double precision" instead of "bigint"`},
		{`at_ns BIGINT`, `at_ns TIMESTAMPTZ`, `at_ns is "timestamp with time zone" instead of "bigint"`},
		{`("key" TEXT COLLATE) "C"`, `$1 "en-x-icu"`, `key is "text collate en-x-icu" instead of "text"`},
		{`,\s+PRIMARY KEY .*`, ``, `primary key is missing`},
		{`PRIMARY KEY .*`, `UNIQUE (name, "key", shard)`, `primary key is missing`},
		{`(PRIMARY KEY) .*`, `$1 (name, shard)`, `primary key is "name, shard" instead of "name, key, shard"`},
		{`(PRIMARY KEY) .*`, `$1 (name, "key", shard, at_ns)`, `primary key is "name, key, shard, at_ns" instead of "name, key, shard"`},
	},
	"mysql": {
		{`prev .*`, ``, `prev is missing`},
		{`value DOUBLE`, `value BIGINT`, `value is "bigint" instead of "double"`},
		{`at_ns BIGINT`, `at_ns DOUBLE`, `at_ns is "double" instead of "bigint"`},
		{`at_ns BIGINT`, `at_ns BIGINT UNSIGNED`, `at_ns is "bigint unsigned" instead of "bigint"`},
		{"(`key`) VARBINARY(.*) NOT NULL", "$1 VARCHAR$2 COLLATE utf8mb4_general_ci NOT NULL",
			`key is "varchar(255) collate utf8mb4_general_ci" instead of "varbinary(255)"`},
		{"(`key`) VARBINARY.255.", "$1 VARBINARY(100)", `key is "varbinary(100)" instead of "varbinary(255)"`},
		{`,\s+PRIMARY KEY .*`, ``, `primary key is missing`},
		{"NOT NULL((?s:.*))PRIMARY KEY", "NULL${1}UNIQUE KEY", `primary key is missing`},
		{`(PRIMARY KEY) .*`, `$1 (name, shard)`, `primary key is "name, shard" instead of "name, key, shard"`},
		{`InnoDB`, `MyISAM`, `engine is "MyISAM" instead of "InnoDB"`},
	},
}

// spoil creates such a table, and returns a store in it.
func spoil(t *testing.T, s live.Server, db *sql.DB, how spoiled) *sqlstore.Store {
	t.Helper()
	table := live.NewTable()
	ddl := live.Must(s.Dialect.DDL(table))(t)
	changed := regexp.MustCompile(how.was).ReplaceAllString(ddl, how.is)
	require.NotEqual(t, ddl, changed, how.was)
	live.Execute(t, db, changed)
	t.Cleanup(func() { live.Drop(t, db, table) })
	store := s.StoreWith(t, db, sqlstore.Options{Table: table})
	return store
}

// Tables in which counts would not be exact, or could not be stored, are refused: by Ready, and otherwise by the first
// call, also in a transaction of the caller.
func TestTableThatDiffersIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		require.NotEmpty(t, spoiledTables[s.Protocol()])
		for _, how := range spoiledTables[s.Protocol()] {
			t.Run(how.says, func(t *testing.T) {
				if s.Dialect.Name == "mariadb" { // its types of integers have a display width
					how.says = strings.ReplaceAll(how.says, `is "bigint`, `is "bigint(20)`)
				}
				store := spoil(t, s, db, how)
				assert.ErrorContains(t, store.Ready(t.Context()), how.says)
				refuses(t, store, how.says)
				err := takeInTx(t.Context(), db, store)
				assert.ErrorContains(t, err, how.says)
				assert.ErrorContains(t, err, `to what "ratelimitgen sql -dialect `+s.Dialect.Name+` -table rl_`)
			})
		}
	})
}

// refuses requires that the error of a first call contains says, and names the limit.
func refuses(t *testing.T, store runtime.Store, says string) {
	t.Helper()
	d, err := limiter.New(store).Limit(live.Once("limit", 1), runtime.Key{}).Allow(t.Context())
	assert.ErrorContains(t, err, `limit "limit": `)
	assert.ErrorContains(t, err, says)
	assert.False(t, d.Allowed)
	t.Log(err)
}

// Ready accepts tables that Migrate has created, with and without a schema, and tables with additional columns.
func TestUsableTableIsAccepted(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		own := schema(t, s, db)
		for _, table := range []string{live.NewTable(), own + "." + live.NewTable()} {
			store := s.StoreIn(t, db, table, nil)
			require.NoError(t, store.Ready(t.Context()))
			live.Execute(t, db, "ALTER TABLE "+table+" ADD COLUMN note INT NULL")
			require.NoError(t, store.Ready(t.Context()))
			require.NoError(t, limiter.New(store).Limit(live.Once("limit", 1), runtime.Key{}).Require(t.Context()))
			var rows int
			require.NoError(t, db.QueryRow("SELECT count(*) FROM "+table).Scan(&rows))
			assert.Equal(t, 1, rows, "Ready leaves no row")
		}
	})
}

// schema creates a schema, and drops it when the test ends.
func schema(t *testing.T, s live.Server, db *sql.DB) string {
	t.Helper()
	needAdmin(t)
	name := live.NewTable()
	live.Execute(t, db, "CREATE SCHEMA "+name)
	t.Cleanup(func() { live.Execute(t, db, "DROP SCHEMA "+name) })
	return name
}

// The error says what to do, and the store works as soon as that is done.
func TestMissingTableIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		table := live.NewTable()
		store := s.StoreWith(t, db, sqlstore.Options{Table: table})
		says := `there is no table "` + table + `": call Start or Migrate, or run what "ratelimitgen sql -dialect ` +
			s.Dialect.Name + ` -table ` + table + `" prints`
		assert.ErrorContains(t, store.Ready(t.Context()), says)
		refuses(t, store, says)
		assert.ErrorContains(t, takeInTx(t.Context(), db, store), `there is no table "`+table+`" where the transaction was begun`)

		require.NoError(t, store.Migrate(t.Context()))
		t.Cleanup(func() { live.Drop(t, db, table) })
		require.NoError(t, store.Ready(t.Context()))
		require.NoError(t, limiter.New(store).Limit(live.Once("limit", 1), runtime.Key{}).Require(t.Context()))
	})
}

// Hosts that start at the same time disturb neither each other nor the callers.
func TestConcurrentReadysSucceed(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		_, stores := live.Shared(t, nodes, nil)
		var all sync.WaitGroup
		for i := range 12 {
			store := stores[i%len(stores)].(*sqlstore.Store)
			all.Go(func() { assert.NoError(t, store.Ready(t.Context())) })
			all.Go(func() { assert.NoError(t, take(t.Context(), store)) })
		}
		all.Wait()
	})
}

// A column is changed while the store is in use. Then nothing is taken.
func TestColumnChangedInUseTakesNothing(t *testing.T) {
	for _, parameter := range []string{"default_query_exec_mode=cache_statement", "default_query_exec_mode=exec"} {
		for column, kind := range map[string]string{"value": "numeric", "at_ns": "numeric"} {
			t.Run(column+" "+parameter, func(t *testing.T) {
				s := named(t, "postgres-pgx")[0].With(parameter)
				db, table := s.Open(t), live.NewTable()
				store := s.StoreIn(t, db, table, nil)
				limit := func(key int) limiter.Limit {
					return limiter.New(store).Limit(live.Once("limit", 10), runtime.KeyOf(runtime.Int(key)))
				}
				require.NoError(t, limit(0).Require(t.Context()))
				live.Execute(t, db, "ALTER TABLE "+table+" ALTER "+column+" TYPE "+kind)
				for range 2 {
					live.FailsWith(t, limit(0).Require(t.Context()), fmt.Sprintf("change table %q to what", table))
					live.FailsWith(t, limit(1).Require(t.Context()), fmt.Sprintf("change table %q to what", table))
				}
				var value float64
				require.NoError(t, db.QueryRow("SELECT sum(value) FROM "+table).Scan(&value))
				assert.EqualValues(t, -1, value)
			})
		}
	}
}
