package conformance

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// execModes are all modes in which pgx sends statements.
var execModes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// onEachWay is onEach, with pgx in each of its modes and lib/pq with binary parameters too.
func onEachWay(t *testing.T, test func(t *testing.T, s live.Server)) {
	onEach(t, test)
	for _, s := range servers {
		switch s.Driver {
		case "pgx":
			for _, mode := range execModes[1:] {
				live.AtOnce(t, s.Name+"-"+mode, func(t *testing.T) { test(t, s.With("default_query_exec_mode="+mode)) })
			}
		case "postgres":
			live.AtOnce(t, s.Name+"-binary", func(t *testing.T) { test(t, s.With("binary_parameters=yes")) })
		}
	}
}

// used are the policies of useEverything: each has the capacity 2.
func used() []*runtime.Policy {
	precise := live.Once("precise", 2)
	precise.Kind, precise.Rate, precise.Precise = runtime.SlidingWindow, 2, true
	penalized := live.Once("penalized", 2)
	penalized.Penalty = runtime.PenaltyOf(0, time.Hour)
	held := &runtime.Policy{Name: "held", Kind: runtime.InFlight, Slots: 2, Hold: runtime.MaxPeriod / 2}
	sharded := live.Once("sharded", 2)
	sharded.Rate, sharded.Shards = 2, 2
	overridden := live.Overridable()
	overridden.Name, overridden.Rate, overridden.Capacity = "overridden", 2, 2
	return []*runtime.Policy{live.Once("plain", 2), precise, penalized, held, sharded, overridden}
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
		_, err := overrides.Block(ctx, runtime.Block{Until: runtime.ForGood(), Reason: "a test", Author: "a test"})
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
func emptied(t *testing.T, s live.Server, db *sql.DB) (table string) {
	table = live.NewTable()
	require.NoError(t, s.StoreIn(t, db, table, nil).Migrate(t.Context(), used()...))
	return table
}

// elsewhere makes a schema with tables of the same names, and returns the statement that has a session find them first.
func elsewhere(t *testing.T, s live.Server, db *sql.DB, table string) (schema, use string) {
	t.Helper()
	needAdmin(t)
	schema = live.NewTable()
	live.Execute(t, db, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		live.Execute(t, db, "DROP SCHEMA "+schema+map[string]string{"postgres": " CASCADE"}[s.Protocol()])
	})
	other := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: schema + "." + table}))(t)
	t.Cleanup(func() { other.Close() })
	require.NoError(t, other.Migrate(t.Context(), used()...))
	if s.Protocol() == "postgres" {
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

// Precise limits, penalties and slots keep bytes in their rows.
func TestFormOfBytesChangesNothing(t *testing.T) {
	onEachWay(t, func(t *testing.T, s live.Server) {
		if s.Protocol() != "postgres" {
			return
		}
		admin := s.Open(t)
		table := emptied(t, s, admin)
		db := s.Open(t)
		db.SetMaxOpenConns(1)
		live.Execute(t, db, "SET bytea_output = 'escape'")
		store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
		defer store.Close()
		require.NoError(t, store.Ready(t.Context(), used()...))
		useEverything(t.Context(), t, db, store)
	})
}

// Another client of a pooler, or of the pool, leaves a session with a search path or a database in which there are tables of
// the same names.
func TestAnotherSchemaOfTheSessionChangesNothing(t *testing.T) {
	onEachWay(t, func(t *testing.T, s live.Server) {
		admin := s.Open(t)
		table := emptied(t, s, admin)
		schema, use := elsewhere(t, s, admin, table)
		db := s.Open(t)
		db.SetMaxOpenConns(1)
		store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
		defer store.Close()
		require.NoError(t, store.Ready(t.Context(), used()...))
		live.Execute(t, db, use)
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
	onEachWay(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		table := emptied(t, s, db)
		schema, use := elsewhere(t, s, db, table)
		if s.Protocol() == "postgres" {
			use = strings.Replace(use, "SET", "SET LOCAL", 1)
		}
		// A connection by the proxy opens in several times what it waits for one that the pool does not have.
		far, proxy := through(t, s, 0)
		proxy.delay = 150 * time.Millisecond
		p := used()[5]
		ways := []struct {
			to          live.Server
			connections int
		}{{s, 2}, {s, 0}, {far, 2}}
		for i, way := range ways {
			pool := way.to.Open(t)
			pool.SetMaxOpenConns(way.connections)
			store := live.Must(agree.NewStore(pool, s.Dialect, sqlstore.Options{Table: table}))(t)
			require.NoError(t, sqlstore.RunInTx(t.Context(), pool, func(tx *sql.Tx) error {
				if _, err := tx.Exec(use); err != nil {
					return err
				}
				return limiter.New(store).WithTx(tx).Limit(p, runtime.KeyOf(runtime.Int64(int64(i)))).Require(t.Context())
			}))
			require.NoError(t, store.Close())
		}
		assert.Zero(t, rowsIn(t, db, schema+"."+table))
		assert.Equal(t, len(ways), rowsIn(t, db, table))
	})
}

// pg_dump empties the search path of the session that a pooler gives it.
func TestEmptySearchPathChangesNothing(t *testing.T) {
	for _, s := range named(t, "postgres-pgx", "postgres-pq") {
		t.Run(s.Name, func(t *testing.T) {
			db := s.Open(t)
			db.SetMaxOpenConns(1)
			live.Execute(t, db, "SET search_path = ''")
			table := live.NewTable()
			store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
			defer store.Close()
			require.NoError(t, store.Migrate(t.Context(), used()...))
			t.Cleanup(func() {
				for _, of := range []string{table, dialect.OverridesTable(table), dialect.RegistryTable(table)} {
					live.Execute(t, db, "DROP TABLE public."+of)
				}
			})
			fresh := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
			defer fresh.Close()
			require.NoError(t, fresh.Ready(t.Context(), used()...))
			useEverything(t.Context(), t, db, fresh)
		})
	}
}

// A session that begins with one table and now finds another does not show which is meant.
func TestTwoTablesOfOneNameAreRefused(t *testing.T) {
	for _, s := range named(t, "postgres-pgx", "postgres-pq") {
		db := s.Open(t)
		db.SetMaxOpenConns(1)
		table := emptied(t, s, db)
		schema, use := elsewhere(t, s, db, table)
		live.Execute(t, db, use)
		store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
		says := fmt.Sprintf(`there is a table %q in the schemas`, table)
		for _, err := range []error{store.Ready(t.Context()), take(t.Context(), store), takeInTx(t.Context(), db, store)} {
			assert.ErrorContains(t, err, says)
			assert.ErrorContains(t, err, fmt.Sprintf("%q", schema))
			assert.ErrorContains(t, err, "set Options.Table to schema.table")
		}
		require.NoError(t, store.Close())
		live.Execute(t, db, "RESET search_path")
	}
}

// Names of schemas that need quotes.
func TestSchemaWithAnyNameIsFound(t *testing.T) {
	onEachServer(t, func(t *testing.T, s live.Server) {
		needAdmin(t)
		db := s.Open(t)
		for i, name := range []string{"my-app", "My App: é", "a.b", "key", "it's", "100%", "a?b", "p$1"} {
			name = fmt.Sprintf("%s %s", live.NewTable(), name)
			quoted := s.Dialect.Quote + name + s.Dialect.Quote
			live.Execute(t, db, "CREATE SCHEMA "+quoted)
			drop := "DROP SCHEMA " + quoted + map[string]string{"postgres": " CASCADE"}[s.Protocol()]
			t.Cleanup(func() { live.Execute(t, db, drop) })
			at := database(t, s, name)
			if s.Protocol() == "postgres" {
				at = s.With("search_path=" + strings.ReplaceAll(strings.ReplaceAll(quoted, "%", "%25"), " ", "%20"))
			}
			own := at.Open(t)
			store := live.Must(agree.NewStore(own, s.Dialect, sqlstore.Options{Table: fmt.Sprint("t", i)}))(t)
			require.NoError(t, store.Migrate(t.Context(), used()...), name)
			require.NoError(t, store.Ready(t.Context(), used()...), name)
			useEverything(t.Context(), t, own, store)
			require.NoError(t, store.Close())
		}
	})
}

// A table's name is also that of the type of its rows.
func TestTableMayHaveTheNameOfAType(t *testing.T) {
	needAdmin(t)
	s := named(t, "postgres-pgx")[0]
	db, name := s.Open(t), live.NewTable()
	live.Execute(t, db, "CREATE DATABASE "+name)
	t.Cleanup(func() { live.Execute(t, db, "DROP DATABASE "+name+" WITH (FORCE)") })
	s = database(t, s, name)
	own := s.Open(t)
	rows := live.Must(own.Query("SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typrelid = 0 AND left(typname, 1) <> '_'"))(t)
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
		store := live.Must(agree.NewStore(own, s.Dialect, sqlstore.Options{Table: name}))(t)
		if !assert.NoError(t, store.Migrate(t.Context()), name) {
			continue
		}
		assert.NoError(t, store.Ready(t.Context()), name)
		assert.NoError(t, takeInTx(t.Context(), own, store), name)
		assert.NoError(t, take(t.Context(), store), name)
		precise := used()[1]
		limits := limiter.New(store)
		for i := range 3 {
			ds, err := limits.All(t.Context(), limits.Limit(precise, runtime.Key{}), limits.Limit(live.Once("plain", 5), runtime.Key{}))
			assert.NoError(t, err, name)
			assert.Equal(t, i < 2, ds.Allowed, name)
		}
		assert.NoError(t, sweep(t.Context(), store), name)
		assert.NoError(t, store.Close())
	}
}

// odd is the outcome of a setting of a session where counts are not exact.
type odd struct {
	// ready is in the error of Ready, which is nil if ready is "".
	ready string
	// later is in the errors of calls if the setting changes after Ready. They are exact if it is "".
	later string
}

const (
	mayNotWrite = "begin transactions that may write"
	simplePgx   = "simple protocol queries must be run with "
	wrongLater  = "has changed the settings of a connection: "
	// onlyReady is for settings in whose sessions statements are not committed, or texts are converted: no error names them
	// later.
	onlyReady = "only Ready compares it"
)

// odds are by the SET statement, or by its beginning.
var odds = map[string]map[string]odd{
	"postgres-pgx": {
		"SET default_transaction_read_only = 'on'": {mayNotWrite, mayNotWrite},
		"SET standard_conforming_strings = 'off'":  {simplePgx + "standard_conforming_strings=on", simplePgx + "standard_conforming_strings=on"},
		"SET client_encoding":                      {simplePgx + "client_encoding=UTF8", simplePgx + "client_encoding=UTF8"},
		"SET extra_float_digits = 0":               {"extra_float_digits", onlyReady},
		"SET extra_float_digits = -15":             {"extra_float_digits", onlyReady},
	},
	"postgres-pq": {
		"SET default_transaction_read_only = 'on'": {mayNotWrite, mayNotWrite},
		"SET client_encoding = 'LATIN1'":           {"client_encoding", onlyReady},
		"SET client_encoding = 'SJIS'":             {"client_encoding", onlyReady},
		"SET extra_float_digits = 0":               {"extra_float_digits", onlyReady},
		"SET extra_float_digits = -15":             {"extra_float_digits", onlyReady},
	},
	"mariadb": merged(oddMySQL, map[string]odd{
		"SET SQL_SAFE_UPDATES = 1":                   {"", "safe update mode"},
		"SET sql_safe_updates = 1":                   {"", "safe update mode"},
		"SET TX_READ_ONLY = 1":                       {mayNotWrite, mayNotWrite},
		"SET AUTOCOMMIT = 0":                         {"autocommit", onlyReady},
		"SET COMPLETION_TYPE = 'CHAIN'":              {"completion_type", onlyReady},
		"SET COMPLETION_TYPE = 'RELEASE'":            {"completion_type", "invalid connection"},
		"SET SQL_MODE = 'EMPTY_STRING_IS_NULL'":      {"an empty text", onlyReady},
		"SET SQL_MODE = 'REAL_AS_FLOAT,PIPES_AS_CON": {"an empty text", onlyReady},
	}),
	"mysql": oddMySQL,
}

var oddMySQL = map[string]odd{
	"SET max_join_size = 1":                        {"MAX_JOIN_SIZE", "MAX_JOIN_SIZE"},
	"SET autocommit = 0":                           {"autocommit", onlyReady},
	"SET completion_type = 1":                      {"completion_type", onlyReady},
	"SET completion_type = 2":                      {"completion_type", "invalid connection"},
	"SET SESSION TRANSACTION READ ONLY":            {mayNotWrite, mayNotWrite},
	"SET NAMES latin1":                             {"character_set_client", onlyReady},
	"SET NAMES binary":                             {"character_set_client", wrongLater + "character_set_client"},
	"SET character_set_client = latin1":            {"character_set_client", onlyReady},
	"SET character_set_connection = utf16":         {"character_set_connection", onlyReady},
	"SET collation_connection = latin1_swedish_ci": {"character_set_connection", onlyReady},
}

func merged(a, b map[string]odd) map[string]odd {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// oddOf returns the expected outcome of a statement, by the longest beginning of it that is listed.
func oddOf(s live.Server, set string) (o odd) {
	longest := 0
	for prefix, of := range odds[s.Name] {
		if strings.HasPrefix(set, prefix) && len(prefix) > longest {
			o, longest = of, len(prefix)
		}
	}
	return o
}

// oddSettings returns every value of the settings that have few, and unusual values of those others that could change what a
// statement means.
func oddSettings(t *testing.T, s live.Server, db *sql.DB) (all []string) {
	t.Helper()
	texts := func(query string) {
		rows := live.Must(db.Query(query))(t)
		defer rows.Close()
		for rows.Next() {
			var text string
			require.NoError(t, rows.Scan(&text))
			all = append(all, text)
		}
		require.NoError(t, rows.Err())
	}
	switch s.Dialect.Name {
	case "postgres":
		texts(`SELECT format('SET %s = %L', name, v) FROM pg_settings, unnest(COALESCE(enumvals, '{on,off}')) v
			WHERE context IN ('user', 'superuser') AND vartype IN ('bool', 'enum') AND v <> setting
			AND name NOT LIKE 'debug%' AND name NOT LIKE 'log%' ORDER BY 1`)
	case "mariadb":
		texts(`SELECT CONCAT('SET ', variable_name, ' = ', v) FROM information_schema.system_variables, (SELECT 0 AS v UNION SELECT 1) b
			WHERE variable_scope = 'SESSION' AND read_only = 'NO' AND variable_type = 'BOOLEAN' AND v <> IF(session_value = 'ON', 1, 0) ORDER BY 1`)
		rows := live.Must(db.Query(`SELECT variable_name, variable_type, enum_value_list FROM information_schema.system_variables
			WHERE variable_scope = 'SESSION' AND read_only = 'NO' AND variable_type IN ('ENUM', 'SET') AND enum_value_list IS NOT NULL ORDER BY 1`))(t)
		defer rows.Close()
		for rows.Next() {
			var name, kind, values string
			require.NoError(t, rows.Scan(&name, &kind, &values))
			for _, v := range strings.Split(values, ",") {
				all = append(all, fmt.Sprintf("SET %s = '%s'", name, v))
			}
			if kind == "SET" {
				all = append(all, fmt.Sprintf("SET %s = '%s'", name, values), fmt.Sprintf("SET %s = ''", name))
			}
		}
		require.NoError(t, rows.Err())
	}
	for line := range strings.Lines(oddValues[s.Dialect.Name]) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, "SET "+line)
		}
	}
	return all
}

