package livetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// visit returns a store for a table that may be missing.
func (s server) visit(t *testing.T, table string) *sqlstore.Store {
	t.Helper()
	db := must(sql.Open(s.driver, s.dsn))(t)
	t.Cleanup(func() { db.Close() })
	return s.storeWith(t, db, sqlstore.Options{Table: table})
}

// refuses requires that each way to start using the server returns an error that contains says.
func (s server) refuses(t *testing.T, table, says string) {
	t.Helper()
	store := s.visit(t, table)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	failsWith(t, store.Ready(ctx), says)
	failsWith(t, take(ctx, store), says)
	failsWith(t, take(ctx, store), `limit "limit": `)
}

// failsWith requires that an error contains says, and wraps an error of the driver.
func failsWith(t *testing.T, err error, says string) {
	t.Helper()
	assert.ErrorContains(t, err, says)
	assert.True(t, fromDriver(err), "%v", err)
	t.Log(err)
}

// takeInTx takes in a transaction of the caller.
func takeInTx(ctx context.Context, db *sql.DB, store *sqlstore.Store) error {
	return sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
		return limiter.New(store).WithTx(tx).Limit(once("limit", 1), runtime.Key{}).Require(ctx)
	})
}

func take(ctx context.Context, store *sqlstore.Store) error {
	return limiter.New(store).Limit(once("limit", 100), runtime.Key{}).Require(ctx)
}

func sweep(ctx context.Context, store *sqlstore.Store) error {
	_, err := store.Sweep(ctx, once("limit", 1))
	return err
}

// fromDriver reports whether err wraps an error of a driver or of the network.
func fromDriver(err error) bool {
	return errors.As(err, new(*pgconn.PgError)) || errors.As(err, new(*pq.Error)) ||
		errors.As(err, new(*mysql.MySQLError)) || errors.As(err, new(*net.OpError)) ||
		errors.As(err, new(*net.DNSError))
}

func TestWrongDataSourceNameIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		closed, elsewhere := s, s
		closed.dsn, _ = redirect(t, s, listener.Addr().String())
		elsewhere.dsn, _ = redirect(t, s, "no-such-host.invalid:5432")
		require.NoError(t, listener.Close())
		for _, row := range []struct {
			at   server
			says string
		}{
			{closed, "the database server cannot be reached: check host and port"},
			{elsewhere, "the database server cannot be reached: check host and port"},
			{s.database(t, "rl_no_such"), "the database does not exist: create it, or name another"},
			{s.as(t, "rl_nobody", "secret"), "the server refuses the database user: check user and password"},
		} {
			row.at.refuses(t, "", row.says)
		}
	})
}

func TestWrongDialectIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		wrong := map[string][]dialect.Dialect{
			"postgres": {dialect.MySQL, dialect.MariaDB, dialect.SQLite}, "mysql": {dialect.Postgres, dialect.SQLite},
		}[s.protocol()]
		if s.dialect.Name == "mysql" {
			wrong = append(wrong, dialect.MariaDB)
		}
		for _, s.dialect = range wrong {
			t.Run(s.dialect.Name, func(t *testing.T) {
				s.refuses(t, "", "the database rejects the SQL of dialect "+s.dialect.Name)
			})
		}
	})
}

func TestAbortedTransactionIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		if s.protocol() != "postgres" {
			return
		}
		db := s.open(t)
		limits := limiter.New(s.store(t, db, nil))
		err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
			_, err := tx.Exec("SELECT 1 / 0")
			require.Error(t, err)
			return limits.WithTx(tx).Limit(once("limit", 1), runtime.Key{}).Require(t.Context())
		})
		failsWith(t, err, "an earlier statement of the transaction has failed: roll it back, and run it again")
	})
}

// The call waits for a row that the transaction has locked, or for a connection.
func TestCallOutsideOfItsTransactionIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		for connections, says := range map[int]string{
			1: "all 1 connections of the *sql.DB are in use: in a transaction, make calls with WithTx(tx), or raise db.SetMaxOpenConns",
			9: "if it waits for this call, make the call with WithTx(tx)",
		} {
			db := s.open(t)
			store := s.store(t, db, nil)
			require.NoError(t, store.Ready(t.Context()))
			db.SetMaxOpenConns(connections)
			p := once("limit", 10)
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

// The error of a call for a row that another transaction has locked names the limit and that transaction. It gives no advice about
// transactions of this process, of which there are none.
func TestErrorOfALockedRowNamesTheTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		table := newTable()
		store := s.storeIn(t, db, table, nil)
		p := once("limit", 10)
		p.Timeout = 1200 * time.Millisecond
		limit := limiter.New(store).Limit(p, runtime.KeyOf(runtime.String("secret")))
		require.NoError(t, limit.Require(t.Context()))
		tx := must(db.BeginTx(t.Context(), nil))(t)
		defer tx.Rollback()
		execute(t, tx, "UPDATE "+table+" SET shard = 0 * shard, value = value - 1")
		var session int
		require.NoError(t, tx.QueryRow(map[string]string{
			"postgres": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()",
		}[s.protocol()]).Scan(&session))

		err := limit.Require(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		says := map[string]string{"postgres": "process %d of application ", "mysql": "connection %d, in a transaction since "}[s.protocol()]
		assert.ErrorContains(t, err, "another transaction ("+fmt.Sprintf(says, session))
		assert.ErrorContains(t, err, `has locked the row of limit "limit" and this key`)
		assert.NotContains(t, err.Error(), "secret")
		assert.NotContains(t, err.Error(), "WithTx")
		t.Log(err)
	})
}

