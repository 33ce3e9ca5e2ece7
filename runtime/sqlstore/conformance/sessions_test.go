package conformance

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// The length to which MySQL cuts GROUP_CONCAT is a setting of the session.
func TestShortGroupConcatHidesNoColumn(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		if s.Protocol() != "mysql" {
			return
		}
		db, table := s.Open(t), live.NewTable()
		s.StoreIn(t, db, table, nil)
		require.NoError(t, s.With("group_concat_max_len=4").Visit(t, table).Ready(t.Context()))
	})
}

// Concurrent calls of Migrate succeed.
func TestConcurrentMigratesSucceed(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		for range 5 {
			table := live.NewTable()
			failed := make(chan error)
			for range 8 {
				go func() {
					store, err := agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table})
					if err == nil {
						err = store.Migrate(context.Background())
					}
					failed <- err
				}()
			}
			for range 8 {
				assert.NoError(t, <-failed)
			}
			live.Drop(t, db, table)
		}
	})
}

// The wait for a free connection is not part of the measured round trip to the database's clock.
func TestBusyPoolDoesNotSkewTheClock(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		store := s.Store(t, db, nil)
		db.SetMaxOpenConns(1)
		busy := live.Must(db.Conn(t.Context()))(t)
		const wait = 600 * time.Millisecond
		time.AfterFunc(wait, func() { busy.Close() })
		p := live.Once("limit", 1)
		answers := live.Must(store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Policy: p, Op: runtime.Peek}}}}))(t)
		assert.Less(t, time.Until(time.Unix(0, answers[0].At)), wait/4, "the clock of this machine, which is the server's")
	})
}

// A column gets another usable type while the store has prepared statements.
func TestAlteredTableRemainsUsable(t *testing.T) {
	for _, s := range named(t, "postgres-pgx", "postgres-pq") {
		t.Run(s.Name, func(t *testing.T) {
			db, table := s.Open(t), live.NewTable()
			store := s.StoreIn(t, db, table, nil)
			limit := limiter.New(store).Limit(live.Once("limit", 2), runtime.Key{})
			for range 2 {
				require.NoError(t, limit.Require(t.Context()))
				live.Must(limit.Peek(t.Context()))(t)
				live.Execute(t, db, "ALTER TABLE "+table+" ALTER COLUMN shard TYPE bigint")
			}
			b := live.Must(limit.Peek(t.Context()))(t)
			assert.Zero(t, b.Remaining)
		})
	}
}

// The same during calls: some calls of a batch have taken when others fail, and some find their statements closed.
func TestAlteredTableDuringCallsLosesNoTokens(t *testing.T) {
	for _, s := range named(t, "postgres-pgx", "postgres-pq") {
		t.Run(s.Name, func(t *testing.T) {
			db, table := s.Open(t), live.NewTable()
			store := s.StoreIn(t, db, table, nil)
			limits := limiter.New(store)
			taken, peeked := live.Once("taken", 1_000_000), live.Once("peeked", 1)
			calls := []runtime.Call{
				{Requests: []runtime.Request{{Policy: taken, Count: 1}}},
				{Requests: []runtime.Request{{Policy: peeked, Op: runtime.Peek}}},
			}
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() {
					for range 50 {
						answers, err := store.Do(t.Context(), calls)
						if assert.NoError(t, err) {
							assert.True(t, answers[0].Allowed() && answers[1].Allowed())
						}
					}
				})
			}
			for _, kind := range []string{"bigint", "integer", "bigint"} {
				live.Execute(t, db, "ALTER TABLE "+table+" ALTER COLUMN shard TYPE "+kind)
			}
			all.Wait()
			b := live.Must(limits.Limit(taken, runtime.Key{}).Peek(t.Context()))(t)
			assert.EqualValues(t, 1_000_000-12*50, b.Remaining)
		})
	}
}

// A Do has calls for two limits, and the row of one is locked until a timeout. The answer to the other call is returned
// with the error.
func TestLockedRowDoesNotAffectOtherCalls(t *testing.T) {
	s := named(t, "postgres-pgx")[0].With("statement_timeout=300")
	db := s.Open(t)
	table := live.NewTable()
	s.StoreIn(t, db, table, nil)
	store := s.StoreWith(t, db, sqlstore.Options{Table: table, Batch: 1})
	free, locked := live.Once("free", 2), live.Once("locked", 2)
	limits := limiter.New(store)
	require.NoError(t, limits.Limit(locked, runtime.Key{}).Require(t.Context()))
	tx := live.Must(db.BeginTx(t.Context(), &sql.TxOptions{}))(t)
	defer tx.Rollback()
	require.NoError(t, limits.WithTx(tx).Limit(locked, runtime.Key{}).Require(t.Context()))

	takeOf := func(p *runtime.Policy) runtime.Call {
		return runtime.Call{Requests: []runtime.Request{{Policy: p, Count: 1}}}
	}
	answers, err := store.Do(t.Context(), []runtime.Call{takeOf(free), takeOf(locked)})
	require.ErrorContains(t, err, "57014", "canceling statement due to statement timeout")
	require.Len(t, answers, 2)
	assert.True(t, answers[0].Allowed())
	assert.False(t, answers[1].Answered())
}