// oddValues are values of settings that have many.
var oddValues = map[string]string{
	"postgres": `
DateStyle = 'SQL, DMY'
TimeZone = 'Asia/Kathmandu'
client_encoding = 'LATIN1'
client_encoding = 'SQL_ASCII'
client_encoding = 'SJIS'
extra_float_digits = 0
extra_float_digits = -15
extra_float_digits = 3
lc_numeric = 'de_DE.UTF-8'
lc_monetary = 'C'
search_path = ''
search_path = pg_catalog
search_path = "$user"
default_text_search_config = 'german'
default_tablespace = ''
gin_fuzzy_search_limit = 1
geqo_threshold = 2
from_collapse_limit = 1
join_collapse_limit = 1
cursor_tuple_fraction = 0
work_mem = 64
temp_buffers = 100
jit_above_cost = 0
max_parallel_workers_per_gather = 8
parallel_setup_cost = 0
random_page_cost = 0
seq_page_cost = 100000
statement_timeout = 60000
lock_timeout = 60000
idle_in_transaction_session_timeout = 60000
role = postgres
session_replication_role = replica
`,
	"mariadb": oddOnMySQL,
	"mysql":   oddOnMySQL + oddOnMySQLOnly,
}

const oddOnMySQL = `
sql_select_limit = 1
sql_select_limit = 0
autocommit = 0
sql_safe_updates = 1
sql_auto_is_null = 1
big_tables = 1
foreign_key_checks = 0
unique_checks = 0
sql_big_selects = 0
max_join_size = 1
div_precision_increment = 0
group_concat_max_len = 4
lock_wait_timeout = 1
innodb_lock_wait_timeout = 1
time_zone = '+13:00'
timestamp = 1
lc_time_names = 'de_DE'
insert_id = 5
last_insert_id = 7
auto_increment_increment = 10
max_sort_length = 64
max_error_count = 0
sql_notes = 0
sql_warnings = 1
sql_mode = ''
sql_mode = 'ANSI'
sql_mode = 'ANSI_QUOTES'
sql_mode = 'PIPES_AS_CONCAT'
sql_mode = 'NO_BACKSLASH_ESCAPES'
sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'
sql_mode = 'REAL_AS_FLOAT'
sql_mode = 'IGNORE_SPACE'
sql_mode = 'HIGH_NOT_PRECEDENCE'
sql_mode = 'NO_UNSIGNED_SUBTRACTION'
sql_mode = 'TRADITIONAL'
sql_mode = 'ONLY_FULL_GROUP_BY'
sql_mode = 'NO_AUTO_VALUE_ON_ZERO'
sql_mode = 'NO_ZERO_DATE,NO_ZERO_IN_DATE'
completion_type = 1
completion_type = 2
NAMES latin1
NAMES binary
NAMES utf8mb4 COLLATE utf8mb4_bin
character_set_client = latin1
character_set_results = latin1
character_set_results = NULL
character_set_connection = utf16
collation_connection = utf8mb4_bin
collation_connection = latin1_swedish_ci
SESSION TRANSACTION READ ONLY
SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED
SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ
SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE
optimizer_search_depth = 1
optimizer_prune_level = 0
tmp_table_size = 1024
max_heap_table_size = 16384
join_buffer_size = 128
read_buffer_size = 8192
wait_timeout = 60
net_read_timeout = 1
default_storage_engine = MyISAM
`

