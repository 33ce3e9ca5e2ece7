package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
)

type stated string

func (s stated) Error() string    { return "ERROR: something (SQLSTATE " + string(s) + ")" }
func (s stated) SQLState() string { return string(s) }

type coded int

func (c coded) Error() string { return fmt.Sprintf("something (%d)", int(c)) }
func (c coded) Code() int     { return int(c) }

// TestOwnData tells errors about a value of one call from those that every call would meet.
func TestOwnData(t *testing.T) {
	for _, err := range []error{
		stated("22021"), stated("22P05"), stated("23514"), stated("P0001"), stated("54000"), coded(19), coded(19 | 7<<8), coded(18),
		errors.New("Error 4025 (23000): CONSTRAINT `x` failed"), errors.New("Error 3819 (HY000): Check constraint 'x' is violated."),
		errors.New("Error 1366 (HY000): Incorrect string value"),
	} {
		assert.True(t, ownData(err), "%v", err)
		assert.True(t, ownData(fmt.Errorf("wrapped: %w", err)), "%v", err)
		assert.False(t, retryable(err), "%v", err)
	}
	for _, err := range []error{
		nil, stated("40001"), stated("42P01"), stated("08006"), stated("57014"), stated("26000"), stated("53200"), coded(5), coded(8), coded(1),
		errors.New("Error 1146 (42S02): Table 'x' doesn't exist"), io.EOF, driver.ErrBadConn, context.Canceled, errors.New("19"),
	} {
		assert.False(t, ownData(err), "%v", err)
	}
}

// TestLost tells a connection that is gone from one that has not answered in time.
func TestLost(t *testing.T) {
	for _, err := range []error{
		driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, stated("57P01"), &net.OpError{Op: "read", Err: errors.New("connection reset by peer")},
	} {
		assert.ErrorAs(t, unbegun(fmt.Errorf("wrapped: %w", err)), new(*unbegunError), "%v", err)
	}
	for _, err := range []error{
		stated("08P01"), stated("25006"), context.DeadlineExceeded, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, errors.New("whatever"),
	} {
		assert.Equal(t, err, unbegun(err))
	}
}

// TestRetryable knows what databases say, by the shape of their drivers' errors.
func TestRetryable(t *testing.T) {
	for _, row := range []struct {
		err  error
		want bool
	}{
		{stated("40001"), true},
		{stated("40P01"), true},
		{stated("23505"), false},
		{coded(5), true},
		{coded(5 | 2<<8), true}, // SQLITE_BUSY_SNAPSHOT
		{coded(6), true},
		{coded(8), false},
		{errors.New("Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction"), true},
		{errors.New("Error 1205 (HY000): Lock wait timeout exceeded; try restarting transaction"), true},
		{errors.New("Error 1020: Record has changed since last read in table 't'"), true},
		{errors.New("Error 3101 (40000): Plugin instructed the server to rollback the current transaction."), true},
		{errors.New("Error 1568 (25001): Transaction characteristics can't be changed while a transaction is in progress"), true},
		{errors.New("Error 1047 (08S01): WSREP has not yet prepared node for application use"), false},
		{errors.New("Error 1180 (HY000): Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT"), true},
		{errors.New("Error 1180 (HY000): Got error 28 - 'No space left on device' during COMMIT"), false},
		{errors.New("Error 1146 (42S02): Table 'x' doesn't exist"), false},
		{errors.New("deadlock"), false},
		{errVanished, true},
		{&RetryTxError{errors.New("whatever")}, true},
		{nil, false},
	} {
		assert.Equal(t, row.want, retryable(row.err), "%v", row.err)
		if row.err != nil {
			assert.Equal(t, row.want, retryable(fmt.Errorf("wrapped: %w", row.err)), "%v, wrapped", row.err)
		}
	}
}