// Migrate creates tables, not schemas.
func TestMissingSchemaIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		store := must(agree.NewStore(s.open(t), s.dialect, sqlstore.Options{Table: "rl_no_such.quotas"}))(t)
		says := map[string]string{
			"postgres": `the schema of table "rl_no_such.quotas" does not exist: create it`,
			"mysql":    `the database does not exist: create it`,
		}
		err := store.Migrate(t.Context())
		assert.ErrorContains(t, err, says[s.protocol()])
		assert.ErrorContains(t, err, `create table "rl_no_such.quotas": `)
		assert.True(t, fromDriver(err))
	})
}

// Some hosting providers make transactions read-only by default when a disk is full. (lib/pq begins the store's own
// transactions as read-write nevertheless.)
func TestReadOnlyTransactionsAreExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		table := newTable()
		s.storeIn(t, db, table, nil)
		s = s.with(s.word("readOnly") + "=1")
		if s.driver == "postgres" {
			require.NoError(t, s.visit(t, table).Ready(t.Context()))
			return
		}
		s.refuses(t, table, readOnly)
	})
}

// readOnly is part of the error of a read-only server.
const readOnly = "is read-only: taking tokens writes to the table, so connect to the primary server"

// user creates a user with these grants, and drops it when the test ends.
func (s server) user(t *testing.T, db *sql.DB, grants ...string) server {
	t.Helper()
	name, create := newTable(), "CREATE ROLE %s LOGIN PASSWORD 'secret'"
	drop := []string{"DROP OWNED BY " + name, "DROP ROLE " + name}
	if s.driver == "mysql" {
		create, drop = "CREATE USER %s IDENTIFIED BY 'secret'", []string{"DROP USER " + name}
	}
	execute(t, db, fmt.Sprintf(create, name))
	t.Cleanup(func() {
		for _, text := range drop {
			execute(t, db, text)
		}
	})
	for _, grant := range grants {
		execute(t, db, fmt.Sprintf("GRANT %s TO %s", grant, name))
	}
	return s.as(t, name, "secret")
}

// role returns the name of the server's user.
func (s server) role(t *testing.T) string {
	t.Helper()
	if s.driver == "mysql" {
		c := must(mysql.ParseDSN(s.dsn))(t)
		return c.User
	}
	u := must(url.Parse(s.dsn))(t)
	return u.User.Username()
}

// The privileges that the error names are sufficient.
func TestMissingPrivilegeIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		schema := s.schema(t, db)
		table := schema + ".quotas"
		s.storeIn(t, db, table, nil)
		use := []string{"USAGE ON SCHEMA " + schema}
		if s.driver == "mysql" {
			s, use = s.database(t, schema), nil
		}
		says := fmt.Sprintf("lacks a privilege: on table %q it needs SELECT, INSERT, UPDATE and DELETE", table)
		for _, granted := range []string{"SELECT", "INSERT, UPDATE, DELETE", "SELECT, UPDATE, DELETE", "SELECT, INSERT, DELETE", "SELECT, INSERT, UPDATE"} {
			t.Run(granted, func(t *testing.T) {
				user := s.user(t, db, append(use, granted+" ON "+table)...)
				store := user.visit(t, table)
				failsWith(t, store.Ready(t.Context()), says)
				if granted == "SELECT" {
					require.NoError(t, store.Migrate(t.Context()), "nothing is to be done")
					failsWith(t, store.Migrate(t.Context(), overridable()),
						fmt.Sprintf("create table %q: the database user lacks a privilege", dialect.OverridesTable(table)))
					failsWith(t, take(t.Context(), store), `limit "limit": the database user `+says)
				}
			})
		}
		store := s.user(t, db, append(use, "SELECT, INSERT, UPDATE, DELETE ON "+table)...).visit(t, table)
		require.NoError(t, store.Ready(t.Context()))
		require.NoError(t, take(t.Context(), store))
		require.NoError(t, sweep(t.Context(), store))
	})
}