const oddOnMySQLOnly = `
sql_require_primary_key = 1
explicit_defaults_for_timestamp = 0
max_execution_time = 60000
internal_tmp_mem_storage_engine = MEMORY
windowing_use_high_precision = 0
cte_max_recursion_depth = 0
show_create_table_verbosity = 1
sql_generate_invisible_primary_key = 1
transaction_allow_batching = 1
optimizer_switch = 'index_merge=off,derived_merge=off,materialization=off,semijoin=off,subquery_to_derived=on,hash_set_operations=off,prefer_ordering_index=off'
`

// Every setting is exact, or refused by Ready with its name; and if it changes later, it is exact, or named by the error of
// each call that fails.
func TestSettingsOfTheSessionAreExactOrNamed(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		if s.Name == "postgres-pgx" {
			// The mode in which each value is sent and read as a text.
			s = s.With("default_query_exec_mode=simple_protocol")
		}
		admin := s.Open(t)
		table := emptied(t, s, admin)
		truth := s.StoreWith(t, admin, sqlstore.Options{Table: table})
		settings := oddSettings(t, s, admin)
		require.Greater(t, len(settings), 50)
		for _, set := range settings {
			for _, name := range []string{table, dialect.OverridesTable(table)} {
				live.Execute(t, admin, "DELETE FROM "+name)
			}
			require.NoError(t, truth.Migrate(t.Context(), used()...))
			t.Run(set, func(t *testing.T) { exactOrNamed(t, s, truth, table, set) })
		}
	})
}

