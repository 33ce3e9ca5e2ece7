package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// TestDeadlineWhileLocked asks while another process, as it were, holds the lock for good: the context
// bounds the call, for those who have the connection and for those who wait for it.
func TestDeadlineWhileLocked(t *testing.T) {
	r := newRig(t)
	limit := runtime.NewLimiter(r.store).Limit(told, runtime.Key{})
	require.NoError(t, limit.Require(t.Context()))
	lock, err := r.db.Conn(t.Context())
	require.NoError(t, err)
	_, err = lock.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)

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
	assert.ErrorContains(t, limit.Require(ctx), "waiting for the database", "why it took so long")

	_, err = lock.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	require.NoError(t, limit.Require(t.Context()))
}

// TestOpenAtOnce opens new files by several at once, and one that is not in WAL mode yet and in use.
func TestOpenAtOnce(t *testing.T) {
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

func TestOpenInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec("CREATE TABLE other (x); BEGIN IMMEDIATE; INSERT INTO other VALUES (1)")
	require.NoError(t, err)
	opened := make(chan error)
	go func() {
		s, err := sqlite.Open(path)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	_, err = db.Exec("COMMIT")
	require.NoError(t, err)
	require.NoError(t, <-opened)
}
