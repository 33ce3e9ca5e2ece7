package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// beginner is a server that has closed its connections.
type beginner struct {
	closed atomic.Bool
	begun  atomic.Int64
	// commit is the error of each COMMIT.
	commit error
}

func (b *beginner) Connect(context.Context) (driver.Conn, error) {
	return &beginnerConn{server: b, opened: !b.closed.Load()}, nil
}

func (b *beginner) Driver() driver.Driver { return nil }

// beginnerConn is a connection, and the transaction on it.
type beginnerConn struct {
	driver.Conn
	server *beginner
	// opened: before the server closed its connections.
	opened bool
}

func (c *beginnerConn) Close() error    { return nil }
func (c *beginnerConn) Commit() error   { return c.server.commit }
func (c *beginnerConn) Rollback() error { return nil }

func (c *beginnerConn) Begin() (driver.Tx, error) {
	c.server.begun.Add(1)
	if c.opened && c.server.closed.Load() {
		return nil, driver.ErrBadConn
	}
	return c, nil
}

func TestRunInTxBeginsOnAnotherConnectionAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := new(beginner)
		db := sql.OpenDB(server)
		defer db.Close()
		const idle = 8
		db.SetMaxIdleConns(idle)
		var conns []*sql.Conn
		for range idle {
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
		server.closed.Store(true)
		began, ran := time.Now(), 0
		require.NoError(t, RunInTx(t.Context(), db, func(*sql.Tx) error { ran++; return nil }))
		assert.Equal(t, 1, ran)
		assert.EqualValues(t, idle+1, server.begun.Load())
		assert.Zero(t, time.Since(began), "without a pause")
	})
}

func TestRetryGivesUpAfterItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		err := Retry(t.Context(), func(context.Context) error {
			tries++
			return &fault.Again{Err: context.DeadlineExceeded}
		})
		require.ErrorContains(t, err, "gave up after 100 attempts: ")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, bounds.MaxAttempts, tries)
	})
}

func TestLoopsInLoopsShareTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		conflict := func(context.Context) error {
			tries++
			return &fault.Again{Err: context.DeadlineExceeded}
		}
		for range 2 {
			tries = 0
			err := Retry(t.Context(), func(ctx context.Context) error {
				return Retry(ctx, func(ctx context.Context) error { return Retry(ctx, conflict) })
			})
			require.EqualError(t, err, "gave up after 100 attempts: "+(&fault.Again{Err: context.DeadlineExceeded}).Error())
			assert.Equal(t, bounds.MaxAttempts, tries, "each call has its own")
		}
	})
}

func TestASingleStatementIsRetried(t *testing.T) {
	tries := 0
	err := new(Server).Single(t.Context(), new(Executor), func(Session) error {
		if tries++; tries < 3 {
			return &fault.Again{Err: errors.New("conflict")}
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, tries)
}
