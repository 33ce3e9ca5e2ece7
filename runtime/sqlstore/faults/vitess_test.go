package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
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

// vitess is a Vitess cluster with two vtgates. The first test that needs it starts it.
var (
	vitess      = own{script: "./vitess.sh"}
	startVitess = sync.OnceValue(vitess.start)
)

// vitessGates returns the vtgates, with the settings that Ready requires.
func vitessGates(t *testing.T) (gates []live.Server) {
	t.Helper()
	if !*long {
		t.Skip("the programs of Vitess take minutes to build: run vitess.sh get, and then the test with -long")
	}
	needOwn(t, startVitess())
	for n := 1; n <= 2; n++ {
		s := live.Server{Name: fmt.Sprint("vtgate ", n), Driver: "mysql", DSN: fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", vitess.port(n)), Dialect: dialect.Vitess}
		gates = append(gates, s.With("transaction_mode='single'").With("transaction_timeout=5000").With("innodb_lock_wait_timeout=1"))
	}
	return gates
}

// vitessShards is vitessGates with the keyspace of two shards.
func vitessShards(t *testing.T) (gates []live.Server) {
	t.Helper()
	for _, s := range vitessGates(t) {
		s.DSN, s.Beside = strings.Replace(s.DSN, "/test?", "/split?", 1), "test"
		gates = append(gates, s)
	}
	return gates
}

// vitessTests are the tests of one database that use both vtgates.
var vitessTests = []string{
	"TestStore", "TestStatementsAgreeWithTheGoStep", "TestServersAgreeWithModel", "TestProcessesGetExactlyTheCapacity", "TestHistoriesAreLinearizable",
	"TestGroupHistoriesAreLinearizable", "TestRegistered", "TestSweepDeletesOnlyFullRows", "TestProcessesNeverHoldMoreThanTheSlots",
}

func TestVitessConforms(t *testing.T) {
	conforms(t, vitessGates(t), vitessTests...)
}

// vitessShardTests are those that also hold on a sharded keyspace. The others have statements of their own for tables that
// are then in two keyspaces.
var vitessShardTests = []string{
	"TestStore", "TestServersAgreeWithModel", "TestProcessesGetExactlyTheCapacity", "TestHistoriesAreLinearizable", "TestGroupHistoriesAreLinearizable",
	"TestSweepDeletesOnlyFullRows", "TestForgetDeletesOnlyTheRowsOfItsLimit", "TestSweepUnderLoadGrantsExactlyTheCapacity",
	"TestProcessesNeverHoldMoreThanTheSlots", "TestTxTakesIfAndOnlyIfItCommits", "TestTxConcurrentFirstUsesDoNotConflict",
}

// The clause Plans has a call whose keys are on two shards, which TestVitessRefusesCallsAcrossShards is about.
func TestVitessShardsConform(t *testing.T) {
	conformsBut(t, vitessShards(t), "^TestStore$/^vitess$/^Plans$", vitessShardTests...)
}

// A driver that writes arguments into the text of a statement sends it by the other protocol.
func TestVitessConformsWithInterpolatedArguments(t *testing.T) {
	conforms(t, interpolated(vitessGates(t)), vitessTests...)
}

// Tablets and vtgates are killed, and the primary moves, while stores take tokens through both vtgates.
func TestVitessFaults(t *testing.T) {
	gates := vitessGates(t)
	table, stores := live.Shared(t, gates, nil)
	l := live.StartLoad(live.Once("limit", 1_000_000), stores)
	for _, fault := range [][2]string{
		{"primary", "2"}, {"primary", "1"}, {"kill", "tablet1"}, {"rejoin", "tablet1"}, {"kill", "gate1"}, {"rejoin", "gate1"}, {"kill", "gate2"}, {"rejoin", "gate2"},
	} {
		_, _, before := l.Sums()
		require.NoError(t, vitess.run(fault[0], fault[1]))
		for i := range l.PerNode {
			if down := fmt.Sprint("gate", i+1); fault == [2]string{"kill", down} || fault == [2]string{"kill", "tablet1"} {
				continue
			}
			answers := l.PerNode[i].Answers()
			l.Await(t, fmt.Sprint("service after ", fault), func() bool { return l.PerNode[i].Answers() > answers+10 })
		}
		_, _, after := l.Sums()
		if fault[0] == "primary" {
			assert.Equal(t, before, after, "errors while vtgates wait for a primary that moves")
		}
		t.Logf("%v: %d errors, longest call %v", fault, after-before, l.Slowest().Round(time.Millisecond))
	}
	l.Finish(t, gates[0].Visit(t, table))
}

// Without these settings, a transaction may span shards, which is not atomic, or keep rows locked for long.
func TestVitessNeedsItsSettings(t *testing.T) {
	gate := vitessGates(t)[0]
	table := live.NewTable()
	gate.StoreIn(t, gate.Open(t), table, nil)
	gate.DSN, _, _ = strings.Cut(gate.DSN, "?")
	assert.ErrorContains(t, gate.Visit(t, table).Ready(t.Context()), "change the settings of the connections, in the data source name or in the server: "+
		`transaction_mode is "MULTI" instead of "SINGLE"; transaction_timeout is "0" instead of "1 to 5000"; innodb_lock_wait_timeout is "20" instead of "1 to 3"`)
}

// A constraint of a table makes a take fail, and vtgate adds the statement with its key to the error.
func TestVitessErrorsHaveNoKeys(t *testing.T) {
	gate := vitessGates(t)[0]
	db := gate.Open(t)
	table := live.NewTable()
	store := gate.StoreIn(t, db, table, nil)
	live.Execute(t, db, "ALTER TABLE "+table+" ADD CONSTRAINT c CHECK (at_ns < 0)")
	limited, secret := live.Once("limit", 10), runtime.KeyOf(runtime.String("secret@example.com"))
	_, err := limiter.New(store).Limit(limited, secret).Allow(t.Context())
	require.ErrorContains(t, err, "Check constraint 'c' is violated")
	for ; err != nil; err = errors.Unwrap(err) {
		assert.NotContains(t, err.Error(), "secret")
	}
	err = sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
		return limiter.New(store).WithTx(tx).Limit(limited, secret).Require(t.Context())
	})
	require.ErrorContains(t, err, "Check constraint 'c' is violated")
	assert.NotContains(t, err.Error(), "secret")
}

