package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// taken takes tokens of a limit of 400 until one is denied or fails, and returns how many it took.
func taken(l *limiter.Limiter) (n int, err error) {
	limit := l.Limit(once("shared", runtime.TokenBucket, 400, 0), runtime.Key{})
	for {
		if err := limit.Require(context.Background()); err != nil {
			if errors.Is(err, runtime.ErrLimited) {
				err = nil
			}
			return n, err
		}
		n++
	}
}

// drain prints the number of tokens that it has taken, and returns the error that ended it.
func drain(l *limiter.Limiter) error {
	n, err := taken(l)
	fmt.Println(n)
	return err
}

// takenByAnother returns how many tokens another process takes, and its error output.
func takenByAnother(t *testing.T, path string) (n int, said string) {
	t.Helper()
	cmd := process("drain", path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, _ := cmd.Output()
	n, _ = strconv.Atoi(strings.TrimSpace(string(out)))
	return n, stderr.String()
}

// After each change, a process that opens the path would keep separate counts.
func TestChangedFileFailsCallsUntilUndone(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(t *testing.T, path string)
		want   string
		// undo lets the first process continue, if it is not nil.
		undo func(t *testing.T, path string)
	}{
		{"deleted", func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, "was deleted or moved", nil},
		{"moved and back", func(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+".old")) }, "was deleted or moved",
			func(t *testing.T, path string) { require.NoError(t, os.Rename(path+".old", path)) }},
		{"replaced", func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path+".new", nil, 0o600))
			require.NoError(t, os.Rename(path+".new", path))
		}, "was replaced", nil},
		{"log deleted", func(t *testing.T, path string) { require.NoError(t, os.Remove(path+"-wal")) }, "was deleted or moved", nil},
		{"index deleted", func(t *testing.T, path string) { require.NoError(t, os.Remove(path+"-shm")) }, "was deleted or moved", nil},
		{"linked", func(t *testing.T, path string) { require.NoError(t, os.Link(path, path+".link")) }, "has 2 names (hard links)",
			func(t *testing.T, path string) { require.NoError(t, os.Remove(path+".link")) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			s := opened(t, path)
			limit := limiter.New(s).Limit(counted, runtime.Key{})
			require.NoError(t, limit.Require(t.Context()))

			row.change(t, path)
			require.ErrorContains(t, s.Ready(t.Context()), row.want, "Ready checks at once")
			d, err := limit.Allow(t.Context())
			require.ErrorContains(t, err, row.want)
			require.False(t, d.Allowed)
			for name, operation := range operations(s) {
				require.ErrorContains(t, operation(t.Context()), row.want, name)
			}
			if row.undo != nil {
				row.undo(t, path)
				require.NoError(t, s.Ready(t.Context()))
				require.NoError(t, limit.Require(t.Context()))
			}
		})
	}
}

// operations are those of a store that use the file, besides Do and Ready.
func operations(s *sqlite.Store) map[string]func(ctx context.Context) error {
	limits := []*runtime.Policy{{
		Name: "blockable", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1, Overrides: runtime.OverrideBounds{Rate: 1, Capacity: 1},
	}}
	all := limiter.New(s)
	limit, overrides := all.Limit(limits[0], runtime.Key{}), all.OverridesForAll(limits[0])
	return map[string]func(ctx context.Context) error{
		"Block": func(ctx context.Context) error {
			_, err := overrides.Block(ctx, runtime.Block{Until: runtime.ForGood(), Reason: "r", Author: "a"})
			return err
		},
		"AppendOverride": func(ctx context.Context) error {
			_, err := s.AppendOverride(ctx, runtime.OverrideEntry{
				Limit: "blockable", What: runtime.OverrideBlock, Until: runtime.ForGood(), Reason: "r", Author: "a",
			})
			return err
		},
		"History": func(ctx context.Context) error { _, err := overrides.History(ctx); return err },
		"Allow":   func(ctx context.Context) error { _, err := limit.Allow(ctx); return err },
		"Sweep":   func(ctx context.Context) error { _, err := s.Sweep(ctx, counted); return err },
		"Forget":  func(ctx context.Context) error { _, err := s.Forget(ctx, "other", counted); return err },
		"Rows":    func(ctx context.Context) error { _, _, err := s.Rows(ctx, runtime.Row{Name: "shared"}, 1); return err },
		"Migrate": func(ctx context.Context) error { return s.Migrate(ctx, limits...) },
	}
}

