package conn

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
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

type sqlState string

func (s sqlState) Error() string    { return "ERROR: something (SQLSTATE " + string(s) + ")" }
func (s sqlState) SQLState() string { return string(s) }

type resultCode int

func (c resultCode) Error() string { return fmt.Sprintf("something (%d)", int(c)) }
func (c resultCode) Code() int     { return int(c) }

func TestRefusedValuesAreErrorsOfOneCall(t *testing.T) {
	for _, err := range []error{
		sqlState("22021"), sqlState("22P05"), sqlState("23514"), sqlState("P0001"), sqlState("54000"), resultCode(19), resultCode(19 | 7<<8), resultCode(18),
		errors.New("Error 4025 (23000): CONSTRAINT `x` failed"), errors.New("Error 3819 (HY000): Check constraint 'x' is violated."),
		errors.New("Error 1366 (HY000): Incorrect string value"),
	} {
		assert.True(t, fault.RefusedValue(err), "%v", err)
		assert.True(t, fault.RefusedValue(fmt.Errorf("wrapped: %w", err)), "%v", err)
		assert.False(t, fault.Retryable(err), "%v", err)
	}
	for _, err := range []error{
		nil, sqlState("40001"), sqlState("42P01"), sqlState("08006"), sqlState("57014"), sqlState("26000"), sqlState("53200"), resultCode(5), resultCode(8), resultCode(1),
		errors.New("Error 1146 (42S02): Table 'x' doesn't exist"), io.EOF, driver.ErrBadConn, context.Canceled, errors.New("19"),
	} {
		assert.False(t, fault.RefusedValue(err), "%v", err)
	}
}

func TestLostConnectionsAreNotTimeouts(t *testing.T) {
	for _, err := range []error{
		driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, sqlState("57P01"), &net.OpError{Op: "read", Err: errors.New("connection reset by peer")},
	} {
		assert.ErrorAs(t, unbegun(fmt.Errorf("wrapped: %w", err)), new(*unbegunError), "%v", err)
	}
	for _, err := range []error{
		sqlState("08P01"), sqlState("25006"), context.DeadlineExceeded, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, errors.New("whatever"),
	} {
		assert.Equal(t, err, unbegun(err))
	}
}

func TestConflictsAreRetryable(t *testing.T) {
	for _, row := range []struct {
		err  error
		want bool
	}{
		{sqlState("40001"), true},
		{sqlState("40P01"), true},
		{sqlState("23505"), false},
		{resultCode(5), true},
		{resultCode(5 | 2<<8), true}, // SQLITE_BUSY_SNAPSHOT
		{resultCode(6), true},
		{resultCode(8), false},
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
		{fault.ErrVanished, true},
		{&fault.Again{Err: errors.New("whatever")}, true},
		{nil, false},
	} {
		assert.Equal(t, row.want, fault.Retryable(row.err), "%v", row.err)
		if row.err != nil {
			assert.Equal(t, row.want, fault.Retryable(fmt.Errorf("wrapped: %w", row.err)), "%v, wrapped", row.err)
		}
	}
}