// A vtgate accepts connections of clients of MySQL.
func TestVitessIsRefusedByOtherDialects(t *testing.T) {
	gate := vitessGates(t)[0]
	for _, other := range []dialect.Dialect{dialect.MySQL, dialect.MariaDB} {
		store := live.Must(agree.NewStore(gate.Open(t), other, sqlstore.Options{Table: live.NewTable()}))(t)
		defer store.Close()
		for _, err := range []error{store.Migrate(t.Context()), store.Ready(t.Context())} {
			assert.ErrorContains(t, err, "pass the database's own dialect to sqlstore.New")
		}
	}
}

// byShard returns keys that lie on each shard of the keyspace, by its name.
func byShard(t *testing.T, db *sql.DB) map[string][]runtime.Key {
	t.Helper()
	of := map[string][]runtime.Key{}
	for i := range 20 {
		var id, shard string
		require.NoError(t, db.QueryRow(fmt.Sprintf("SELECT id, shard FROM split.rate_limit_key WHERE id = '%s'", live.KeyOf(i))).Scan(&id, &shard))
		of[shard] = append(of[shard], live.KeyOf(i))
	}
	require.Len(t, of, 2)
	return of
}

// All or none over two shards is not atomic on Vitess.
func TestVitessRefusesCallsAcrossShards(t *testing.T) {
	gate := vitessShards(t)[0]
	db := gate.Open(t)
	store := gate.StoreIn(t, db, live.NewTable(), nil)
	keys := byShard(t, db)
	p, limits := live.Once("limit", 10), limiter.New(store)
	left := func(want int64) {
		t.Helper()
		for _, k := range []runtime.Key{keys["-80"][0], keys["80-"][0]} {
			b, err := limits.Limit(p, k).Peek(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, b.Remaining)
		}
	}
	refused := func(err error) {
		t.Helper()
		of := new(runtime.ShardsError)
		require.ErrorAs(t, err, &of)
		assert.ElementsMatch(t, []string{"-80", "80-"}, of.Shards[:])
		assert.ErrorIs(t, err, runtime.ErrInvalidCall)
		assert.ErrorContains(t, err, "give the limits of a call keys that begin with the same part")
	}
	both := func(limits *limiter.Limiter) error {
		_, err := limits.Group(limits.Limit(p, keys["-80"][0]), limits.Limit(p, keys["80-"][0])).Allow(t.Context())
		return err
	}
	refused(both(limits))
	left(10)
	refused(sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error { return both(limits.WithTx(tx)) }))
	left(10)
	err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
		for _, k := range []runtime.Key{keys["-80"][0], keys["80-"][0]} {
			if err := limits.WithTx(tx).Limit(p, k).Require(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	assert.ErrorContains(t, err, "the transaction writes to several shards")
	left(10)
	_, err = limits.Group(limits.Limit(p, keys["-80"][0]), limits.Limit(p, keys["-80"][1])).Allow(t.Context())
	require.NoError(t, err)
	require.NoError(t, sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
		return limits.WithTx(tx).Limit(p, keys["80-"][0]).Require(t.Context())
	}))
	left(9)
}

