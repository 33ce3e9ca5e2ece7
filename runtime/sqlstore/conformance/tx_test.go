package conformance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// A pool of pgx is a database to pass to a store, whose transactions WithTx takes.
func TestPoolOfPgx(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		if s.Driver != "pgx" {
			return
		}
		pool := live.Must(pgxpool.New(t.Context(), s.DSN))(t)
		t.Cleanup(pool.Close)
		db := stdlib.OpenDBFromPool(pool)
		t.Cleanup(func() { db.Close() })
		store := s.Store(t, db, time.Now)
		p := live.Once("limit", 10)
		tx := live.Must(db.BeginTx(t.Context(), nil))(t)
		require.NoError(t, limiter.New(store).WithTx(tx).Limit(p, runtime.Key{}).RequireN(t.Context(), 4))
		require.NoError(t, tx.Commit())
		require.NoError(t, limiter.New(store).Limit(p, runtime.Key{}).Require(t.Context()))
		assert.Equal(t, int64(5), live.Left(t, store, p))
	})
}

// Tokens are taken if and only if the caller's transaction commits.
func TestTxTakesIfAndOnlyIfItCommits(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		store := s.Store(t, db, time.Now)
		p, other := live.Once("limit", 10), live.Once("other", 10)
		limits := limiter.New(store)
		take := func(tx runtime.Tx, n int64) runtime.Decision {
			d := live.Must(limits.WithTx(tx).Limit(p, runtime.Key{}).AllowN(t.Context(), n))(t)
			return d
		}
		begin := func() *sql.Tx {
			tx := live.Must(db.BeginTx(t.Context(), nil))(t)
			return tx
		}

		tx := begin()
		assert.True(t, take(tx, 4).Allowed)
		assert.True(t, take(tx, 4).Allowed)
		denied := take(tx, 4)
		assert.False(t, denied.Allowed)
		assert.Equal(t, int64(2), denied.Remaining, "what the transaction has taken is taken, for itself")
		assert.True(t, take(tx, 1).Allowed, "usable after a denial")
		require.NoError(t, tx.Rollback())
		assert.Equal(t, int64(10), live.Left(t, store, p), "rolled back")

		tx = begin()
		assert.True(t, take(tx, 4).Allowed)
		require.NoError(t, tx.Commit())
		assert.Equal(t, int64(6), live.Left(t, store, p), "committed")

		tx = begin()
		assert.True(t, take(tx, 1).Allowed)
		for _, text := range []string{"SAVEPOINT here", "", "ROLLBACK TO SAVEPOINT here"} {
			if text == "" {
				assert.True(t, take(tx, 3).Allowed)
				continue
			}
			live.Must(tx.ExecContext(t.Context(), text))(t)
		}
		require.NoError(t, tx.Commit())
		assert.Equal(t, int64(5), live.Left(t, store, p), "the take after the savepoint was rolled back")

		tx = begin()
		in := limits.WithTx(tx)
		ds := live.Must(in.All(t.Context(), in.Limit(p, runtime.Key{}).N(6), in.Limit(other, runtime.Key{}).N(1)))(t)
		assert.False(t, ds.Allowed)
		ds = live.Must(in.All(t.Context(), in.Limit(p, runtime.Key{}).N(5), in.Limit(other, runtime.Key{}).N(1)))(t)
		assert.True(t, ds.Allowed)
		require.NoError(t, tx.Commit())
		assert.Equal(t, int64(0), live.Left(t, store, p))
		assert.Equal(t, int64(9), live.Left(t, store, other))
	})
}

// The caller begins the transaction by a statement on a *sql.Conn.
func TestTxBegunOnConn(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		store, p := s.Store(t, db, time.Now), live.Once("limit", 10)
		conn := live.Must(db.Conn(t.Context()))(t)
		defer conn.Close()
		for _, end := range []string{"ROLLBACK", "COMMIT"} {
			live.Must(conn.ExecContext(t.Context(), "BEGIN"))(t)
			require.NoError(t, limiter.New(store).WithConn(conn).Limit(p, runtime.Key{}).RequireN(t.Context(), 3))
			live.Must(conn.ExecContext(t.Context(), end))(t)
		}
		assert.Equal(t, int64(7), live.Left(t, store, p))
	})
}

func TestWithConnRefusesConnectionsWithoutTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		agree.NoTransaction(t, db, s.Store(t, db, time.Now))
	})
}