// Databases whose encoding is not UTF8 convert or refuse some names and keys, so they are refused. SQL_ASCII keeps the
// bytes, which are the same for every driver.
func TestOnlyUTF8AndBytesAreAccepted(t *testing.T) {
	needAdmin(t)
	all := named(t, "postgres-pgx", "postgres-pq")
	admin := all[0].Open(t)
	create := func(t *testing.T, encoding string) (name string) {
		name = live.NewTable()
		live.Execute(t, admin, fmt.Sprintf("CREATE DATABASE %s ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0", name, encoding))
		t.Cleanup(func() { live.Execute(t, admin, "DROP DATABASE "+name+" WITH (FORCE)") })
		return name
	}
	for _, encoding := range []string{"LATIN1", "EUC_JP"} {
		t.Run(encoding, func(t *testing.T) {
			name := create(t, encoding)
			for _, s := range all {
				for _, s := range []live.Server{s, s.With("client_encoding=UTF8")} {
					store := database(t, s, name).Visit(t, "")
					says := fmt.Sprintf(`keep table "rate_limits" in a database whose encoding is UTF8, such as "CREATE DATABASE ... `+
						`ENCODING 'UTF8' TEMPLATE template0" makes: server_encoding is %q instead of "UTF8"`, encoding)
					assert.ErrorContains(t, store.Migrate(t.Context()), says)
					assert.ErrorContains(t, store.Ready(t.Context()), says)
					refuses(t, store, says)
				}
			}
		})
	}
	t.Run("SQL_ASCII", func(t *testing.T) {
		name := create(t, "SQL_ASCII")
		limit := live.Once("limit", 3)
		for i, s := range append(slices.Clone(all), all[0].With("client_encoding=UTF8")) {
			store := database(t, s, name).Visit(t, "")
			require.NoError(t, store.Migrate(t.Context()))
			require.NoError(t, store.Ready(t.Context()))
			d := live.Must(limiter.New(store).Limit(limit, runtime.KeyOf(runtime.String("é 日本 😀"))).Allow(t.Context()))(t)
			assert.True(t, d.Allowed)
			assert.EqualValues(t, 2-i, d.Remaining, "one row, whoever writes it")
		}
	})
	t.Run("client", func(t *testing.T) {
		s := named(t, "postgres-pgx")[0].With("client_encoding=LATIN1") // lib/pq refuses it by itself
		refuses(t, s.Visit(t, ""), `change the settings of the connections, in the data source name or in the server: `+
			`client_encoding is "LATIN1" instead of "UTF8"`)
	})
}

// Before version 12, extra_float_digits must be higher for doubles to be read as they were written.
func TestDigitsBeforePostgres12AreRefused(t *testing.T) {
	all := named(t, "postgres-pgx", "postgres-pq")
	db := all[0].Open(t)
	schema, table := schema(t, all[0], db), live.NewTable()
	all[0].StoreIn(t, db, table, nil)
	live.Must(db.Exec("CREATE FUNCTION " + schema + ".current_setting(text) RETURNS text LANGUAGE sql AS " +
		"'SELECT CASE $1 WHEN ''server_version_num'' THEN ''110022'' ELSE pg_catalog.current_setting($1) END'"))(t)
	defer db.Exec("DROP FUNCTION " + schema + ".current_setting(text)")
	for _, s := range all {
		s = s.With("search_path=" + schema + ",pg_catalog,public")
		for digits, says := range map[int]string{0: "0 before Postgres 12", 1: "1 before Postgres 12", 2: "", 3: ""} {
			store := s.With(fmt.Sprint("extra_float_digits=", digits)).Visit(t, table)
			if says == "" {
				require.NoError(t, store.Ready(t.Context()))
				require.NoError(t, take(t.Context(), store))
				continue
			}
			refuses(t, store, fmt.Sprintf(`extra_float_digits is %q instead of "3"`, says))
		}
	}
}

// The server closes all idle connections of a pool. The next calls succeed on new ones, with a driver that runs them in
// transactions.
func TestConnectionsClosedWhileIdleAreReplaced(t *testing.T) {
	const connections, rounds = 10, 10
	s := named(t, "postgres-pq")[0]
	admin := s.Open(t)
	table := live.NewTable()
	p, truth := live.Once("limit", 2*rounds), s.StoreIn(t, admin, table, nil)
	s = s.With("application_name=" + table)
	failed := 0
	for range rounds {
		db := s.Open(t)
		db.SetMaxIdleConns(connections)
		store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
		require.NoError(t, store.Ready(t.Context()))
		limit := limiter.New(store).Limit(p, runtime.Key{})
		for _, call := range []func() error{
			func() error { return limit.Require(t.Context()) },
			func() error { _, err := limit.Peek(t.Context()); return err },
		} {
			beIdle(t, db, connections)
			var closed int
			require.NoError(t, admin.QueryRow(
				"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", table).Scan(&closed))
			require.GreaterOrEqual(t, closed, connections)
			require.Eventually(t, func() bool {
				err := admin.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", table).Scan(&closed)
				return err == nil && closed == 0
			}, 10*time.Second, time.Millisecond)
			if !assert.NoError(t, call()) {
				failed++
			}
		}
		require.NoError(t, store.Close())
		db.Close()
	}
	assert.EqualValues(t, rounds, live.Left(t, truth, p))
	t.Logf("%d of %d calls failed", failed, 2*rounds)
}