// SQLite would copy what is left of the log into the file.
func TestTruncatedLogFailsCallsForGood(t *testing.T) {
	for name, to := range map[string]func(size int64) int64{
		"empty": func(int64) int64 { return 0 }, "a part": func(size int64) int64 { return size - 100 }, "the header": func(int64) int64 { return 20 },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			s := must(sqlite.Open(path))(t)
			limit := limiter.New(s).Limit(counted, runtime.Key{})
			require.NoError(t, limit.RequireN(t.Context(), 10))
			require.NoError(t, s.Ready(t.Context()))
			text := must(os.ReadFile(path + "-wal"))(t)
			require.NoError(t, os.Truncate(path+"-wal", to(int64(len(text)))))
			for range 2 {
				const want = "was truncated by another program"
				require.ErrorContains(t, s.Ready(t.Context()), want)
				require.ErrorContains(t, limit.Require(t.Context()), want)
				require.NoError(t, os.WriteFile(path+"-wal", text, 0o600), "by then SQLite may have read anything")
			}
			require.ErrorContains(t, s.Close(), "was truncated")
		})
	}
}

// emptyLog takes a token, empties the log, and takes tokens until a call fails. It prints how many it took after that.
func emptyLog(l *limiter.Limiter) error {
	limit := l.Limit(once("shared", runtime.TokenBucket, 1_000_000, 0), runtime.Key{})
	err := limit.Require(context.Background())
	if err == nil {
		err = os.Truncate(os.Getenv(envPath)+"-wal", 0)
	}
	for taken := 0; err == nil; taken++ {
		if failed := limit.Require(context.Background()); failed != nil {
			fmt.Println(taken, failed)
			return nil
		}
	}
	return err
}

// SQLite goes on writing behind the end of the log that it remembers, so that the log soon has its old size. When the
// process ends, the file is as it was when the log was last copied.
func TestEmptiedLogIsNoticedByCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := must(sqlite.Open(path))(t)
	limit := limiter.New(s).Limit(once("shared", runtime.TokenBucket, 1_000_000, 0), runtime.Key{})
	require.NoError(t, limit.RequireN(t.Context(), 1000))
	require.NoError(t, s.Close(), "which copies the log")

	cmd := process("emptyLog", path)
	out := must(cmd.Output())(t)
	require.Contains(t, string(out), "was truncated by another program")
	t.Logf("%s", out)
	s = opened(t, path)
	b := must(limiter.New(s).Limit(once("shared", runtime.TokenBucket, 1_000_000, 0), runtime.Key{}).Peek(t.Context()))(t)
	require.Equal(t, int64(999_000), b.Remaining)
}

// A program may have SQLite truncate the log, such as for a backup.
func TestLogThatSQLiteTruncatesIsNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := opened(t, path)
	limit := limiter.New(s).Limit(counted, runtime.Key{})
	other := database(t, path)
	for i := range 50 {
		require.NoError(t, limit.Require(t.Context()))
		must(other.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))(t)
		if i%2 == 0 {
			require.Zero(t, must(os.Stat(path+"-wal"))(t).Size())
			require.NoError(t, s.Ready(t.Context()))
		}
	}
	b := must(limit.Peek(t.Context()))(t)
	require.Equal(t, counted.Capacity-50, b.Remaining)

	// Meanwhile, with checks at any moment.
	ended := make(chan error)
	go func() {
		var err error
		for range 300 {
			_, failed := other.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
			err = errors.Join(err, failed)
		}
		ended <- err
	}()
	p := once("busy", runtime.TokenBucket, 1_000_000, 0)
	for {
		select {
		case err := <-ended:
			require.NoError(t, err)
			return
		default:
			sqlite.CheckFiles(s)
			require.NoError(t, limiter.New(s).Limit(p, runtime.Key{}).Require(t.Context()))
		}
	}
}