// A denied first use of a key leaves no row.
func TestTxDeniedLeavesNoRow(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		table := live.NewTable()
		store := s.StoreIn(t, db, table, time.Now)
		full, empty := live.Once("full", 1), live.Once("empty", 1)
		require.NoError(t, limiter.New(store).Limit(empty, runtime.Key{}).Require(t.Context()))
		require.NoError(t, sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
			in := limiter.New(store).WithTx(tx)
			ds, err := in.All(t.Context(), in.Limit(full, runtime.Key{}), in.Limit(empty, runtime.Key{}))
			assert.False(t, ds.Allowed)
			return err
		}))
		var rows int
		require.NoError(t, db.QueryRow("SELECT count(*) FROM "+table).Scan(&rows))
		assert.Equal(t, 1, rows)
	})
}

// Transactions take from two limits in opposite orders, so some are aborted and run again, and all succeed. They are
// few, because Postgres looks for a deadlock only after a second.
func TestRunInTxRetriesDeadlocks(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		store, limits := s.Store(t, db, time.Now), []*runtime.Policy{live.Once("a", 6), live.Once("b", 6)}
		var mu sync.Mutex
		ran, admitted := 0, 0
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for range 2 {
					err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
						mu.Lock()
						ran++
						mu.Unlock()
						in := limiter.New(store).WithTx(tx)
						for i := range limits {
							if err := in.Limit(limits[(i+g)%2], runtime.Key{}).Require(t.Context()); err != nil {
								return err
							}
						}
						return nil
					})
					var limited *runtime.LimitedError
					if err == nil {
						mu.Lock()
						admitted++
						mu.Unlock()
					} else if !errors.As(err, &limited) {
						assert.NoError(t, err)
					}
				}
			})
		}
		all.Wait()
		assert.Equal(t, 6, admitted)
		assert.Equal(t, int64(0), live.Left(t, store, limits[0]))
		assert.Equal(t, int64(0), live.Left(t, store, limits[1]))
		t.Logf("8 transactions were run %d times", ran)
	})
}

// If two transactions wait for each other, one of them is aborted with an error that says to run it again.
func TestDeadlockReturnsRetryTxError(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		store := s.Store(t, db, time.Now)
		a, b := live.Once("a", 10), live.Once("b", 10)
		for _, p := range []*runtime.Policy{a, b} {
			require.NoError(t, limiter.New(store).Limit(p, runtime.Key{}).Require(t.Context()))
		}
		errs := make(chan error, 2)
		var first, all sync.WaitGroup
		first.Add(2)
		for _, order := range [][]*runtime.Policy{{a, b}, {b, a}} {
			all.Go(func() {
				tx := live.Must(db.BeginTx(t.Context(), nil))(t)
				defer tx.Rollback()
				in := limiter.New(store).WithTx(tx)
				assert.NoError(t, in.Limit(order[0], runtime.Key{}).Require(t.Context()))
				first.Done()
				first.Wait()
				errs <- in.Limit(order[1], runtime.Key{}).Require(t.Context())
			})
		}
		all.Wait()
		var again *sqlstore.RetryTxError
		one, two := <-errs, <-errs
		require.True(t, errors.As(one, &again) != errors.As(two, &again), "%v; %v", one, two)
		assert.ErrorContains(t, again, "run your transaction again")
	})
}

// Concurrent transactions use different keys for the first time, at the database's default isolation level.
func TestTxConcurrentFirstUsesDoNotConflict(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		store, p := s.Store(t, db, time.Now), live.Once("limit", 1)
		var all sync.WaitGroup
		for i := range 24 { // each has a connection, and two drivers share a server that has 100
			all.Go(func() {
				assert.NoError(t, sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
					return limiter.New(store).WithTx(tx).Limit(p, runtime.KeyOf(runtime.Int(i))).Require(t.Context())
				}), fmt.Sprint(i))
			})
		}
		all.Wait()
	})
}

