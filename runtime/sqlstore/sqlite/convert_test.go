package sqlite_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	texts "github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// withoutNumbers makes the table of earlier versions in a new file, with rows.
func withoutNumbers(t testing.TB, rows int) (path string, db *sql.DB) {
	path = filepath.Join(t.TempDir(), "limits.db")
	db = database(t, path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	must(db.Exec(must(texts.SQLite.DDL(""))(t) + " WITHOUT ROWID"))(t)
	must(db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO rate_limits SELECT 'counted', printf('%x', i * 7919), 0, -i, 1e18 + i, -1.5, iif(i % 3 = 0, x'01', NULL) FROM n LIMIT ?`, rows, rows))(t)
	return path, db
}

// dump returns the rows of the table as texts.
func dump(t testing.TB, db *sql.DB) (all []string) {
	rows := must(db.Query(`SELECT concat_ws(' ', name, key, shard, value, at_ns, prev, hex(log), typeof(value), typeof(log)) FROM rate_limits ORDER BY name, key, shard`))(t)
	defer rows.Close()
	for rows.Next() {
		all = append(all, "")
		require.NoError(t, rows.Scan(&all[len(all)-1]))
	}
	require.NoError(t, rows.Err())
	return all
}

func hasNumbers(t testing.TB, db *sql.DB) bool {
	var without bool
	require.NoError(t, db.QueryRow("SELECT wr FROM pragma_table_list WHERE name = 'rate_limits'").Scan(&without))
	return !without
}

// The rows, and what users have added to the table, are as before.
func TestOpenGivesRowsNumbers(t *testing.T) {
	path, db := withoutNumbers(t, 1000)
	must(db.Exec(`CREATE INDEX by_time ON rate_limits (at_ns); CREATE TABLE notes (note);
		CREATE TRIGGER noted AFTER DELETE ON rate_limits BEGIN INSERT INTO notes VALUES (old.key); END;
		CREATE TRIGGER reset AFTER DELETE ON notes BEGIN DELETE FROM rate_limits WHERE key = old.note; END;
		CREATE VIEW used AS SELECT key, value FROM rate_limits WHERE value < 0`))(t)
	before := dump(t, db)
	require.Len(t, before, 1000)
	require.False(t, hasNumbers(t, db))
	for range 2 {
		s := must(sqlite.Open(path))(t)
		require.True(t, hasNumbers(t, db))
		require.Equal(t, before, dump(t, db))
		require.NoError(t, s.Ready(t.Context()))
		require.NoError(t, s.Close())
	}
	var objects string
	require.NoError(t, db.QueryRow("SELECT group_concat(name, ' ' ORDER BY name) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").Scan(&objects))
	require.Equal(t, "by_time noted notes rate_limits reset used", objects)
	must(db.Exec("DELETE FROM rate_limits WHERE key = '1eef'"))(t)
	var note string
	require.NoError(t, db.QueryRow("SELECT note FROM notes").Scan(&note))
	require.Equal(t, "1eef", note)
	var used int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM used").Scan(&used))
	require.Equal(t, 999, used)
}

func TestOpenKeepsATableWithOtherColumns(t *testing.T) {
	path, db := withoutNumbers(t, 10)
	must(db.Exec("ALTER TABLE rate_limits ADD COLUMN note TEXT"))(t)
	before := dump(t, db)
	_, err := sqlite.Open(path)
	require.ErrorContains(t, err, `give the rows of table "rate_limits" numbers: the table must be replaced, and has columns that the new one would not have: drop note`)
	require.Equal(t, before, dump(t, db))
	must(db.Exec("ALTER TABLE rate_limits DROP COLUMN note"))(t)
	opened(t, path)
	require.True(t, hasNumbers(t, db))
}

// A process that is killed while it converts the table leaves the old one or the new one.
func TestKilledConversionLosesNoRow(t *testing.T) {
	rows, kills, lasts := 20_000, 8, 120*time.Millisecond
	if runtimetest.Long() {
		rows, kills = 1_000_000, 20
	}
	path, db := withoutNumbers(t, rows)
	before := digest(t, db)
	must(db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))(t)
	old := must(os.ReadFile(path))(t)
	copied := func() string {
		path := filepath.Join(t.TempDir(), "limits.db")
		require.NoError(t, os.WriteFile(path, old, 0o600))
		return path
	}
	if runtimetest.Long() {
		path, start := copied(), time.Now()
		require.NoError(t, process("open", path).Run())
		lasts = time.Since(start)
		t.Logf("%d rows in %d bytes are converted in %v to %d bytes", rows, len(old), lasts, must(os.Stat(path))(t).Size())
	}
	converted := 0
	for range kills {
		path := copied()
		cmd := process("open", path)
		require.NoError(t, cmd.Start())
		time.AfterFunc(rand.N(lasts), func() { cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			require.ErrorAs(t, err, new(*exec.ExitError))
		}
		db := must(sql.Open("sqlite", path))(t)
		if hasNumbers(t, db) {
			converted++
		}
		var integrity string
		require.NoError(t, db.QueryRow("PRAGMA integrity_check").Scan(&integrity))
		require.Equal(t, "ok", integrity)
		require.Equal(t, before, digest(t, db))
		require.NoError(t, must(sqlite.Open(path))(t).Close())
		require.True(t, hasNumbers(t, db))
		require.Equal(t, before, digest(t, db))
		require.NoError(t, db.Close())
		require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	}
	t.Logf("%d of %d were converted before they were killed", converted, kills)
}

// digest returns the number of rows of the table and a hash of them in their order.
func digest(t testing.TB, db *sql.DB) string {
	rows := must(db.Query(`SELECT name, key, shard, value, at_ns, prev, hex(log), typeof(value), typeof(log) FROM rate_limits ORDER BY name, key, shard`))(t)
	defer rows.Close()
	n, hash, columns := 0, sha256.New(), [9]sql.RawBytes{}
	for ; rows.Next(); n++ {
		require.NoError(t, rows.Scan(&columns[0], &columns[1], &columns[2], &columns[3], &columns[4], &columns[5], &columns[6], &columns[7], &columns[8]))
		for _, c := range columns {
			fmt.Fprintf(hash, "%d:%s", len(c), c)
		}
	}
	require.NoError(t, rows.Err())
	return fmt.Sprintf("%d rows, %x", n, hash.Sum(nil))
}

// Programs that know the table only by its columns, as earlier versions do, count while it is converted, and after that.
// Several processes convert it at once.
func TestConversionBesideAnotherProgram(t *testing.T) {
	path, db := withoutNumbers(t, 2000)
	db.SetMaxOpenConns(1)
	other := must(sqlstore.New(db, dialect.SQLite, sqlstore.Options{}))(t)
	defer other.Close()
	require.NoError(t, other.Migrate(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	var taken int64
	var all sync.WaitGroup
	take := func(s runtime.Store) {
		d, err := limiter.New(s).Limit(counted, runtime.Key{}).Allow(t.Context())
		if assert.NoError(t, err) && assert.True(t, d.Allowed) {
			taken++
		}
	}
	take(other)
	all.Go(func() {
		for ctx.Err() == nil {
			take(other)
		}
	})
	var opens sync.WaitGroup
	for range 3 {
		opens.Go(func() {
			assert.NoError(t, process("open", path).Run())
		})
	}
	opens.Wait()
	stop()
	all.Wait()
	require.True(t, hasNumbers(t, db))
	s := must(sqlite.Open(path))(t)
	defer s.Close()
	for range 10 {
		take(s)
		take(other)
	}
	require.Equal(t, counted.Capacity-taken, must(limiter.New(s).Limit(counted, runtime.Key{}).Peek(t.Context()))(t).Remaining)
}
