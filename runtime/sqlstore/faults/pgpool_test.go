package faults

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// balancer is a Pgpool-II before a Postgres and a replica that applies commits late; see pgpool.sh.
type balancer struct{ own }

// replicaDelay is how late the replica is: late enough that a read of it cannot be mistaken for one of the primary, and that
// a slow machine creates a table before.
const replicaDelay = 8 * time.Second

// startBalancer starts a Pgpool-II with settings. It is stopped when the test ends.
func startBalancer(t *testing.T, settings ...string) *balancer {
	t.Helper()
	b := &balancer{own{script: "./pgpool.sh", args: append([]string{fmt.Sprint(replicaDelay.Milliseconds(), "ms")}, settings...)}}
	t.Cleanup(b.remove)
	require.NoError(t, b.start())
	return b
}

// server returns the Pgpool-II, and primary the server behind it, with a driver and parameters of its connections.
func (b *balancer) server(w way) live.Server  { return b.at(0, w) }
func (b *balancer) primary(w way) live.Server { return b.at(1, w) }

func (b *balancer) at(port int, w way) live.Server {
	s := live.Server{Name: "pgpool", Driver: w.driver, DSN: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", b.port(port)), Dialect: dialect.Postgres}
	if w.parameter != "" {
		s = s.With(w.parameter)
	}
	return s
}

// sentToReplica returns the statements that Pgpool-II has sent to the replica and that contain a word.
func (b *balancer) sentToReplica(t *testing.T, word string) (found []string) {
	t.Helper()
	log := live.Must(os.ReadFile(filepath.Join(b.dir, "pgpool.log")))(t)
	for _, entry := range newEntry.Split(string(log), -1) {
		_, statement, ok := strings.Cut(entry, "statement: ")
		if ok && strings.Contains(entry, "DB node id: 1 ") && strings.Contains(statement, word) {
			found = append(found, statement)
		}
	}
	return found
}

// newEntry is the beginning of an entry of the log, which may have several lines.
var newEntry = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: `)

// overrideSoon is a store that reads new overrides long before the replica has them.
func overrideSoon(t *testing.T, s live.Server, table string) *sqlstore.Store {
	t.Helper()
	return s.StoreWith(t, s.Open(t), sqlstore.Options{Table: table, OverridesEvery: 20 * time.Millisecond})
}

// Pgpool-II sends reads to a replica that lags, but none of the store: everything that decides, or that an operator sees, is
// read from the primary.
func TestPgpoolReadsWhereItWrites(t *testing.T) {
	t.Parallel()
	b := startBalancer(t)
	t.Cleanup(func() {
		assert.NotEmpty(t, b.sentToReplica(t, "a_read_of_ours"), "reads of other programs are not sent to the replica")
	})
	for _, w := range append(unnamed, named) {
		live.AtOnce(t, w.String(), func(t *testing.T) {
			s, table := b.server(w), live.NewTable()
			exactBehind(t, b.primary(w), s)

			db := s.Open(t)
			store := s.StoreIn(t, db, table, nil)
			require.NoError(t, store.Migrate(t.Context(), live.Overridable()))
			var visible bool
			require.NoError(t, db.QueryRow("SELECT to_regclass($1) IS NOT NULL AS a_read_of_ours", table).Scan(&visible))
			assert.False(t, visible, "the replica does not lag")
			require.NoError(t, store.Ready(t.Context(), live.Overridable()), "the replica has no table yet")
			takesAndReads(t, store)
			overridesAreSeen(t, store, overrideSoon(t, s, table))
			takesWithRows(t, db, store, table)
			assert.Empty(t, b.sentToReplica(t, `"`+table), "statements that were sent to the replica")
		})
	}
}

// takesAndReads requires of each verb that the next call, which only reads, has its effect.
func takesAndReads(t *testing.T, store *sqlstore.Store) {
	ctx := t.Context()
	for _, kind := range []runtime.Kind{runtime.TokenBucket, runtime.SlidingWindow} {
		p := live.Once(fmt.Sprint(kind), 3)
		p.Kind, p.Rate = kind, 3
		limit := limiter.New(store).Limit(p, live.KeyOf(1))
		left := func(want int64, after string) {
			t.Helper()
			balance := live.Must(limit.Peek(ctx))(t)
			assert.Equal(t, want, balance.Remaining, "%v, tokens left after %s", kind, after)
			check := live.Must(limit.CheckN(ctx, p.Capacity))(t)
			assert.Equal(t, want == p.Capacity, check.Allowed, "%v, a check after %s", kind, after)
		}
		left(3, "nothing")
		first := live.Must(limit.Allow(ctx))(t)
		left(2, "a take")
		require.NoError(t, limit.RequireN(ctx, 2))
		left(0, "the last take")
		assert.ErrorIs(t, limit.Require(ctx), runtime.ErrLimited)
		live.Must(limit.Refund(ctx, first))(t)
		left(1, "a refund")
		require.NoError(t, limit.Require(ctx), "the refunded token")
		require.NoError(t, limit.Reset(ctx))
		left(3, "a reset")
		live.Must(limit.Charge(ctx, 2))(t)
		left(1, "a charge")
		rows, _, err := store.Rows(ctx, runtime.Row{Name: p.Name, Shard: -1}, 10)
		require.NoError(t, err)
		assert.Len(t, rows, 1, "%v", kind)
	}

	p := live.Once("reserved", 2)
	p.MaxReserved = 2
	limit := limiter.New(store).Reservable(p, runtime.Key{})
	r := live.Must(limit.ReserveN(ctx, 2))(t)
	balance := live.Must(limit.Peek(ctx))(t)
	assert.Zero(t, balance.Remaining, "after a reservation")
	require.NoError(t, r.Settle(ctx, 1))
	balance = live.Must(limit.Peek(ctx))(t)
	assert.EqualValues(t, 1, balance.Remaining, "after settling")
}