// The rows of keys that begin with the same part are on one shard, so that a call can take from a team and from its users.
func TestVitessTakesFromKeysOfOneFirstPart(t *testing.T) {
	gate := vitessShards(t)[0]
	db := gate.Open(t)
	table := live.NewTable()
	limits := limiter.New(gate.StoreIn(t, db, table, nil))
	ofTeam, ofUser := live.Once("team", 10), live.Once("user", 4)
	for i := range 50 {
		team, user := runtime.String(fmt.Sprint("team", i)), runtime.String("user|1")
		group := limits.Group(limits.Limit(ofTeam, runtime.KeyOf(team)), limits.Limit(ofUser, runtime.KeyOf(team, user)))
		for want := range 5 {
			d, err := group.Allow(t.Context())
			require.NoError(t, err)
			require.Equal(t, want < 4, d.Allowed)
		}
		require.NoError(t, sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
			in := limits.WithTx(tx)
			if err := in.Limit(ofTeam, runtime.KeyOf(team)).RequireN(t.Context(), 6); err != nil {
				return err
			}
			return in.Limit(ofUser, runtime.KeyOf(team, runtime.String("user|2"))).Require(t.Context())
		}))
	}
	rows := 0
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM "+table+" WHERE first_part = SUBSTRING_INDEX(`key`, '|', 1)").Scan(&rows))
	assert.Equal(t, 150, rows)
}

// A table that dialect MySQL has created, such as one of a server that Vitess takes over, gets the column that shards need,
// with its value for the rows that it has.
func TestVitessMigratesTablesOfMySQL(t *testing.T) {
	gate := vitessGates(t)[0]
	db := gate.Open(t)
	table := live.NewTable()
	live.Execute(t, db, live.Must(dialect.MySQL.DDL(table))(t))
	p, key, earlier := live.Once("limit", 10), runtime.KeyOf(runtime.String("team"), runtime.String("user")), live.NewTable()
	require.NoError(t, limiter.New(gate.StoreIn(t, db, earlier, nil)).Limit(p, key).RequireN(t.Context(), 4))
	const columns = "name, `key`, shard, value, at_ns, prev"
	live.Execute(t, db, "INSERT INTO "+table+" ("+columns+") SELECT "+columns+" FROM "+earlier)
	require.ErrorContains(t, gate.Visit(t, table).Ready(t.Context()), "first_part is missing")
	limits := limiter.New(gate.StoreIn(t, db, table, nil))
	b, err := limits.Limit(p, key).Peek(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(6), b.Remaining)
	var part string
	require.NoError(t, db.QueryRow("SELECT first_part FROM "+table).Scan(&part))
	assert.Equal(t, "team", part)
}

// A tablet that does not respond delays the keys of its shard only.
func TestVitessShardsAreIndependent(t *testing.T) {
	gate := vitessShards(t)[0]
	db := gate.Open(t)
	store := gate.StoreIn(t, db, live.NewTable(), nil)
	keys := byShard(t, db)
	limits := limiter.New(store)
	take := func(shard string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return limits.Limit(live.Once("limit", 1_000_000), keys[shard][0]).Require(ctx)
	}
	require.NoError(t, take("-80", 5*time.Second))
	require.NoError(t, take("80-", 5*time.Second))
	require.NoError(t, vitess.run("freeze", "tablet5"))
	thaw := sync.OnceValue(func() error { return vitess.run("thaw", "tablet5") })
	defer thaw()
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() { assert.Error(t, take("80-", 3*time.Second)) })
	}
	var longest time.Duration
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		began := time.Now()
		assert.NoError(t, take("-80", time.Second))
		longest = max(longest, time.Since(began))
	}
	waiting.Wait()
	require.NoError(t, thaw())
	require.Eventually(t, func() bool { return take("80-", time.Second) == nil }, 30*time.Second, 10*time.Millisecond)
	t.Logf("longest call for the other shard: %v", longest.Round(time.Millisecond))
}

// Ready compares the table on each shard, and whether the vschema distributes it.
func TestVitessReadyChecksShards(t *testing.T) {
	gate := vitessShards(t)[0]
	db := gate.Open(t)
	table := live.NewTable()
	store := gate.StoreIn(t, db, table, nil)
	require.NoError(t, store.Ready(t.Context()))
	one := gate
	one.DSN = strings.Replace(gate.DSN, "/split?", "/split%3A80-?", 1)
	live.Execute(t, one.Open(t), "ALTER TABLE "+table+" MODIFY prev FLOAT NOT NULL")
	assert.ErrorContains(t, store.Ready(t.Context()), `on shard 80-: prev is "float" instead of "double"`)

	other := live.NewTable()
	live.Execute(t, db, live.Must(gate.Dialect.DDL(other))(t))
	t.Cleanup(func() { live.Drop(t, db, other) })
	plain := live.Must(agree.NewStore(db, gate.Dialect, sqlstore.Options{Table: other}))(t)
	defer plain.Close()
	assert.ErrorContains(t, plain.Ready(t.Context()), "the vschema does not distribute table "+strconv.Quote(other)+" by its column first_part")
	require.NoError(t, plain.Migrate(t.Context()))
	assert.NoError(t, plain.Ready(t.Context()))
}