func TestHintsWrapErrorsOfDrivers(t *testing.T) {
	s, err := NewServer(&sql.DB{}, dialect.Postgres, "app.quotas", nil, nil)
	require.NoError(t, err)
	for _, row := range []struct {
		err  error
		want string
	}{
		{sqlState("42P01"), `there is no table "app.quotas": call Start or Migrate, or run what "ratelimitgen sql -dialect postgres -table app.quotas" prints`},
		{errors.New("Error 1146 (42S02): Table 'app.quotas' doesn't exist"), `there is no table "app.quotas": `},
		{sqlState("3F000"), `the schema of table "app.quotas" does not exist: create it`},
		{sqlState("42501"), `on table "app.quotas" it needs SELECT, INSERT, UPDATE and DELETE`},
		{errors.New("Error 1142 (42000): INSERT command denied to user 'x'@'localhost' for table 'y'"), "lacks a privilege"},
		{errors.New("Error 1044 (42000): Access denied for user 'x'@'localhost' to database 'y'"), "lacks a privilege"},
		{sqlState("25006"), "connect to the primary server"},
		{sqlState("0A000"), "connect to the primary server"},
		{errors.New("Error 1290 (HY000): The MariaDB server is running with the --read-only option"), "connect to the primary server"},
		{errors.New("Error 1792 (25006): Cannot execute statement in a READ ONLY transaction"), "connect to the primary server"},
		{errors.New("Error 1047 (08S01): WSREP has not yet prepared node for application use"), "not a working member of its cluster"},
		{errors.New("Error 3100 (HY000): Error on observer while running replication hook 'before_commit'."), "not a working member of its cluster"},
		{errors.New("Error 3032 (HY000): The server is currently in offline mode"), "not a working member of its cluster"},
		{errors.New("Error 3098 (HY000): The table does not comply with the requirements by an external plugin."), "give table \"app.quotas\" its primary key"},
		{errors.New("Error 1665 (HY000): Cannot execute statement: impossible to write to binary log since BINLOG_FORMAT = STATEMENT"), "set binlog_format=ROW"},
		{errors.New("Error 1053 (08S01): Server shutdown in progress"), "the server is shutting down"},
		{fmt.Errorf("SQL logic error: no such table: app.quotas (%w)", resultCode(1)), `there is no table "app.quotas": call Start or Migrate`},
		{resultCode(8), "make the file and its directory writable"},
		{resultCode(8 | 4<<8), "make the file and its directory writable"}, // SQLITE_READONLY_DBMOVED
		{resultCode(14), "check its path"},
		{sqlState("3D000"), "the database does not exist: create it"},
		{errors.New("Error 1049 (42000): Unknown database 'x'"), "the database does not exist: create it"},
		{sqlState("28P01"), "check user and password"},
		{sqlState("28000"), "check user and password"},
		{errors.New("Error 1045 (28000): Access denied for user 'x'@'localhost'"), "check user and password"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}, "check host and port"},
		{&net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}, "check host and port"},
		{sqlState("08006"), "check host and port"},
		{sqlState("57P03"), "check host and port"},
		{sqlState("53300"), "db.SetMaxOpenConns"},
		{errors.New("Error 1040: Too many connections"), "db.SetMaxOpenConns"},
		{sqlState("42601"), `rejects the SQL of dialect postgres: pass the database's own dialect`},
		{sqlState("26000"), "default_query_exec_mode=exec"},
		{sqlState("42P05"), "max_prepared_statements"},
		{fmt.Errorf("bind message supplies 1 parameters, but prepared statement requires 7: %w", sqlState("08P01")), "default_query_exec_mode=exec"},
		{fmt.Errorf("transaction blocks not allowed in statement pooling mode: %w", sqlState("08P01")), "pool_mode to transaction or session"},
		{fmt.Errorf("unsupported startup parameter: extra_float_digits: %w", sqlState("08P01")), "ignore_startup_parameters"},
		{fmt.Errorf("query_wait_timeout: %w", sqlState("08P01")), "pool_size"},
		{fmt.Errorf("no such database: x: %w", sqlState("08P01")), "PgBouncer's configuration lacks the database or its user"},
		{fmt.Errorf("server login has been failing, try again later: %w", sqlState("08P01")), "the pooler cannot reach the database server"},
		{fmt.Errorf("pgbouncer cannot connect to server: %w", sqlState("08P01")), "the pooler cannot reach the database server"},
		{fmt.Errorf("no more connections allowed (max_client_conn): %w", sqlState("08P01")), "max_client_conn"},
		{sqlState("08P01"), "check host and port"},
		{errors.New("Error 1064 (42000): You have an error in your SQL syntax"), `rejects the SQL of dialect postgres: pass the database's own dialect`},
	} {
		for _, err := range []error{row.err, fmt.Errorf("wrapped: %w", row.err)} {
			hinted := s.WithHint(err)
			assert.ErrorContains(t, hinted, row.want)
			assert.ErrorContains(t, hinted, ": "+err.Error())
			assert.ErrorIs(t, hinted, row.err)
			assert.Equal(t, hinted, s.WithHint(hinted), "a hint is added once")
			assert.False(t, fault.Retryable(hinted), "%v", hinted)
		}
	}
}