// Concurrent calls use sharded keys, some of whose rows exist, and keys with numbers of their own. In any other order than
// that of the rows they would deadlock, which the server resolves only after a second.
func TestPostgresHasNoDeadlocks(t *testing.T) {
	needAdmin(t)
	s := named(t, "postgres-pgx")[0]
	admin := s.Open(t)
	name := live.NewTable()
	live.Execute(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { live.Execute(t, admin, "DROP DATABASE "+name+" WITH (FORCE)") })
	s = database(t, s, name)
	useShards(t, s)
	useNumbers(t, s)

	require.Eventually(t, func() bool { // sessions report their statistics when they end
		var sessions int
		err := admin.QueryRow("SELECT numbackends FROM pg_stat_database WHERE datname = $1", name).Scan(&sessions)
		return err == nil && sessions == 0
	}, 10*time.Second, 10*time.Millisecond)
	var deadlocks, commits int
	require.NoError(t, admin.QueryRow("SELECT deadlocks, xact_commit FROM pg_stat_database WHERE datname = $1", name).Scan(&deadlocks, &commits))
	assert.Zero(t, deadlocks)
	assert.Greater(t, commits, 100, "these are the statistics of the test")
}

// useShards takes from several sharded keys in one call, by concurrent callers without group commit.
func useShards(t *testing.T, s live.Server) {
	db := live.Must(sql.Open(s.Driver, s.DSN))(t)
	defer db.Close()
	db.SetMaxOpenConns(16)
	store := s.StoreWith(t, db, sqlstore.Options{Batch: 1})
	defer store.Close()
	require.NoError(t, store.Migrate(t.Context()))
	limits := limiter.New(store)
	p := live.Once("sharded", 1600)
	p.Rate, p.Shards = 16, 16
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 40 {
				var items []limiter.Item
				for k := range 4 {
					items = append(items, limits.Limit(p, runtime.KeyOf(runtime.String(fmt.Sprint((i/4+k+g)%8, "-", i/8)))))
				}
				_, err := limits.All(context.Background(), items...)
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
}

// useNumbers takes from keys with numbers of their own, by concurrent batches.
func useNumbers(t *testing.T, s live.Server) {
	db := live.Must(sql.Open(s.Driver, s.DSN))(t)
	defer db.Close()
	db.SetMaxOpenConns(16)
	const keys, batches, calls = 40, 40, 20
	var plans []*runtime.Policy
	for i := range 5 {
		plans = append(plans, live.Once("numbers", batches*calls*8+int64(i)))
	}
	var all sync.WaitGroup
	for g := range 8 {
		store := s.StoreWith(t, db, sqlstore.Options{})
		defer store.Close()
		if g == 0 {
			require.NoError(t, store.Migrate(t.Context(), plans[0]))
		}
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range batches {
				batch := make([]runtime.Call, calls)
				for i := range batch {
					k := r.IntN(keys)
					batch[i] = runtime.Call{Requests: []runtime.Request{{Policy: plans[k%len(plans)], Key: fmt.Sprint(k), Count: 1}}}
				}
				answers, err := store.Do(context.Background(), batch)
				assert.NoError(t, err)
				for _, a := range answers {
					assert.True(t, a.Err == nil && a.Decisions[0].Allowed)
				}
			}
		})
	}
	all.Wait()
	taken, limits := int64(0), limiter.New(s.StoreWith(t, db, sqlstore.Options{}))
	for k := range keys {
		p := plans[k%len(plans)]
		taken += p.Capacity - live.Must(limits.Limit(p, live.KeyOf(k)).Peek(t.Context()))(t).Remaining
	}
	assert.Equal(t, int64(8*batches*calls), taken)
}

// A transaction whose session is ended before its COMMIT has an outcome that the client cannot know.
func TestTxOfALostConnectionHasAnUnknownOutcome(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		session, end := "SELECT CONNECTION_ID()", "KILL %d"
		if s.Dialect.Name == dialect.Postgres.Name {
			session, end = "SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d)"
		}
		db := s.Open(t)
		store, p := s.Store(t, db, time.Now), live.Once("limit", 10)
		require.NoError(t, store.Ready(t.Context()))
		err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
			var id int64
			require.NoError(t, limiter.New(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context()))
			require.NoError(t, tx.QueryRowContext(t.Context(), session).Scan(&id))
			live.Must(db.ExecContext(t.Context(), fmt.Sprintf(end, id)))(t)
			return nil
		})
		require.ErrorIs(t, err, sqlstore.ErrOutcomeUnknown)
		assert.Equal(t, runtime.OriginStore, runtime.OriginOf(err))
		assert.ErrorContains(t, err, "the transaction may have been committed: ")
	})
}
