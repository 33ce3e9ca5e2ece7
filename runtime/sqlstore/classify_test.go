package sqlstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

type stated string

func (s stated) Error() string    { return "ERROR: something (SQLSTATE " + string(s) + ")" }
func (s stated) SQLState() string { return string(s) }

type coded int

func (c coded) Error() string { return fmt.Sprintf("something (%d)", int(c)) }
func (c coded) Code() int     { return int(c) }

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