// What "ratelimitgen sql -grants" prints is enough for everything that a program and its operators do.
func TestGrantsAreEnough(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		schema := s.schema(t, db)
		table, at := schema+".quotas", s
		if s.driver == "mysql" {
			at = s.database(t, schema)
		}
		app, migrator := at.user(t, db), at.user(t, db)
		statements := must(s.dialect.GrantsFor(table, dialect.Roles{App: app.role(t), Migrator: migrator.role(t)}))(t)
		before, after, ok := strings.Cut(statements, "-- After Migrate.\n")
		require.True(t, ok)
		grant := func(statements string) {
			for line := range strings.Lines(statements) {
				if !strings.HasPrefix(line, "--") {
					execute(t, db, strings.TrimSuffix(strings.TrimSpace(line), ";"))
				}
			}
		}
		p := overridable()
		runtime.NewCatalog("example.com/app", runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: p.Name, Policies: []*runtime.Policy{p}}}})
		grant(before)
		require.NoError(t, migrator.visit(t, table).Migrate(t.Context(), p))
		require.Error(t, app.visit(t, table).Ready(t.Context(), p))
		grant(after)

		ctx, store := t.Context(), app.visit(t, table)
		require.NoError(t, store.Ready(ctx, p))
		require.NoError(t, store.Migrate(ctx, p), "nothing is to be done")
		limits := limiter.New(store)
		limit, overrides := limits.Limit(p, runtime.Key{}), limits.OverridesForAll(p)
		require.NoError(t, limit.Require(ctx))
		require.NoError(t, sqlstore.RunInTx(ctx, app.open(t), func(tx *sql.Tx) error {
			return limiter.New(store.WithTx(tx)).Limit(p, runtime.Key{}).Require(ctx)
		}))
		must(overrides.Block(ctx, runtime.Block{Until: runtime.ForGood(), Reason: "a test", Author: "a test"}))(t)
		require.ErrorIs(t, limit.Require(ctx), runtime.ErrLimited)
		must(overrides.End(ctx, runtime.OverrideEnd{Reason: "a test", Author: "a test"}))(t)
		require.NoError(t, limit.Reset(ctx))
		must(store.Sweep(ctx, p))(t)
		must(store.Forget(ctx, p.Name))(t)

		edited := *p
		edited.Capacity, edited.Rate = p.Capacity-1, p.Rate-1
		require.NoError(t, store.Migrate(ctx, &edited), "numbers are for people")
		other := *p
		other.Name = "new"
		require.ErrorContains(t, store.Migrate(ctx, &other), "lacks a privilege: on table "+strconv.Quote(dialect.RegistryTable(table)))
	})
}

// With an append-only log, the program and its operators add entries, which the program's role can neither change nor delete.
func TestAppendOnlyLog(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		ctx, db := t.Context(), s.open(t)
		schema := s.schema(t, db)
		table, at := schema+".quotas", s
		if s.driver == "mysql" {
			at = s.database(t, schema)
		}
		app, migrator := at.user(t, db), at.user(t, db)
		roles := dialect.Roles{App: app.role(t), Migrator: migrator.role(t), AppendOnly: true}
		before, after, ok := strings.Cut(must(s.dialect.GrantsFor(table, roles))(t), "-- After Migrate.\n")
		require.True(t, ok)
		p, key, why := overridable(), runtime.KeyOf(runtime.String("ann")), runtime.OverrideEnd{Reason: "a test", Author: "a test"}
		executeLines(t, db, before)
		t.Cleanup(func() {
			for _, name := range []string{table, dialect.OverridesTable(table), dialect.RegistryTable(table)} {
				execute(t, db, "DROP TABLE IF EXISTS "+name)
			}
		})
		owner := migrator.visit(t, table)
		require.NoError(t, owner.Migrate(ctx, p))
		executeLines(t, db, after)

		own := app.open(t)
		store := app.storeWith(t, own, sqlstore.Options{Table: table, KeepOverrides: -1})
		require.NoError(t, store.Ready(ctx, p))
		limits := limiter.New(store)
		require.NoError(t, limits.Limit(p, key).Require(ctx))
		must(limits.Overrides(p, key).Block(ctx, runtime.Block{Until: runtime.ForGood(), Reason: why.Reason, Author: why.Author}))(t)
		require.ErrorIs(t, limits.Limit(p, key).Require(ctx), runtime.ErrLimited)
		must(limits.Overrides(p, key).End(ctx, why))(t)
		require.NoError(t, errOf(store.Sweep(ctx, p)))
		for _, statement := range []string{"UPDATE %s SET reason = 'another'", "DELETE FROM %s"} {
			_, err := own.ExecContext(ctx, fmt.Sprintf(statement, dialect.OverridesTable(table)))
			require.Error(t, err, statement)
		}
		require.ErrorContains(t, errOf(store.Erase(ctx, p.Name, key.String(), why)), "lacks a privilege")
		require.Len(t, must(limits.Overrides(p, key).History(ctx))(t), 2, "the log is as it was")
		require.Equal(t, 2, must(owner.Erase(ctx, p.Name, key.String(), why))(t).Entries)
	})
}