// beIdle makes a pool hold this number of idle connections that work.
func beIdle(t *testing.T, db *sql.DB, connections int) {
	t.Helper()
	var all []*sql.Conn
	for len(all) < connections {
		conn := live.Must(db.Conn(t.Context()))(t)
		if conn.PingContext(t.Context()) == nil {
			all = append(all, conn)
		} else {
			conn.Close() // one that the server has closed
		}
	}
	for _, conn := range all {
		require.NoError(t, conn.Close())
	}
}

// A role with CREATE on a schema of the search_path can define an operator that matches the types of two operands better
// than those of Postgres. Here such operators exist for all pairs of types, and fail.
func TestPostgresOperatorsCannotBeReplaced(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		if s.Protocol() != "postgres" {
			return
		}
		needAdmin(t)
		db, schema := s.Open(t), live.NewTable()
		live.Execute(t, db, "CREATE SCHEMA "+schema)
		t.Cleanup(func() { live.Execute(t, db, "DROP SCHEMA "+schema+" CASCADE") })
		live.Execute(t, db, strings.ReplaceAll(replacedOperators, "{schema}", schema))
		for name, change := range map[string]string{
			"usual types":    "SELECT 1 FROM %s",
			"accepted types": `ALTER TABLE %s ALTER name TYPE varchar(255), ALTER "key" TYPE varchar(255), ALTER shard TYPE bigint`,
		} {
			t.Run(name, func(t *testing.T) {
				table := live.NewTable()
				s.StoreIn(t, db, table, nil)
				live.Execute(t, db, fmt.Sprintf(change, table))
				takeEverything(t, s.With("search_path="+schema+",public").Visit(t, table))
			})
		}
	})
}

// replacedOperators defines the operators in a schema.
const replacedOperators = `
DO $do$
DECLARE
	types text[] := '{smallint,integer,bigint,real,double precision,numeric,text,varchar,name,oid,regclass}';
	results text[] := '{boolean,double precision,text}';
	operators text[] := '{<,<=,=,>=,>,<>,+,-,*,/,%,||}';
	a text; b text; op text; result text;
BEGIN
	SET LOCAL search_path = {schema};
	FOREACH a IN ARRAY types LOOP FOREACH b IN ARRAY types LOOP
		FOREACH result IN ARRAY results LOOP
			EXECUTE format($f$
				CREATE FUNCTION replaced_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS
				$b$ BEGIN RAISE EXCEPTION 'the operator is replaced'; END $b$
			$f$, left(result, 1), a, b, result);
		END LOOP;
		FOREACH op IN ARRAY operators LOOP
			EXECUTE format('CREATE OPERATOR %s (FUNCTION = replaced_%s, LEFTARG = %s, RIGHTARG = %s)', op,
				CASE WHEN op = '||' THEN 't' WHEN op = ANY (operators[7:]) THEN 'd' ELSE 'b' END, a, b);
		END LOOP;
	END LOOP; END LOOP;
END $do$`

// takeEverything takes what limits of all kinds have, by all statements of a store.
func takeEverything(t *testing.T, store *sqlstore.Store) {
	t.Helper()
	const capacity = 8
	ctx := t.Context()
	require.NoError(t, store.Ready(ctx))
	limits := limiter.New(store)
	policies := live.Granting(capacity)
	precise := live.Once("precise", capacity)
	precise.Kind, precise.Rate, precise.Precise = runtime.SlidingWindow, capacity, true
	for _, p := range append(policies, precise) {
		var admitted atomic.Int64
		take := func(i int) {
			for _, key := range []int{0, 1 + i} {
				d, err := limits.Limit(p, runtime.KeyOf(runtime.Int(key))).Allow(ctx)
				assert.NoError(t, err)
				if d.Allowed && key == 0 {
					admitted.Add(1)
				}
			}
		}
		var all sync.WaitGroup
		for i := range 4 * capacity {
			if i < 2*capacity {
				take(i)
			} else {
				all.Go(func() { take(i) })
			}
		}
		all.Wait()
		assert.EqualValues(t, capacity, admitted.Load(), p.Name)
		limit := limits.Limit(p, runtime.KeyOf(runtime.Int(0)))
		_, err := limit.Peek(ctx)
		assert.NoError(t, err)
		_, err = limits.All(ctx, limit, limits.Limit(policies[0], runtime.KeyOf(runtime.Int(1))))
		assert.NoError(t, err)
		assert.NoError(t, limit.Reset(ctx))
	}
	_, err := store.Sweep(ctx, policies...)
	assert.NoError(t, err)
	_, err = store.Forget(ctx, "precise")
	assert.NoError(t, err)
}
