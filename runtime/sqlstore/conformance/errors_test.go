package conformance

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// takeInTx takes in a transaction of the caller.
func takeInTx(ctx context.Context, db *sql.DB, store *sqlstore.Store) error {
	return sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
		return limiter.New(store).WithTx(tx).Limit(live.Once("limit", 1), runtime.Key{}).Require(ctx)
	})
}

func take(ctx context.Context, store *sqlstore.Store) error {
	return limiter.New(store).Limit(live.Once("limit", 100), runtime.Key{}).Require(ctx)
}

func sweep(ctx context.Context, store *sqlstore.Store) error {
	_, err := store.Sweep(ctx, live.Once("limit", 1))
	return err
}

func TestWrongDataSourceNameIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		listener := live.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		closed, elsewhere := s, s
		closed.DSN, _ = redirect(t, s, listener.Addr().String())
		elsewhere.DSN, _ = redirect(t, s, "no-such-host.invalid:5432")
		require.NoError(t, listener.Close())
		for _, row := range []struct {
			at   live.Server
			says string
		}{
			{closed, "the database server cannot be reached: check host and port"},
			{elsewhere, "the database server cannot be reached: check host and port"},
			{as(t, s, "rl_nobody", "secret"), "the server refuses the database user: check user and password"},
		} {
			row.at.RefusesToStart(t, "", row.says)
		}
	})
}

func TestWrongDialectIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		wrong := map[string][]dialect.Dialect{
			"postgres": {dialect.MySQL, dialect.MariaDB, dialect.SQLite}, "mysql": {dialect.Postgres, dialect.SQLite},
		}[s.Protocol()]
		if s.Dialect.Name == "mysql" {
			wrong = append(wrong, dialect.MariaDB)
		}
		for _, s.Dialect = range wrong {
			t.Run(s.Dialect.Name, func(t *testing.T) {
				s.RefusesToStart(t, "", "the database rejects the SQL of dialect "+s.Dialect.Name)
			})
		}
	})
}

func TestAbortedTransactionIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		if s.Protocol() != "postgres" {
			return
		}
		db := s.Open(t)
		limits := limiter.New(s.Store(t, db, nil))
		err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
			_, err := tx.Exec("SELECT 1 / 0")
			require.Error(t, err)
			return limits.WithTx(tx).Limit(live.Once("limit", 1), runtime.Key{}).Require(t.Context())
		})
		live.FailsWith(t, err, "an earlier statement of the transaction has failed: roll it back, and run it again")
	})
}

// The call waits for a row that the transaction has locked, or for a connection.
func TestCallOutsideOfItsTransactionIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		for connections, says := range map[int]string{
			1: "all 1 connections of the *sql.DB are in use: in a transaction, make calls with WithTx(tx), or raise db.SetMaxOpenConns",
			9: "if it waits for this call, make the call with WithTx(tx)",
		} {
			db := s.Open(t)
			store := s.Store(t, db, nil)
			require.NoError(t, store.Ready(t.Context()))
			db.SetMaxOpenConns(connections)
			p := live.Once("limit", 10)
			p.Timeout = 1200 * time.Millisecond
			limits := limiter.New(store)
			err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
				require.NoError(t, limits.WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context()))
				return limits.Limit(p, runtime.Key{}).Require(t.Context())
			})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, says)
		}
	})
}

// The error of a call for a row that another transaction has locked names the limit and that transaction. It gives no advice
// about transactions of this process, of which there are none.
func TestErrorOfALockedRowNamesTheTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		table := live.NewTable()
		store := s.StoreIn(t, db, table, nil)
		p := live.Once("limit", 10)
		p.Timeout = 1200 * time.Millisecond
		limit := limiter.New(store).Limit(p, runtime.KeyOf(runtime.String("secret")))
		require.NoError(t, limit.Require(t.Context()))
		tx := live.Must(db.BeginTx(t.Context(), nil))(t)
		defer tx.Rollback()
		live.Execute(t, tx, "UPDATE "+table+" SET shard = 0 * shard, value = value - 1")
		var session int
		require.NoError(t, tx.QueryRow(map[string]string{
			"postgres": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()",
		}[s.Protocol()]).Scan(&session))

		err := limit.Require(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		says := map[string]string{"postgres": "process %d of application ", "mysql": "connection %d, in a transaction since "}[s.Protocol()]
		assert.ErrorContains(t, err, "another transaction ("+fmt.Sprintf(says, session))
		assert.ErrorContains(t, err, `has locked the row of limit "limit" and this key`)
		assert.NotContains(t, err.Error(), "secret")
		assert.NotContains(t, err.Error(), "WithTx")
		t.Log(err)
	})
}

