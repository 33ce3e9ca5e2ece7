package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	texts "github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// left takes a token of each key by calls that share a transaction, and returns how many are left, or -1 for a denial.
func left(t *testing.T, s runtime.Store, p *runtime.Policy, keys ...string) (all []int64) {
	t.Helper()
	calls := make([]runtime.Call, len(keys))
	for i, key := range keys {
		calls[i] = runtimetest.Call(runtime.Request{Policy: p, Key: key, Count: 1})
	}
	for _, a := range runtimetest.Do(t, s, calls...) {
		require.NoError(t, a.Err)
		if d := a.Decisions[0]; d.Allowed {
			all = append(all, d.Remaining)
		} else {
			all = append(all, -1)
		}
	}
	return all
}

// A store that has decided for some keys, and so has their rows in memory, decides by what was written to the table since,
// whoever has written it.
func TestRowsThatOthersHaveWritten(t *testing.T) {
	for name, c := range map[string]struct {
		write func(t *testing.T, r *rig, p *runtime.Policy)
		want  []int64
	}{
		"another connection": {func(t *testing.T, r *rig, p *runtime.Policy) {
			must(r.db.Exec("UPDATE rate_limits SET value = -8 WHERE key = 'b'"))(t)
		}, []int64{8, 1, 8}},
		"another store": {func(t *testing.T, r *rig, p *runtime.Policy) {
			s := must(sqlstore.New(r.db, dialect.SQLite, sqlstore.Options{Clock: r.clock.Now}))(t)
			require.Equal(t, []int64{8}, left(t, s, p, "b"))
		}, []int64{8, 7, 8}},
		"a transaction of the caller": {func(t *testing.T, r *rig, p *runtime.Policy) {
			tx := must(r.db.Begin())(t)
			require.Equal(t, []int64{8}, left(t, r.store.WithTx(tx), p, "b"))
			require.NoError(t, tx.Commit())
		}, []int64{8, 7, 8}},
		"a transaction that was rolled back": {func(t *testing.T, r *rig, p *runtime.Policy) {
			tx := must(r.db.Begin())(t)
			require.Equal(t, []int64{8}, left(t, r.store.WithTx(tx), p, "b"))
			require.NoError(t, tx.Rollback())
		}, []int64{8, 8, 8}},
		"a deletion": {func(t *testing.T, r *rig, p *runtime.Policy) {
			must(r.db.Exec("DELETE FROM rate_limits WHERE key = 'b'"))(t)
		}, []int64{8, 9, 8}},
		"a row with the number of a deleted one": {func(t *testing.T, r *rig, p *runtime.Policy) {
			must(r.db.Exec("CREATE TEMP TABLE was AS SELECT _rowid_ AS number, * FROM rate_limits WHERE key = 'b'"))(t)
			must(r.db.Exec("DELETE FROM rate_limits WHERE key = 'b'"))(t)
			must(r.db.Exec("INSERT INTO rate_limits (_rowid_, name, key, shard, value, at_ns, prev) SELECT number, name, 'd', shard, value, at_ns, prev FROM was"))(t)
			t.Cleanup(func() { require.Equal(t, []int64{8}, left(t, r.store, p, "d")) })
		}, []int64{8, 9, 8}},
		"VACUUM": {func(t *testing.T, r *rig, p *runtime.Policy) {
			must(r.db.Exec("DELETE FROM rate_limits WHERE key = 'a'; VACUUM"))(t)
		}, []int64{9, 8, 8}},
		"a new name": {func(t *testing.T, r *rig, p *runtime.Policy) {
			must(r.db.Exec("UPDATE rate_limits SET name = 'other' WHERE name = ?", p.Name))(t)
		}, []int64{9, 9, 9}},
		"Reset": {func(t *testing.T, r *rig, p *runtime.Policy) {
			runtimetest.Do(t, r.store, runtimetest.Call(runtime.Request{Op: runtime.Reset, Policy: p, Key: "b"}))
		}, []int64{8, 9, 8}},
		"Erase": {func(t *testing.T, r *rig, p *runtime.Policy) {
			must(r.store.Erase(t.Context(), p.Name, "b", runtime.OverrideEnd{Reason: "asked", Author: "test"}))(t)
		}, []int64{8, 9, 8}},
		"Sweep": {func(t *testing.T, r *rig, p *runtime.Policy) {
			must(r.db.Exec("UPDATE rate_limits SET at_ns = 0, value = 0 WHERE key = 'b'"))(t)
			require.Equal(t, []int64{8, 9}, left(t, r.store, p, "a", "b"))
			must(r.db.Exec("UPDATE rate_limits SET at_ns = 0, value = 0 WHERE key = 'b'"))(t)
			r.clock.Add(2 * time.Hour)
			require.Equal(t, 1, must(r.store.Sweep(t.Context(), p))(t))
		}, []int64{7, 9, 8}},
		"Forget": {func(t *testing.T, r *rig, p *runtime.Policy) {
			require.Equal(t, 3, must(r.store.Forget(t.Context(), p.Name))(t))
		}, []int64{9, 9, 9}},
		"a call with full durability": {func(t *testing.T, r *rig, p *runtime.Policy) {
			durable := *p
			durable.Durability = runtime.DurabilityFull
			require.Equal(t, []int64{8}, left(t, r.store, &durable, "b"))
		}, []int64{8, 7, 8}},
		"a new table": {func(t *testing.T, r *rig, p *runtime.Policy) {
			must(r.db.Exec(`CREATE TABLE copied AS SELECT * FROM rate_limits WHERE key <> 'a'; DROP TABLE rate_limits;` +
				must(texts.SQLite.DDL(""))(t) + `; INSERT INTO rate_limits SELECT * FROM copied ORDER BY key DESC`))(t)
		}, []int64{9, 8, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, keys := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}} {
				r, p := newRig(t), once("limit", runtime.TokenBucket, 10, 0)
				require.Equal(t, []int64{9, 9, 9}, left(t, r.store, p, "a", "b", "c"))
				c.write(t, r, p)
				if keys[0] == "a" {
					assert.Equal(t, c.want, left(t, r.store, p, keys...), "by one transaction")
					continue
				}
				want := slices.Clone(c.want)
				slices.Reverse(want)
				for i, key := range keys {
					assert.Equal(t, want[i:i+1], left(t, r.store, p, key), "by one each: %s", key)
				}
			}
		})
	}
}