// overridesAreSeen requires that entries can be written one after the other, and that another store decides by them before
// the replica has them.
func overridesAreSeen(t *testing.T, store, other *sqlstore.Store) {
	ctx, key := t.Context(), live.KeyOf(2)
	overrides, theirs := limiter.New(store).Overrides(live.Overridable(), key), limiter.New(other).Limit(live.Overridable(), key)
	seen := func(since time.Time, come func(runtime.Decision) bool, what string) {
		t.Helper()
		require.Eventually(t, func() bool {
			d, err := theirs.Check(ctx)
			return assert.NoError(t, err) && come(d)
		}, 10*time.Second, 5*time.Millisecond, what)
		assert.Less(t, time.Since(since), replicaDelay, what)
	}
	began := time.Now()
	for range 3 {
		live.Must(overrides.Set(ctx, runtime.Override{Capacity: 50, Until: runtime.ForGood(), Reason: "r", Author: "a"}))(t)
	}
	seen(began, func(d runtime.Decision) bool { return d.Policy.Capacity == 50 }, "an override")
	began = time.Now()
	live.Must(overrides.Block(ctx, runtime.Block{Until: runtime.ForGood(), Reason: "r", Author: "a"}))(t)
	seen(began, func(d runtime.Decision) bool { return !d.Allowed }, "a block")
	log := live.Must(store.OverrideHistory(ctx, live.Overridable().Name, key.String()))(t)
	assert.Len(t, log, 4, "the log of the key")
}

// takesWithRows takes tokens in transactions that also write a row.
func takesWithRows(t *testing.T, db *sql.DB, store *sqlstore.Store, table string) {
	ctx, p := t.Context(), live.Once("in transactions", 5)
	live.Execute(t, db, "CREATE TABLE "+table+"_rows (id integer)")
	defer live.Execute(t, db, "DROP TABLE "+table+"_rows")
	var denied bool
	for i := range 7 {
		err := sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
			if err := limiter.New(store).WithTx(tx).Limit(p, runtime.Key{}).Require(ctx); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s_rows VALUES (%d)", table, i))
			return err
		})
		if denied = i >= 5; denied {
			assert.ErrorIs(t, err, runtime.ErrLimited)
		} else {
			assert.NoError(t, err)
		}
	}
	assert.Zero(t, live.Left(t, store, p))
}

// The conformance suite of all stores.
func TestStoreBehindPgpool(t *testing.T) {
	t.Parallel()
	b := startBalancer(t)
	ways := []way{named}
	if *long {
		ways = append(ways, way{"postgres", ""})
	}
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			conforms(t, []live.Server{b.server(w)}, "TestStore")
			assert.NotEmpty(t, b.sentToReplica(t, ""), "no session of the replica was used")
			assert.Empty(t, b.sentToReplica(t, `"rl_`), "statements that were sent to the replica")
		})
	}
}

// A Pgpool-II that ignores comments sends reads of the store to the replica, which Ready detects: balances are old then, but
// takes are exact.
func TestPgpoolThatIgnoresCommentsIsExact(t *testing.T) {
	if !*long {
		t.Skip("a second Pgpool-II with an unusual setting: run it with -long")
	}
	b := startBalancer(t, "allow_sql_comments=on")
	table, p, load := live.NewTable(), live.Once("limit", 100), live.Once("load", 1000)
	truth := b.primary(named).StoreIn(t, b.primary(named).Open(t), table, nil)
	store := b.server(named).Visit(t, table)
	require.Eventually(t, func() bool {
		_, err := limiter.New(store).Limit(load, runtime.Key{}).Peek(context.Background())
		return err == nil
	}, 4*replicaDelay, 10*time.Millisecond, "the replica has no table")
	l := live.StartLoad(load, []runtime.Store{store})
	l.Await(t, "the last token", func() bool { _, denied, _ := l.Sums(); return denied > live.Callers })
	l.Stop()
	admitted, _, errors := l.Sums()
	assert.Equal(t, load.Capacity, admitted)
	assert.Zero(t, errors)
	assert.Zero(t, live.Left(t, truth, load))

	for _, w := range append(unnamed, named) {
		err := b.server(w).Visit(t, table).Ready(t.Context())
		assert.ErrorContains(t, err, "sends reads", w)
		assert.ErrorContains(t, err, "allow_sql_comments = off", w)
	}

	before := live.Left(t, truth, p)
	require.Eventually(t, func() bool { return live.Left(t, store, p) == before }, 4*replicaDelay, 10*time.Millisecond)
	require.NoError(t, limiter.New(store).Limit(p, runtime.Key{}).Require(t.Context()))
	assert.Equal(t, before, live.Left(t, store, p), "the balance that the replica has")
	assert.Equal(t, before-1, live.Left(t, truth, p))
}