// It does not call Ready in between.
func TestDeletedFileIsNoticedByCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := opened(t, path)
	limit := limiter.New(s).Limit(counted, runtime.Key{})
	require.NoError(t, limit.Require(t.Context()))
	require.NoError(t, os.Remove(path))
	removed := time.Now()
	require.Eventually(t, func() bool { return limit.Require(t.Context()) != nil }, 10*time.Second, time.Millisecond)
	t.Logf("noticed after %v", time.Since(removed))

	again, err := sqlite.Open(path)
	require.NoError(t, err, "opening it again creates a new file")
	defer again.Close()
	b := must(limiter.New(again).Limit(counted, runtime.Key{}).Peek(t.Context()))(t)
	assert.Equal(t, counted.Capacity, b.Remaining)
	require.ErrorContains(t, s.Ready(t.Context()), "was replaced", "the first store does not use it")
	require.ErrorContains(t, limit.Require(t.Context()), "was replaced")
}

// Two processes open one file by two names.
func TestFileOpenedByTwoNamesGrantsOnce(t *testing.T) {
	for name, link := range map[string]func(old, new string) error{"hard": os.Link, "symbolic": os.Symlink} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			other := filepath.Join(t.TempDir(), "other.db")
			s := opened(t, path)
			// Tokens remain for the other process, and the file is open in both.
			limit := limiter.New(s).Limit(once("shared", runtime.TokenBucket, 400, 0), runtime.Key{})
			require.NoError(t, limit.RequireN(t.Context(), 150))
			require.NoError(t, link(path, other))
			theirs, said := takenByAnother(t, other)
			require.NoError(t, os.Remove(other))
			require.NoError(t, s.Ready(t.Context()))
			ours := must(taken(limiter.New(s)))(t)
			require.Equal(t, 400, 150+ours+theirs)
			if name == "hard" {
				require.Zero(t, theirs)
				require.Contains(t, said, "delete the other names, and use symbolic links instead")
			} else {
				require.Equal(t, 250, theirs, said)
			}
		})
	}
}

func TestMovedSymbolicLinkIsDetected(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "link.db")
	for _, name := range []string{"a.db", "b.db"} {
		s := must(sqlite.Open(filepath.Join(folder, name)))(t)
		require.NoError(t, s.Close())
	}
	require.NoError(t, os.Symlink("a.db", link))
	s := opened(t, link)
	assert.FileExists(t, filepath.Join(folder, "a.db-wal"))
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("b.db", link))
	require.ErrorContains(t, s.Ready(t.Context()), "was replaced")
}

// SQLite deletes the log with the last connection.
func TestReopenedConnectionIsNotADeletedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := opened(t, path)
	limit := limiter.New(s).Limit(counted, runtime.Key{})
	for range 3 {
		require.NoError(t, limit.Require(t.Context()))
		sqlite.DropConnections(s)
		require.NoFileExists(t, path+"-wal")
		require.NoError(t, s.Ready(t.Context()))
	}
	d := must(limit.Allow(t.Context()))(t)
	assert.Equal(t, counted.Capacity-4, d.Remaining)

	// A new connection must not create a file that was deleted in between.
	sqlite.DropConnections(s)
	require.NoError(t, os.Remove(path))
	require.ErrorContains(t, s.Ready(t.Context()), "limits.db")
	_, err := limit.Allow(t.Context())
	require.Error(t, err)
}

func TestZeroStoreReturnsErrNoStore(t *testing.T) {
	var s sqlite.Store
	for _, err := range []error{
		s.Ready(t.Context()), s.Migrate(t.Context()), s.Close(), limiter.New(&s).Limit(counted, runtime.Key{}).Require(t.Context()),
	} {
		require.ErrorIs(t, err, runtime.ErrNoStore)
	}
}