// Ready fails before an operator has to block a key, and names the table that lacks the privilege.
func TestMissingPrivilegeOnOverridesIsExplained(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		schema := s.schema(t, db)
		table := schema + ".quotas"
		overrides := dialect.OverridesTable(table)
		require.NoError(t, s.storeIn(t, db, table, nil).Migrate(t.Context(), overridable()))
		use := []string{"USAGE ON SCHEMA " + schema}
		if s.driver == "mysql" {
			s, use = s.database(t, schema), nil
		}
		use = append(use, "SELECT, INSERT, UPDATE, DELETE ON "+table, "SELECT ON "+dialect.RegistryTable(table))
		says := fmt.Sprintf("lacks a privilege: on table %q it needs SELECT and INSERT", overrides)
		block := runtime.OverrideEntry{Limit: "overridable", What: runtime.OverrideBlock, Until: runtime.ForGood(), Reason: "a test", Author: "a test"}
		for _, granted := range []string{"SELECT", "INSERT", "UPDATE", "SELECT, INSERT"} {
			t.Run(granted, func(t *testing.T) {
				store := s.user(t, db, append(use, granted+" ON "+overrides)...).visit(t, table)
				require.NoError(t, store.Ready(t.Context()))
				ready := store.Ready(t.Context(), overridable())
				_, blocked := store.AppendOverride(t.Context(), block)
				if granted == "SELECT, INSERT" {
					require.NoError(t, ready)
					require.NoError(t, blocked)
					failsWith(t, errOf(store.Sweep(t.Context(), overridable())), "grant the user DELETE on it")
					require.NoError(t, store.Migrate(t.Context(), overridable()), "nothing is to be done")
					return
				}
				failsWith(t, ready, says)
				failsWith(t, blocked, says)
			})
		}
	})
}

// A replica is read-only. A server that requires passwords gets a wrong one.
func TestPostgresReplicaIsExplained(t *testing.T) {
	t.Parallel()
	postgres := own{script: "./postgres.sh"}
	defer postgres.remove()
	needOwn(t, postgres.start())
	require.NoError(t, postgres.run("standby", strconv.Itoa(postgres.port(0))))
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			at := func(i int) server {
				dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", postgres.port(i))
				return server{"own postgres", driver, dsn, dialect.Postgres}
			}
			primary, replica := at(0), at(1)
			db, table := primary.open(t), newTable()
			primary.storeIn(t, db, table, nil)
			looking := replica.visit(t, table)
			require.Eventually(t, func() bool {
				return !strings.Contains(fmt.Sprint(looking.Ready(t.Context())), "there is no table")
			}, 10*time.Second, 10*time.Millisecond, "the replica has no table")
			replica.refuses(t, table, "connect to the primary server")

			execute(t, db, "CREATE ROLE guarded LOGIN PASSWORD 'secret'")
			defer db.Exec("DROP ROLE guarded")
			primary.as(t, "guarded", "wrong").refuses(t, table, "the server refuses the database user: check user and password")
			failsWith(t, primary.as(t, "guarded", "secret").visit(t, table).Ready(t.Context()), "lacks a privilege")
		})
	}
}

// A node with read_only set behaves like a replica. Then a user gives a wrong password.
func TestMySQLReplicaIsExplained(t *testing.T) {
	node := galeraServers(t)[0]
	db, table := node.open(t), newTable()
	node.storeIn(t, db, table, nil)
	user := node.user(t, db, "SELECT, INSERT, UPDATE, DELETE ON "+table)
	require.NoError(t, user.visit(t, table).Ready(t.Context()))
	set := func(on int) {
		execute(t, db, fmt.Sprintf("SET GLOBAL read_only = %d", on))
	}
	set(1)
	defer set(0)
	user.refuses(t, table, readOnly)
	c := must(mysql.ParseDSN(user.dsn))(t)
	node.as(t, c.User, "wrong").refuses(t, table, "the server refuses the database user: check user and password")
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
func faulty(t *testing.T, nodes []server, table string, clock func() time.Time, odds int) ([]runtime.Store, func() int64) {
	t.Helper()
	var stores []runtime.Store
	var proxies []*proxy
	for _, s := range nodes {
		s, p := s.through(t, odds)
		db := must(sql.Open(s.driver, s.dsn))(t)
		store := must(agree.NewStore(db, s.dialect, sqlstore.Options{Table: table, Clock: clock}))(t)
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