// MySQL shows a user only the databases that it may use.
func TestMissingDatabaseIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		needAdmin(t)
		database(t, s, "rl_no_such").RefusesToStart(t, "", "the database does not exist: create it, or name another")
	})
}

// Migrate creates tables, not schemas.
func TestMissingSchemaIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		needAdmin(t)
		store := live.Must(agree.NewStore(s.Open(t), s.Dialect, sqlstore.Options{Table: "rl_no_such.quotas"}))(t)
		says := map[string]string{
			"postgres": `the schema of table "rl_no_such.quotas" does not exist: create it`,
			"mysql":    `the database does not exist: create it`,
		}
		err := store.Migrate(t.Context())
		live.FailsWith(t, err, says[s.Protocol()])
		live.FailsWith(t, err, `create table "rl_no_such.quotas": `)
	})
}

// Some hosting providers make transactions read-only by default when a disk is full. (lib/pq begins the store's own
// transactions as read-write nevertheless.)
func TestReadOnlyTransactionsAreExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		table := live.NewTable()
		s.StoreIn(t, db, table, nil)
		s = s.With(word(s, "readOnly") + "=1")
		if s.Driver == "postgres" {
			require.NoError(t, s.Visit(t, table).Ready(t.Context()))
			return
		}
		s.RefusesToStart(t, table, readOnly)
	})
}

// readOnly is part of the error of a read-only server.
const readOnly = "is read-only: taking tokens writes to the table, so connect to the primary server"

// user creates a user with these grants, and drops it when the test ends.
func user(t *testing.T, s live.Server, db *sql.DB, grants ...string) live.Server {
	t.Helper()
	needAdmin(t)
	name, create := live.NewTable(), "CREATE ROLE %s LOGIN PASSWORD 'secret'"
	drop := []string{"DROP OWNED BY " + name, "DROP ROLE " + name}
	if s.Driver == "mysql" {
		create, drop = "CREATE USER %s IDENTIFIED BY 'secret'", []string{"DROP USER " + name}
	}
	live.Execute(t, db, fmt.Sprintf(create, name))
	t.Cleanup(func() {
		for _, text := range drop {
			live.Execute(t, db, text)
		}
	})
	for _, grant := range grants {
		live.Execute(t, db, fmt.Sprintf("GRANT %s TO %s", grant, name))
	}
	return as(t, s, name, "secret")
}

// role returns the name of the server's user.
func role(t *testing.T, s live.Server) string {
	t.Helper()
	if s.Driver == "mysql" {
		c := live.Must(mysql.ParseDSN(s.DSN))(t)
		return c.User
	}
	u := live.Must(url.Parse(s.DSN))(t)
	return u.User.Username()
}

// The privileges that the error names are sufficient.
func TestMissingPrivilegeIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		schema := schema(t, s, db)
		table := schema + ".quotas"
		s.StoreIn(t, db, table, nil)
		use := []string{"USAGE ON SCHEMA " + schema}
		if s.Driver == "mysql" {
			s, use = database(t, s, schema), nil
		}
		says := fmt.Sprintf("lacks a privilege: on table %q it needs SELECT, INSERT, UPDATE and DELETE", table)
		for _, granted := range []string{"SELECT", "INSERT, UPDATE, DELETE", "SELECT, UPDATE, DELETE", "SELECT, INSERT, DELETE", "SELECT, INSERT, UPDATE"} {
			t.Run(granted, func(t *testing.T) {
				user := user(t, s, db, append(use, granted+" ON "+table)...)
				store := user.Visit(t, table)
				live.FailsWith(t, store.Ready(t.Context()), says)
				if granted == "SELECT" {
					require.NoError(t, store.Migrate(t.Context()), "nothing is to be done")
					live.FailsWith(t, store.Migrate(t.Context(), live.Overridable()),
						fmt.Sprintf("create table %q: the database user lacks a privilege", dialect.OverridesTable(table)))
					live.FailsWith(t, take(t.Context(), store), `limit "limit": the database user `+says)
				}
			})
		}
		store := user(t, s, db, append(use, "SELECT, INSERT, UPDATE, DELETE ON "+table)...).Visit(t, table)
		require.NoError(t, store.Ready(t.Context()))
		require.NoError(t, take(t.Context(), store))
		require.NoError(t, sweep(t.Context(), store))
	})
}

