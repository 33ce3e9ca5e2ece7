package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestAdvise says what to do about what databases say, by the shape of their drivers' errors, and keeps
// those.
func TestAdvise(t *testing.T) {
	s, err := New(&sql.DB{}, Postgres, Options{Table: "app.quotas"})
	require.NoError(t, err)
	for _, row := range []struct {
		err  error
		want string
	}{
		{stated("42P01"), `there is no table "app.quotas": call Migrate, or run what "ratelimitgen sql -dialect postgres -table app.quotas" prints`},
		{errors.New("Error 1146 (42S02): Table 'app.quotas' doesn't exist"), `there is no table "app.quotas": `},
		{stated("3F000"), `there is no schema for table "app.quotas": create it`},
		{stated("42501"), `on table "app.quotas" it needs SELECT, INSERT, UPDATE and DELETE`},
		{errors.New("Error 1142 (42000): INSERT command denied to user 'x'@'localhost' for table 'y'"), "lacks a privilege"},
		{errors.New("Error 1044 (42000): Access denied for user 'x'@'localhost' to database 'y'"), "lacks a privilege"},
		{stated("25006"), "connect to the primary server"},
		{stated("0A000"), "connect to the primary server"},
		{errors.New("Error 1290 (HY000): The MariaDB server is running with the --read-only option"), "connect to the primary server"},
		{errors.New("Error 1792 (25006): Cannot execute statement in a READ ONLY transaction"), "connect to the primary server"},
		{errors.New("Error 1047 (08S01): WSREP has not yet prepared node for application use"), "not a working member of its cluster"},
		{errors.New("Error 3100 (HY000): Error on observer while running replication hook 'before_commit'."), "not a working member of its cluster"},
		{errors.New("Error 3032 (HY000): The server is currently in offline mode"), "not a working member of its cluster"},
		{errors.New("Error 3098 (HY000): The table does not comply with the requirements by an external plugin."), "give table \"app.quotas\" its primary key"},
		{errors.New("Error 1665 (HY000): Cannot execute statement: impossible to write to binary log since BINLOG_FORMAT = STATEMENT"), "set binlog_format=ROW"},
		{errors.New("Error 1053 (08S01): Server shutdown in progress"), "the server is shutting down"},
		{fmt.Errorf("SQL logic error: no such table: app.quotas (%w)", coded(1)), `there is no table "app.quotas": call Migrate`},
		{coded(8), "grant the right to write it"},
		{coded(8 | 4<<8), "grant the right to write it"}, // SQLITE_READONLY_DBMOVED
		{coded(14), "check its path"},
		{stated("3D000"), "there is no such database: create it"},
		{errors.New("Error 1049 (42000): Unknown database 'x'"), "there is no such database: create it"},
		{stated("28P01"), "check user and password"},
		{stated("28000"), "check user and password"},
		{errors.New("Error 1045 (28000): Access denied for user 'x'@'localhost'"), "check user and password"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}, "check host and port"},
		{&net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}, "check host and port"},
		{stated("08006"), "check host and port"},
		{stated("57P03"), "check host and port"},
		{stated("53300"), "db.SetMaxOpenConns"},
		{errors.New("Error 1040: Too many connections"), "db.SetMaxOpenConns"},
		{stated("42601"), `does not understand the dialect postgres`},
		{stated("26000"), "default_query_exec_mode=exec"},
		{stated("42P05"), "max_prepared_statements"},
		{fmt.Errorf("bind message supplies 1 parameters, but prepared statement requires 7: %w", stated("08P01")), "default_query_exec_mode=exec"},
		{fmt.Errorf("transaction blocks not allowed in statement pooling mode: %w", stated("08P01")), "pool_mode to transaction or session"},
		{fmt.Errorf("unsupported startup parameter: extra_float_digits: %w", stated("08P01")), "ignore_startup_parameters"},
		{fmt.Errorf("query_wait_timeout: %w", stated("08P01")), "pool_size"},
		{fmt.Errorf("no such database: x: %w", stated("08P01")), "the pooler does not know the database"},
		{fmt.Errorf("server login has been failing, try again later: %w", stated("08P01")), "the pooler cannot reach the database server"},
		{fmt.Errorf("pgbouncer cannot connect to server: %w", stated("08P01")), "the pooler cannot reach the database server"},
		{fmt.Errorf("no more connections allowed (max_client_conn): %w", stated("08P01")), "max_client_conn"},
		{stated("08P01"), "check host and port"},
		{errors.New("Error 1064 (42000): You have an error in your SQL syntax"), `does not understand the dialect postgres`},
	} {
		for _, err := range []error{row.err, fmt.Errorf("wrapped: %w", row.err)} {
			advised := s.advise(err)
			assert.ErrorContains(t, advised, row.want)
			assert.ErrorContains(t, advised, ": "+err.Error())
			assert.ErrorIs(t, advised, row.err)
			assert.Equal(t, advised, s.advise(advised), "advice is given once")
			assert.False(t, retryable(advised), "%v", advised)
		}
	}
}

// TestAdviseHidesDataSourceName has nothing of a data source name in an error, nor in those that it wraps.
func TestAdviseHidesDataSourceName(t *testing.T) {
	s, err := New(new(sql.DB), Postgres, Options{})
	require.NoError(t, err)
	malformed := &url.Error{Op: "parse", URL: "postgres://user:hunter2 x@host/db", Err: errors.New("net/url: invalid userinfo")}
	for _, err := range []error{
		malformed, errors.New(`missing "=" after "hunter2" in connection info string`),
		errors.New("cannot parse `user:xxxxxx@hunter2`: failed to parse as keyword/value (invalid keyword/value)"),
		errors.New(`pq: wrong value for "port": strconv.ParseUint: parsing "hunter2": invalid syntax`),
	} {
		require.ErrorContains(t, err, "hunter2")
		advised := s.advise(fmt.Errorf("wrapped: %w", err))
		assert.ErrorContains(t, advised, "the data source name cannot be parsed")
		assert.NotContains(t, advised.Error(), "hunter2")
		assert.Nil(t, errors.Unwrap(advised))
	}
	about := fmt.Errorf("a column called connection string: %w", stated("22003"))
	assert.Equal(t, about, s.advise(about), "what the server says")
}

// TestAdviseNothing leaves alone what is not known, and what is tried again.
func TestAdviseNothing(t *testing.T) {
	s, err := New(&sql.DB{}, MySQL, Options{})
	require.NoError(t, err)
	for _, err := range []error{
		nil, stated("40001"), stated("23505"), coded(5), coded(1), errors.New("no such table: x"), errVanished, ErrClosed, errors.New("whatever"),
		errors.New("Error 1213 (40001): Deadlock found"), &net.OpError{Op: "read", Err: errors.New("connection reset by peer")},
	} {
		assert.Equal(t, err, s.advise(err))
	}
}

// TestAdviseKeepsRetryable has an error with advice about it still be one that is tried again.
func TestAdviseKeepsRetryable(t *testing.T) {
	assert.True(t, retryable(&advised{"do", stated("40001")}))
	assert.True(t, retryable(&advised{"do", errors.New("Error 1213 (40001): Deadlock found")}))
}