func TestDataSourceNamesAreNotInErrors(t *testing.T) {
	s, err := NewServer(new(sql.DB), dialect.Postgres, "", nil, nil)
	require.NoError(t, err)
	malformed := &url.Error{Op: "parse", URL: "postgres://user:hunter2 x@host/db", Err: errors.New("net/url: invalid userinfo")}
	for _, err := range []error{
		malformed, errors.New(`missing "=" after "hunter2" in connection info string`),
		errors.New("cannot parse `user:xxxxxx@hunter2`: failed to parse as keyword/value (invalid keyword/value)"),
		errors.New(`pq: wrong value for "port": strconv.ParseUint: parsing "hunter2": invalid syntax`),
	} {
		require.ErrorContains(t, err, "hunter2")
		hinted := s.WithHint(fmt.Errorf("wrapped: %w", err))
		assert.ErrorContains(t, hinted, "the data source name cannot be parsed")
		assert.NotContains(t, hinted.Error(), "hunter2")
		assert.Nil(t, errors.Unwrap(hinted))
	}
	about := fmt.Errorf("a column called connection string: %w", sqlState("22003"))
	assert.Equal(t, about, s.WithHint(about), "an error of the server stays")
}

func TestUnknownAndRetryableErrorsHaveNoHint(t *testing.T) {
	s, err := NewServer(&sql.DB{}, dialect.MySQL, "", nil, nil)
	require.NoError(t, err)
	for _, err := range []error{
		nil, sqlState("40001"), sqlState("23505"), resultCode(5), resultCode(1), errors.New("no such table: x"), fault.ErrVanished, runtime.ErrClosed, errors.New("whatever"),
		errors.New("Error 1213 (40001): Deadlock found"), &net.OpError{Op: "read", Err: errors.New("connection reset by peer")},
	} {
		assert.Equal(t, err, s.WithHint(err))
	}
}

func TestErrorsWithHintsStayRetryable(t *testing.T) {
	assert.True(t, fault.Retryable(&fault.Hinted{Text: "hint", Err: sqlState("40001")}))
	assert.True(t, fault.Retryable(&fault.Hinted{Text: "hint", Err: errors.New("Error 1213 (40001): Deadlock found")}))
}

func TestUnknownParameterOfADialectIsAnError(t *testing.T) {
	d := dialect.Postgres
	d.Page = strings.Replace(d.Page, ":count", ":number", 1)
	_, err := NewServer(&sql.DB{}, d, "", nil, nil)
	assert.EqualError(t, err, `dialect "postgres": a statement has the unknown parameter :number`)
}

func TestDifferencesFromRequiredParts(t *testing.T) {
	const parts = `
ts: bigint | int8
value: double
primary key: name, key, shard
`
	for _, row := range []struct {
		found map[string]string
		want  []string
	}{
		{map[string]string{"ts": "bigint", "value": "double", "primary key": "name, key, shard"}, nil},
		{map[string]string{"ts": "int8", "value": "double", "primary key": "name, key, shard", "note": "text"}, nil},
		{map[string]string{"ts": "text", "value": "double"}, []string{`ts is "text" instead of "bigint"`, "primary key is missing"}},
		{map[string]string{"ts": "bigint", "value": "double", "primary key": "name"}, []string{`primary key is "name" instead of "name, key, shard"`}},
	} {
		assert.Equal(t, row.want, Differences(parts, row.found))
	}
}