// What "ratelimitgen sql -grants" prints is enough for everything that a program and its operators do.
func TestGrantsAreEnough(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		schema := schema(t, s, db)
		table, at := schema+".quotas", s
		if s.Driver == "mysql" {
			at = database(t, s, schema)
		}
		app, migrator := user(t, at, db), user(t, at, db)
		statements := live.Must(s.Dialect.GrantsFor(table, dialect.Roles{App: role(t, app), Migrator: role(t, migrator)}))(t)
		before, after, ok := strings.Cut(statements, "-- After Migrate.\n")
		require.True(t, ok)
		grant := func(statements string) {
			for line := range strings.Lines(statements) {
				if !strings.HasPrefix(line, "--") {
					live.Execute(t, db, strings.TrimSuffix(strings.TrimSpace(line), ";"))
				}
			}
		}
		p := live.Overridable()
		runtime.NewCatalog("example.com/app", runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: p.Name, Policies: []*runtime.Policy{p}}}})
		grant(before)
		require.NoError(t, migrator.Visit(t, table).Migrate(t.Context(), p))
		require.Error(t, app.Visit(t, table).Ready(t.Context(), p))
		grant(after)

		ctx, store := t.Context(), app.Visit(t, table)
		require.NoError(t, store.Ready(ctx, p))
		require.NoError(t, store.Migrate(ctx, p), "nothing is to be done")
		limits := limiter.New(store)
		limit, overrides := limits.Limit(p, runtime.Key{}), limits.OverridesForAll(p)
		require.NoError(t, limit.Require(ctx))
		require.NoError(t, sqlstore.RunInTx(ctx, app.Open(t), func(tx *sql.Tx) error {
			return limiter.New(store.WithTx(tx)).Limit(p, runtime.Key{}).Require(ctx)
		}))
		live.Must(overrides.Block(ctx, runtime.Block{Until: runtime.ForGood(), Reason: "a test", Author: "a test"}))(t)
		require.ErrorIs(t, limit.Require(ctx), runtime.ErrLimited)
		live.Must(overrides.End(ctx, runtime.OverrideEnd{Reason: "a test", Author: "a test"}))(t)
		require.NoError(t, limit.Reset(ctx))
		live.Must(store.Sweep(ctx, p))(t)
		live.Must(store.Forget(ctx, p.Name))(t)

		edited := *p
		edited.Capacity, edited.Rate = p.Capacity-1, p.Rate-1
		require.NoError(t, store.Migrate(ctx, &edited), "numbers are for people")
		other := *p
		other.Name = "new"
		require.ErrorContains(t, store.Migrate(ctx, &other), "lacks a privilege: on table "+strconv.Quote(dialect.RegistryTable(table)))
	})
}

// With an append-only log, the program and its operators add entries, which the program's role can neither change nor
// delete.
func TestAppendOnlyLog(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		ctx, db := t.Context(), s.Open(t)
		schema := schema(t, s, db)
		table, at := schema+".quotas", s
		if s.Driver == "mysql" {
			at = database(t, s, schema)
		}
		app, migrator := user(t, at, db), user(t, at, db)
		roles := dialect.Roles{App: role(t, app), Migrator: role(t, migrator), AppendOnly: true}
		before, after, ok := strings.Cut(live.Must(s.Dialect.GrantsFor(table, roles))(t), "-- After Migrate.\n")
		require.True(t, ok)
		p, key, why := live.Overridable(), runtime.KeyOf(runtime.String("ann")), runtime.OverrideEnd{Reason: "a test", Author: "a test"}
		executeLines(t, db, before)
		t.Cleanup(func() { live.Drop(t, db, table) })
		owner := migrator.Visit(t, table)
		require.NoError(t, owner.Migrate(ctx, p))
		executeLines(t, db, after)

		own := app.Open(t)
		store := app.StoreWith(t, own, sqlstore.Options{Table: table, KeepOverrides: -1})
		require.NoError(t, store.Ready(ctx, p))
		limits := limiter.New(store)
		require.NoError(t, limits.Limit(p, key).Require(ctx))
		live.Must(limits.Overrides(p, key).Block(ctx, runtime.Block{Until: runtime.ForGood(), Reason: why.Reason, Author: why.Author}))(t)
		require.ErrorIs(t, limits.Limit(p, key).Require(ctx), runtime.ErrLimited)
		live.Must(limits.Overrides(p, key).End(ctx, why))(t)
		require.NoError(t, errOf(store.Sweep(ctx, p)))
		for _, statement := range []string{"UPDATE %s SET reason = 'another'", "DELETE FROM %s"} {
			_, err := own.ExecContext(ctx, fmt.Sprintf(statement, dialect.OverridesTable(table)))
			require.Error(t, err, statement)
		}
		require.ErrorContains(t, errOf(store.Erase(ctx, p.Name, key.String(), why)), "lacks a privilege")
		require.Len(t, live.Must(limits.Overrides(p, key).History(ctx))(t), 2, "the log is as it was")
		require.Equal(t, 2, live.Must(owner.Erase(ctx, p.Name, key.String(), why))(t).Entries)
	})
}

