package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// overridable grants 10 tokens in ten years, or as many as an override says.
func overridable() *runtime.Policy {
	p := once("overridable", runtime.TokenBucket, 10, 0)
	p.Overrides = runtime.OverrideBounds{Rate: 100, Capacity: 100, Unlimited: true}
	return p
}

// decideOverridden is a process that prints a decision for each line that it reads.
func decideOverridden(l *limiter.Limiter) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		d, err := l.Limit(overridable(), runtime.KeyOf(runtime.String("a"))).Check(context.Background())
		if err != nil {
			return err
		}
		fmt.Println(d.Allowed, d.Policy.Capacity)
	}
	return lines.Err()
}

// Another process decides by an override within the 5 seconds of the default, and by its end when no other process runs.
func TestOtherProcessDecidesByAnOverride(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	store := must(sqlite.Open(path))(t)
	cmd := process("decideOverridden", path)
	in := must(cmd.StdinPipe())(t)
	out := must(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		assert.NoError(t, cmd.Wait())
	})
	answers := bufio.NewScanner(out)
	decides := func() string {
		must(fmt.Fprintln(in))(t)
		require.True(t, answers.Scan())
		return answers.Text()
	}
	require.Equal(t, "true 10", decides())

	overrides := limiter.New(store).Overrides(overridable(), runtime.KeyOf(runtime.String("a")))
	begin := time.Now()
	ends := begin.Add(override.DefaultEvery + 2*time.Second)
	must(overrides.Set(t.Context(), runtime.Override{Capacity: 50, Until: ends, Reason: "r", Author: "a"}))(t)
	require.NoError(t, store.Close())
	for decides() != "true 50" {
		require.Less(t, time.Since(begin), override.DefaultEvery+time.Second)
		time.Sleep(5 * time.Millisecond)
	}
	for decides() != "true 10" {
		require.Less(t, time.Since(ends), time.Second)
		time.Sleep(5 * time.Millisecond)
	}
	require.False(t, time.Now().Before(ends))
}

func TestOverridesTableIsCreatedWhenItIsNeeded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	store := must(sqlite.Open(path))(t)
	db := must(sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()))(t)
	t.Cleanup(func() { db.Close(); store.Close() })
	tables := func() (n int) {
		require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM sqlite_master WHERE name = 'rate_limit_overrides'").Scan(&n))
		return n
	}
	limits := limiter.New(store)
	plain := once("plain", runtime.TokenBucket, 10, 0)
	must(limits.Limit(plain, runtime.Key{}).Allow(t.Context()))(t)
	require.NoError(t, store.Ready(t.Context(), plain))
	require.Zero(t, tables())
	must(limits.Limit(overridable(), runtime.Key{}).Allow(t.Context()))(t)
	require.Equal(t, 1, tables())
	require.NoError(t, store.Ready(t.Context(), plain, overridable()))

	const insert = "INSERT INTO rate_limit_overrides VALUES (?, 'overridable', 'a', ?, '', ?, ?, ?, 100, 100, 0, ?, ?, ?, ?, 1)"
	for _, row := range [][]any{
		{1, "numbers", 101, 0, 0, 0, 1, "r", "a"},
		{1, "numbers", -1, 0, 0, 0, 1, "r", "a"},
		{1, "numbers", 0, 101, 0, 0, 1, "r", "a"},
		{1, "numbers", 0, 0, 1, 0, 1, "r", "a"},
		{1, "off", 0, 0, 0, 0, 1, "r", "a"},
		{1, "numbers", 1, 0, 0, 0, 0, "r", "a"},
		{1, "numbers", 1, 0, 0, 0, 1, "", "a"},
		{1, "numbers", 1, 0, 0, 0, 1, "r", ""},
		{0, "numbers", 1, 0, 0, 0, 1, "r", "a"},
	} {
		_, err := db.Exec(insert, row...)
		assert.ErrorContains(t, err, "CHECK constraint failed", "%v", row)
	}
	must(db.Exec(insert, 1, "slower", 0, 0, 0, 0, int64(1)<<62, "r", "a"))(t)
	require.ErrorContains(t, store.Ready(t.Context(), overridable()), `entry 1 of the log of overrides has the kind "slower"`)
}

// A transaction of the caller may hold the only connection when the overrides are first read.
func TestFirstReadInATransactionUsesItsConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	own := must(sqlite.Open(path))(t)
	must(limiter.New(own).Overrides(overridable(), runtime.KeyOf(runtime.String("a"))).
		Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "r", Author: "a"}))(t)
	require.NoError(t, own.Close())

	db := must(sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_txlock=immediate"))(t)
	db.SetMaxOpenConns(1)
	store := must(sqlstore.New(db, dialect.SQLite, sqlstore.Options{}))(t)
	t.Cleanup(func() { store.Close(); db.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
		d, err := limiter.New(store).WithTx(tx).Limit(overridable(), runtime.KeyOf(runtime.String("a"))).Allow(ctx)
		assert.False(t, d.Allowed)
		return err
	}))
}

func TestClosedAndZeroStoresHaveNoOverrides(t *testing.T) {
	store := must(sqlite.Open(":memory:"))(t)
	limit := func(s runtime.Store) limiter.Limit { return limiter.New(s).Limit(overridable(), runtime.Key{}) }
	overrides := func(s runtime.Store) limiter.Overrides { return limiter.New(s).OverridesForAll(overridable()) }
	must(limit(store).Allow(t.Context()))(t)
	require.NoError(t, store.Close())
	block := runtime.Block{Until: runtime.ForGood(), Reason: "r", Author: "a"}
	_, err := overrides(store).Block(t.Context(), block)
	require.ErrorIs(t, err, sqlstore.ErrClosed)
	_, err = limit(new(sqlstore.Store)).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrNoStore)
	_, err = overrides(new(sqlstore.Store)).Block(t.Context(), block)
	require.ErrorIs(t, err, runtime.ErrNoStore)
	_, err = new(sqlstore.Store).Sweep(t.Context(), overridable())
	require.ErrorIs(t, err, runtime.ErrNoStore)
	require.ErrorIs(t, new(sqlstore.Store).Ready(t.Context(), overridable()), runtime.ErrNoStore)
	require.ErrorIs(t, new(sqlstore.Store).Migrate(t.Context(), overridable()), runtime.ErrNoStore)
}

// A plan without a limit has no DenyCache, but its Reset ends the denials of the other plans.
func TestResetByAPlanWithoutALimitEndsDenials(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1, DenyCache: time.Minute}
	unlimited := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited}
	limits := limiter.New(open(t, nil))
	limit := limits.Limit(p, runtime.Key{})
	for range 2 {
		require.NoError(t, limit.Require(t.Context()))
		require.ErrorIs(t, limit.Require(t.Context()), runtime.ErrLimited)
		require.NoError(t, limits.Limit(unlimited, runtime.Key{}).Reset(t.Context()))
	}
}
