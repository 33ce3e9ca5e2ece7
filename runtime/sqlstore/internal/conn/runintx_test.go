package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// A commit that was not answered may have happened, and one that the server has refused has not.
func TestOutcomeOfAFailedCommit(t *testing.T) {
	for _, c := range []struct {
		err     error
		unknown bool
	}{
		{io.ErrUnexpectedEOF, true},
		{driver.ErrBadConn, true},
		{&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true},
		{errors.New("invalid connection"), true},
		{context.DeadlineExceeded, true},
		{sqlState("57P01"), true},
		{sqlState("23505"), false},
		{errors.New("Error 3100 (HY000): Error on observer while running replication hook 'before_commit'."), false},
	} {
		server := &beginner{commit: c.err}
		db := sql.OpenDB(server)
		err := RunInTx(t.Context(), db, func(*sql.Tx) error { return nil })
		require.ErrorIs(t, err, c.err)
		require.Equal(t, c.unknown, errors.Is(err, fault.ErrOutcomeUnknown), err)
		require.NoError(t, db.Close())
	}
}

// A commit that was never sent has a known outcome.
func TestOutcomeOfACommitThatWasNotSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	db := sql.OpenDB(new(beginner))
	defer db.Close()
	err := RunInTx(ctx, db, func(*sql.Tx) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, fault.ErrOutcomeUnknown)
	err = RunInTx(t.Context(), db, func(tx *sql.Tx) error { return tx.Rollback() })
	require.ErrorIs(t, err, sql.ErrTxDone)
	require.NotErrorIs(t, err, fault.ErrOutcomeUnknown)
}