// What a transaction has written before it failed is not in memory.
func TestRowsOfATransactionThatFailed(t *testing.T) {
	r, p := newRig(t), once("limit", runtime.TokenBucket, 10, 0)
	require.Equal(t, []int64{9, 9}, left(t, r.store, p, "a", "c"))
	must(r.db.Exec(`CREATE TRIGGER guilty BEFORE INSERT ON rate_limits WHEN NEW.key = 'b' BEGIN SELECT RAISE(ABORT, 'no'); END`))(t)
	take := func(key string) runtime.Request { return runtime.Request{Policy: p, Key: key, Count: 1} }
	_, err := r.store.Do(t.Context(), []runtime.Call{runtimetest.Call(take("a"), take("b"), take("c"))})
	require.ErrorContains(t, err, "no")
	require.Equal(t, []int64{8, 8}, left(t, r.store, p, "a", "c"))
}

// A trigger that ignores a write would otherwise grant tokens without bound.
func TestIgnoredWritesAreErrors(t *testing.T) {
	for on, keys := range map[string][]string{
		"UPDATE ON rate_limits": {"a"}, "INSERT ON rate_limits": {"b"}, "INSERT ON rate_limits WHEN new.key = 'e'": {"b", "c", "d", "e", "f"},
	} {
		r, p := newRig(t), once("limit", runtime.TokenBucket, 10, 0)
		require.Equal(t, []int64{9}, left(t, r.store, p, "a"))
		must(r.db.Exec("CREATE TRIGGER lazy BEFORE " + on + " BEGIN SELECT RAISE(IGNORE); END"))(t)
		var calls []runtime.Call
		for _, key := range keys {
			calls = append(calls, runtimetest.Call(runtime.Request{Policy: p, Key: key, Count: 1}))
		}
		_, err := r.store.Do(t.Context(), calls)
		require.ErrorContains(t, err, "a trigger on the table has ignored it", on)
		must(r.db.Exec("DROP TRIGGER lazy"))(t)
		require.Equal(t, []int64{8, 9, 9}, left(t, r.store, p, "a", "b", "f"), on)
	}
}

// A lone call for a new key is a statement without a transaction, before and after which others may have written.
func TestNewKeysBetweenWritesOfOthers(t *testing.T) {
	r, p := newRig(t), once("limit", runtime.TokenBucket, 1000, 0)
	want := map[string]int64{}
	take := func(key string) {
		want[key]++
		require.Equal(t, []int64{1000 - want[key]}, left(t, r.store, p, key), key)
	}
	for i := range 300 {
		if rand.IntN(2) == 0 {
			key := fmt.Sprint(rand.IntN(i + 1))
			result := must(r.db.Exec("UPDATE rate_limits SET value = value - 1 WHERE key = ?", key))(t)
			want[key] += must(result.RowsAffected())(t)
		}
		if rand.IntN(5) == 0 {
			key := fmt.Sprint(rand.IntN(i + 1))
			must(r.db.Exec("DELETE FROM rate_limits WHERE key = ?", key))(t)
			want[key] = 0
		}
		take(fmt.Sprint(i))
		take(fmt.Sprint(rand.IntN(i + 1)))
	}
}

// Two stores in one file take in turns, and each finds what the other one has written.
func TestStoresTakeInTurns(t *testing.T) {
	r, p := newRig(t), once("limit", runtime.TokenBucket, 1000, 0)
	path := ""
	require.NoError(t, r.db.QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path))
	o := sqlstore.Options{Clock: r.clock.Now}
	other := must(sqlite.OpenWith(path, o))(t)
	defer other.Close()
	stores := []runtime.Store{r.store, other, must(sqlstore.New(r.db, dialect.SQLite, o))(t)}
	want := map[string]int64{}
	for range 400 {
		s := stores[rand.IntN(len(stores))]
		var keys []string
		for _, key := range strings.Split("abcdef", "") {
			if rand.IntN(2) == 0 {
				keys = append(keys, key)
			}
		}
		for i, left := range left(t, s, p, keys...) {
			want[keys[i]]++
			require.Equal(t, 1000-want[keys[i]], left, fmt.Sprint(keys[i]))
		}
	}
}