// exactOrNamed runs everything in a session with the setting.
func exactOrNamed(t *testing.T, s live.Server, truth *sqlstore.Store, table, set string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	want := oddOf(s, set)
	session := func() *sql.DB {
		db := s.Open(t)
		db.SetMaxOpenConns(1)
		if s.Protocol() == "postgres" {
			// Where the planner may not use cheap plans, its estimates would have each statement compiled.
			live.Execute(t, db, "SET jit = off")
		}
		return db
	}
	db := session()
	if _, err := db.Exec(set); err != nil {
		// A version of the server may have other settings. Another test counts those that it has.
		t.Logf("the server refuses it: %v", err)
		return
	}
	store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
	defer store.Close()
	if err := store.Ready(ctx, used()...); want.ready != "" {
		require.ErrorContains(t, err, want.ready, "Ready")
	} else {
		require.NoError(t, err, "Ready")
	}
	if want.ready != "" || want.later != "" {
		// The same setting, changed later.
		require.NoError(t, db.Close())
		db = session()
		store = live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
		defer store.Close()
		require.NoError(t, store.Ready(ctx, used()...))
		live.Execute(t, db, set)
	}
	switch want.later {
	case "":
		useEverything(ctx, t, db, store)
		assert.Zero(t, live.Must(limiter.New(truth).Limit(used()[0], runtime.KeyOf(runtime.Int(0))).Peek(ctx))(t).Remaining, "committed")
	case onlyReady:
	default:
		for _, err := range everyError(ctx, db, store) {
			if err != nil {
				assert.ErrorContains(t, err, want.later)
			}
		}
	}
}