// Ready fails before an operator has to block a key, and names the table that lacks the privilege.
func TestMissingPrivilegeOnOverridesIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		schema := schema(t, s, db)
		table := schema + ".quotas"
		overrides := dialect.OverridesTable(table)
		require.NoError(t, s.StoreIn(t, db, table, nil).Migrate(t.Context(), live.Overridable()))
		use := []string{"USAGE ON SCHEMA " + schema}
		if s.Driver == "mysql" {
			s, use = database(t, s, schema), nil
		}
		use = append(use, "SELECT, INSERT, UPDATE, DELETE ON "+table, "SELECT ON "+dialect.RegistryTable(table))
		says := fmt.Sprintf("lacks a privilege: on table %q it needs SELECT and INSERT", overrides)
		block := runtime.OverrideEntry{Limit: "overridable", What: runtime.OverrideBlock, Until: runtime.ForGood(), Reason: "a test", Author: "a test"}
		for _, granted := range []string{"SELECT", "INSERT", "UPDATE", "SELECT, INSERT"} {
			t.Run(granted, func(t *testing.T) {
				store := user(t, s, db, append(use, granted+" ON "+overrides)...).Visit(t, table)
				require.NoError(t, store.Ready(t.Context()))
				ready := store.Ready(t.Context(), live.Overridable())
				_, blocked := store.AppendOverride(t.Context(), block)
				if granted == "SELECT, INSERT" {
					require.NoError(t, ready)
					require.NoError(t, blocked)
					live.FailsWith(t, errOf(store.Sweep(t.Context(), live.Overridable())), "grant the user DELETE on it")
					require.NoError(t, store.Migrate(t.Context(), live.Overridable()), "nothing is to be done")
					return
				}
				live.FailsWith(t, ready, says)
				live.FailsWith(t, blocked, says)
			})
		}
	})
}

// faults are the faults of a test of histories.
type faults struct {
	// odds is that of [proxy].
	odds int
	// One call in hurried has a timeout, at random below patience.
	hurried  int
	patience time.Duration
}

// timeout returns the context of a call.
func (f *faults) timeout(random *rand.Rand) (context.Context, context.CancelFunc) {
	if f == nil || random.IntN(f.hurried) > 0 {
		return context.WithTimeout(context.Background(), time.Minute)
	}
	return context.WithTimeout(context.Background(), time.Duration(random.Int64N(int64(f.patience))))
}

// faulty returns stores that connect to the nodes through proxies, and a function that counts the connections cut.
func faulty(t *testing.T, nodes []live.Server, table string, clock func() time.Time, odds int) ([]runtime.Store, func() int64) {
	t.Helper()
	var stores []runtime.Store
	var proxies []*proxy
	for _, s := range nodes {
		s, p := through(t, s, odds)
		db := live.Must(sql.Open(s.Driver, s.DSN))(t)
		store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table, Clock: clock}))(t)
		t.Cleanup(func() {
			store.Close()
			db.Close()
		})
		stores, proxies = append(stores, store), append(proxies, p)
	}
	return stores, func() (cuts int64) {
		for _, p := range proxies {
			cuts += p.cuts.Load()
		}
		return cuts
	}
}
