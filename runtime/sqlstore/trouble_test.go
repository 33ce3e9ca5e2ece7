package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