// everyError returns the errors of requests of each kind.
func everyError(ctx context.Context, db *sql.DB, store *sqlstore.Store) (all []error) {
	limits := limiter.New(store)
	for _, p := range used() {
		limit := limits.Limit(p, runtime.KeyOf(runtime.String("é")))
		_, allowed := limit.Allow(ctx)
		_, peeked := limit.Peek(ctx)
		inTx := sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
			_, err := limiter.New(store.WithTx(tx)).Limit(p, runtime.Key{}).Allow(ctx)
			return err
		})
		_, together := limits.All(ctx, limit, limits.Limit(used()[0], runtime.Key{}))
		_, swept := store.Sweep(ctx, p)
		all = append(all, allowed, peeked, inTx, together, swept)
	}
	_, blocked := limits.Overrides(used()[5], runtime.Key{}).Block(ctx, runtime.Block{Until: runtime.ForGood(), Reason: "a test", Author: "a test"})
	_, forgot := store.Forget(ctx, "precise")
	return append(all, blocked, forgot)
}

// MariaDB accepts the statements of MySQL, and an insert id there has another meaning.
func TestDialectOfTheOtherServerIsRefused(t *testing.T) {
	for _, s := range named(t, "mariadb", "mysql") {
		other := map[string]dialect.Dialect{"mariadb": dialect.MySQL, "mysql": dialect.MariaDB}[s.Name]
		store := live.Must(agree.NewStore(s.Open(t), other, sqlstore.Options{Table: emptied(t, s, s.Open(t))}))(t)
		defer store.Close()
		for _, err := range []error{store.Migrate(t.Context()), store.Ready(t.Context()), take(t.Context(), store)} {
			assert.ErrorContains(t, err, "pass the database's own dialect to sqlstore.New")
		}
	}
}
