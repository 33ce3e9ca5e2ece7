package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// must returns the result of a call, whose error ends the test: must(f())(t).
func must[T any](result T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return result
	}
}

// open opens a store in a new file.
func open(t testing.TB, clock func() time.Time) *sqlite.Store {
	t.Helper()
	s := must(sqlite.OpenWith(filepath.Join(t.TempDir(), "limits.db"), sqlstore.Options{Clock: clock}))(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// opened opens the store in a file. The end of the test closes it.
func opened(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s := must(sqlite.Open(path))(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// database opens a file by the driver alone. The end of the test closes it.
func database(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db := must(sql.Open("sqlite", dsn))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store { return open(t, clock) })
}

// A decorated store keeps all of its abilities: see [runtime.Store].
func TestDecoratedStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
		return runtimetest.TraceAll(t, open(t, clock))
	})
}

func TestStoreInMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
		s := must(sqlite.OpenWith(":memory:", sqlstore.Options{Clock: clock}))(t)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	})
}

// TestVectors compares the store with the decisions of the reference implementation.
func TestVectors(t *testing.T) {
	traces := must(os.Open("../../../testdata/convex.jsonl"))(t)
	defer traces.Close()
	clock := storetest.NewClock()
	path := filepath.Join(t.TempDir(), "limits.db")
	s := must(sqlite.OpenWith(path, sqlstore.Options{Clock: clock.Now}))(t)
	defer s.Close()
	db := database(t, path)

	stored := func(row runtime.Row) runtime.State {
		s := runtime.State{Exists: true}
		require.NoError(t, db.QueryRow("SELECT value, at_ns, prev FROM rate_limits WHERE name = ?", row.Name).Scan(&s.Value, &s.TS, &s.Prev))
		return s
	}
	assert.Equal(t, 4800, storetest.Vectors(t, s, clock, stored, traces))
}

// rig is a store with a second connection to its file, on which a test reads and writes rows.
type rig struct {
	store *sqlite.Store
	clock *storetest.Clock
	db    *sql.DB
}

func newRig(t testing.TB) *rig {
	r := &rig{clock: storetest.NewClock()}
	path := filepath.Join(t.TempDir(), "limits.db")
	r.store = must(sqlite.OpenWith(path, sqlstore.Options{Clock: r.clock.Now}))(t)
	r.db = must(sql.Open("sqlite", path))(t)
	t.Cleanup(func() {
		require.NoError(t, r.db.Close())
		require.NoError(t, r.store.Close())
	})
	return r
}

// subject returns the store in the form in which package agree compares it with the pure step.
func (r *rig) subject() agree.Subject {
	return agree.Subject{Store: r.store, DB: r.db, Dialect: dialect.SQLite, Table: dialect.DefaultTable, Clock: r.clock}
}

// Another connection keeps the lock. One caller has the store's connection and the others wait for it.
func TestDeadlineBoundsCallsOnALockedDatabase(t *testing.T) {
	r := newRig(t)
	limit := limiter.New(r.store).Limit(counted, runtime.Key{})
	require.NoError(t, limit.Require(t.Context()))
	lock := must(r.db.Conn(t.Context()))(t)
	must(lock.ExecContext(t.Context(), "BEGIN IMMEDIATE"))(t)

	start := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			assert.ErrorIs(t, limit.Require(ctx), context.DeadlineExceeded)
			_, err := limit.Peek(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	all.Wait()
	assert.Less(t, time.Since(start), 4*time.Second, "long after the deadline")

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorContains(t, limit.Require(ctx), "waiting for the database", "the reason")

	must(lock.ExecContext(t.Context(), "ROLLBACK"))(t)
	require.NoError(t, lock.Close())
	require.NoError(t, limit.Require(t.Context()))
}

func TestOpenANewFileSeveralTimesAtOnce(t *testing.T) {
	folder := t.TempDir()
	for i := range 20 {
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				s, err := sqlite.Open(filepath.Join(folder, fmt.Sprint(i, ".db")))
				if assert.NoError(t, err) {
					assert.NoError(t, s.Close())
				}
			})
		}
		all.Wait()
	}
}

// The file is not in WAL mode yet.
func TestOpenAFileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	db := database(t, "file:"+path+"?_pragma=busy_timeout(10000)")
	db.SetMaxOpenConns(1)
	must(db.Exec("CREATE TABLE other (x); BEGIN IMMEDIATE; INSERT INTO other VALUES (1)"))(t)
	opened := make(chan error)
	go func() {
		s, err := sqlite.Open(path)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	must(db.Exec("COMMIT"))(t)
	require.NoError(t, <-opened)
}

// A key may be an e-mail address.
func TestNewFilesAreReadByTheirOwnerOnly(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, folder string)
		want    os.FileMode
	}{
		"new": {func(*testing.T, string) {}, 0o600},
		"behind a symbolic link": {func(t *testing.T, folder string) {
			require.NoError(t, os.Symlink(filepath.Join(folder, "target.db"), filepath.Join(folder, "limits.db")))
		}, 0o600},
		"existing": {func(t *testing.T, folder string) {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "limits.db"), nil, 0o640))
			require.NoError(t, os.Chmod(filepath.Join(folder, "limits.db"), 0o640))
		}, 0o640},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			c.prepare(t, folder)
			s := opened(t, filepath.Join(folder, "limits.db"))
			require.NoError(t, limiter.New(s).Limit(counted, runtime.Key{}).Require(t.Context()))
			files := must(filepath.Glob(filepath.Join(folder, "*")))(t)
			require.GreaterOrEqual(t, len(files), 3, "the file, its log and the index of that")
			for _, file := range files {
				info := must(os.Stat(file))(t)
				assert.Equal(t, c.want, info.Mode().Perm(), file)
			}
		})
	}
}
