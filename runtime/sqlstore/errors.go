package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What databases say when the same transaction may succeed if it is run again.
var (
	// serialization_failure, deadlock_detected and lock_not_available.
	retryableStates = []string{"40001", "40P01", "55P03"}
	// ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK and ER_CHECKREAD. A Galera node says the second when another
	// node was first, also at COMMIT. Then a node of a MySQL group returns ER_TRANSACTION_ROLLBACK_DURING_COMMIT.
	retryableNumbers = []int{1205, 1213, 1020, 3101, txInProgress}
	// SQLITE_BUSY and SQLITE_LOCKED.
	retryableCodes = []int{5, 6}
)

// retryable reports whether the transaction that has failed with err did nothing, and may succeed if it is
// run again. It knows the errors of drivers by their shape, without importing any.
func retryable(err error) bool {
	var again *RetryTxError
	var stated interface{ SQLState() string }
	var coded interface{ Code() int }
	switch {
	case errors.As(err, &again), errors.Is(err, errVanished), errors.Is(err, errTxEnded):
		return true
	case errors.As(err, &stated):
		return slices.Contains(retryableStates, stated.SQLState())
	case errors.As(err, &coded):
		return slices.Contains(retryableCodes, coded.Code()&0xff)
	}
	number := mysqlNumber(err)
	return slices.Contains(retryableNumbers, number) || number == errorDuringCommit && strings.Contains(err.Error(), deadlockDuringCommit)
}

// outdated reports whether a statement did nothing because what a driver has prepared for it in the session is no
// longer what it was, or is not there.
func outdated(err error) bool {
	return changedTable(err) || slices.Contains(misplacedStates, stateOf(err))
}

// misplacedStates are invalid_sql_statement_name and duplicate_prepared_statement: a session does not have the
// statement that a driver has prepared in it, or has one that another client has.
var misplacedStates = []string{"26000", "42P05"}

// changedTable reports whether Postgres says that a statement's result is no longer what it was when it was prepared.
func changedTable(err error) bool {
	return stateOf(err) != "" && strings.Contains(err.Error(), "cached plan must not change result type")
}

// stateOf returns the SQLSTATE of a driver's error, or "".
func stateOf(err error) string {
	var stated interface{ SQLState() string }
	if errors.As(err, &stated) {
		return stated.SQLState()
	}
	return ""
}

// unbegunError is why a transaction has not begun: the connection was lost, often because the server has closed it
// while it was idle. Package database/sql tries another connection then, but not if it was asked for this one.
type unbegunError struct{ err error }

func (e *unbegunError) Error() string { return e.err.Error() }
func (e *unbegunError) Unwrap() error { return e.err }

// unbegun returns the error of a BEGIN as an [unbegunError] if the connection was lost.
func unbegun(err error) error {
	if lost(err) {
		return &unbegunError{err}
	}
	return err
}

// lostStates are admin_shutdown, crash_shutdown and idle_session_timeout.
var lostStates = []string{"57P01", "57P02", "57P05"}

// lost reports whether a connection was lost, and not given up because it did not answer in time.
func lost(err error) bool {
	var failed net.Error
	if errors.As(err, &failed) {
		return !failed.Timeout()
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		slices.Contains(lostStates, stateOf(err))
}

// What databases say when a statement failed because of a value in it, and another with other values may pass.
var (
	// The classes data exception, integrity constraint violation, with check option violation, program limit exceeded,
	// and the errors that triggers raise.
	ownDataStates = []string{"22", "23", "44", "54", "P0"}
	// ER_BAD_NULL_ERROR, ER_DUP_ENTRY, ER_WARN_DATA_OUT_OF_RANGE, WARN_DATA_TRUNCATED, ER_TRUNCATED_WRONG_VALUE,
	// ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, ER_VIEW_CHECK_FAILED, ER_DATA_TOO_LONG, ER_NO_REFERENCED_ROW_2,
	// ER_ROW_IS_REFERENCED_2, ER_SIGNAL_EXCEPTION, ER_DATA_OUT_OF_RANGE, and a CHECK constraint that is violated, on
	// MySQL and on MariaDB.
	ownDataNumbers = []int{1048, 1062, 1264, 1265, 1292, 1366, 1369, 1406, 1451, 1452, 1644, 1690, 3819, 4025}
	// SQLITE_TOOBIG, SQLITE_CONSTRAINT and SQLITE_MISMATCH.
	ownDataCodes = []int{18, 19, 20}
)

// ownData reports whether a statement failed because of a value in it, such as a key that a constraint refuses.
func ownData(err error) bool {
	var coded interface{ Code() int }
	switch state := stateOf(err); {
	case state != "":
		return slices.ContainsFunc(ownDataStates, func(class string) bool { return strings.HasPrefix(state, class) })
	case errors.As(err, &coded):
		return slices.Contains(ownDataCodes, coded.Code()&0xff)
	}
	return slices.Contains(ownDataNumbers, mysqlNumber(err))
}

// txInProgress is ER_CANT_CHANGE_TX_CHARACTERISTICS: a transaction cannot begin on a connection that was left in another.
const txInProgress = 1568

// errorDuringCommit is ER_ERROR_DURING_COMMIT, for any error of the storage engine. A node of a MySQL group returns it with
// HA_ERR_LOCK_DEADLOCK if it has applied a transaction of another node in place of this one.
const (
	errorDuringCommit    = 1180
	deadlockDuringCommit = "Got error 149 "
)

// mysqlNumber returns the number in "Error 1213 (40001): Deadlock found ...", or 0 if err is not of this
// form.
func mysqlNumber(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		if rest, ok := strings.CutPrefix(err.Error(), "Error "); ok {
			digits, _, _ := strings.Cut(rest, " ")
			number, _ := strconv.Atoi(strings.TrimSuffix(digits, ":"))
			return number
		}
	}
	return 0
}

// attempts is how often a transaction is tried, and longestPause how long at most between two tries.
const (
	attempts     = 100
	longestPause = 100 * time.Millisecond
)

// retry runs a transaction until it succeeds, fails for good, or has been tried often enough.
func retry(ctx context.Context, transaction func() error) error {
	for i := 1; ; i++ {
		err := transaction()
		if err == nil || !retryable(err) {
			return err
		}
		if i == attempts {
			return fmt.Errorf("gave up after %d attempts: %w", i, err)
		}
		if ended := pause(ctx, i); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// pause waits before a further attempt: at random, so that those who were in each other's way do not meet
// again, and the longer the more attempts there have been.
func pause(ctx context.Context, attempt int) error {
	longest := min(longestPause, time.Millisecond<<min(attempt, 10))
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// advised is what is wrong and what to do, and what the database said, if it said something.
type advised struct {
	do  string
	err error
}

func (a *advised) Error() string {
	if a.err == nil {
		return a.do
	}
	return a.do + ": " + a.err.Error()
}

// Unwrap returns the driver's error.
func (a *advised) Unwrap() error { return a.err }

// advise adds to an error what to do about it, if that is known.
func (s *Store) advise(err error) error {
	var already *advised
	if err == nil || errors.As(err, &already) {
		return err
	}
	if malformedName(err) {
		// Not even wrapped: a log may print what is inside.
		return &advised{malformedDSN, nil}
	}
	if do := remedy(err); do != "" {
		return &advised{s.say(do), err}
	}
	return err
}

// say fills in the placeholders of a text of [trouble].
func (s *Store) say(text string) string {
	flags := "-dialect " + s.dialect.Name
	if s.table != DefaultTable {
		flags += " -table " + s.table
	}
	return strings.NewReplacer("{table}", strconv.Quote(s.table), "{dialect}", s.dialect.Name, "{flags}", flags).Replace(text)
}

// trouble is what can be wrong with a deployment: what databases say of it, and what to do about it.
type trouble struct {
	// states are values of SQLSTATE, or their first two characters for all of a class.
	states []string
	// numbers are those of MySQL and MariaDB, and codes those of SQLite.
	numbers, codes []int
	// says is a part of what SQLite says with its code for everything else.
	says string
	// messages are parts of what poolers say with a state that says little: one of them must be there.
	messages []string
	// do says what to do. {table} stands for the table's name in quotes, {dialect} for that of the dialect,
	// and {flags} for the flags with which ratelimitgen sql prints the table.
	do string
}

var troubles = []trouble{
	{
		// undefined_table; ER_NO_SUCH_TABLE.
		states: []string{"42P01"}, numbers: []int{1146}, says: "no such table: ",
		do: noTable,
	}, {
		// invalid_schema_name.
		states: []string{"3F000"},
		do:     "there is no schema for table {table}: create it, for Migrate creates only the table",
	}, {
		// insufficient_privilege; ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR and
		// ER_COLUMNACCESS_DENIED_ERROR.
		states: []string{"42501"}, numbers: []int{1044, 1142, 1143},
		do: "the database user lacks a privilege: on table {table} it needs SELECT, INSERT, UPDATE and DELETE, " +
			"and to run Migrate also CREATE",
	}, {
		// read_only_sql_transaction; ER_OPTION_PREVENTS_STATEMENT, ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
		// and ER_READ_ONLY_MODE.
		states: []string{"25006"}, numbers: []int{1290, 1792, 1836},
		do: "the server, or the transaction, is read-only: to take tokens is to write, so connect to the " +
			"primary server, and not to a replica",
	}, {
		// ER_UNKNOWN_COM_ERROR, by which a Galera node refuses all statements while it is not in the primary component or has
		// not caught up; ER_SERVER_OFFLINE_MODE and ER_RUN_HOOK_ERROR, as of a MySQL group.
		numbers: []int{1047, 3032, 3100},
		do: "the server is not a working member of its cluster: it is joining, or has lost the majority of the nodes, so " +
			"connect to another node, and see the server's log if that lasts",
	}, {
		// ER_BEFORE_DML_VALIDATION_ERROR.
		numbers: []int{3098},
		do: "a MySQL group refuses the table or the session: give table {table} its primary key and the engine InnoDB, and " +
			"in a group with several primaries do not use the isolation SERIALIZABLE",
	}, {
		// ER_BINLOG_STMT_MODE_AND_ROW_ENGINE: at READ COMMITTED, InnoDB writes no statements to the binary log.
		numbers: []int{1665},
		do:      "the server writes statements to its binary log, which InnoDB refuses: set binlog_format=ROW or MIXED",
	}, {
		// ER_CANT_CHANGE_TX_CHARACTERISTICS.
		numbers: []int{txInProgress},
		do: "the connection is in a transaction that was not ended: roll back transactions whose commit has failed, and close " +
			"the connection if that fails too",
	}, {
		// ER_SERVER_SHUTDOWN and ER_NORMAL_SHUTDOWN.
		numbers: []int{1053, 1077},
		do:      "the server is shutting down: connect to another node, or wait until it is back",
	}, {
		// SQLITE_READONLY.
		codes: []int{8},
		do:    "the database file is read-only: to take tokens is to write, so grant the right to write it and its folder",
	}, {
		// feature_not_supported, which a replica says when a transaction is to be one that writes.
		states: []string{"0A000"},
		do: "the server does not support what the store asks for: if it is a read-only replica, connect to the " +
			"primary server",
	}, {
		// invalid_catalog_name; ER_BAD_DB_ERROR.
		states: []string{"3D000"}, numbers: []int{1049},
		do: "there is no such database: create it, or name another in the data source name",
	}, {
		// The class invalid authorization specification; ER_ACCESS_DENIED_ERROR and
		// ER_ACCESS_DENIED_NO_PASSWORD_ERROR.
		states: []string{"28"}, numbers: []int{1045, 1698},
		do: "the server refuses the database user: check user and password in the data source name, and whom " +
			"the server lets in from this host",
	}, {
		// invalid_sql_statement_name and duplicate_prepared_statement.
		states: misplacedStates,
		do:     noNames,
	}, {
		states: []string{"08P01"}, messages: []string{"bind message supplies", "prepared statement name is already in use"},
		do: noNames,
	}, {
		states: []string{"08P01"}, messages: []string{"not allowed in statement pooling mode"},
		do: noStatementMode,
	}, {
		states: []string{"08P01"}, messages: []string{"unsupported startup parameter"},
		do: "the pooler refuses a parameter of the connection: name it in PgBouncer's ignore_startup_parameters, as " +
			"extra_float_digits, which some releases of lib/pq send",
	}, {
		states: []string{"08P01"}, messages: []string{"query_wait_timeout"},
		do: "the pooler had no connection to the server in time: check that it reaches the server, and raise its pool_size " +
			"or bound the connections of each process with db.SetMaxOpenConns",
	}, {
		states: []string{"08P01"}, messages: []string{"no such database", "bouncer config error"},
		do: "the pooler does not know the database or its user: add it to PgBouncer's configuration",
	}, {
		states: []string{"08P01"}, messages: []string{"server login", "server_login_retry", "cannot connect to server", "server conn crashed"},
		do: "the pooler cannot reach the database server: check host, port and user in PgBouncer's [databases], and " +
			"that the server runs",
	}, {
		states: []string{"08P01"}, messages: []string{"no more connections allowed"},
		do: "the pooler takes no more connections: bound those of each process with db.SetMaxOpenConns, or raise " +
			"PgBouncer's max_client_conn",
	}, {
		// The class connection exception, and cannot_connect_now. Refused connections are not an error of
		// the database: see unreachable.
		states: []string{"08", "57P03"},
		do:     noServer,
	}, {
		// too_many_connections; ER_CON_COUNT_ERROR and ER_TOO_MANY_USER_CONNECTIONS.
		states: []string{"53300"}, numbers: []int{1040, 1203},
		do: "the server takes no more connections: bound those of each process with db.SetMaxOpenConns, or " +
			"allow more in the server",
	}, {
		// syntax_error, undefined_function and undefined_object; ER_PARSE_ERROR and ER_SP_DOES_NOT_EXIST.
		states: []string{"42601", "42883", "42704"}, numbers: []int{1064, 1305},
		do: "the database does not understand the dialect {dialect}: give sqlstore.New the one of the database",
	}, {
		// SQLITE_CANTOPEN.
		codes: []int{14},
		do:    "the database file cannot be opened: check its path, and the rights to its folder",
	}, {
		// SQLITE_FULL.
		codes: []int{13},
		do: "the volume of the database file is full: free some space on it, at least some MB for the log beside the " +
			"file, and end readers that keep a transaction open, because the log grows as long as they do",
	}, {
		// SQLITE_IOERR.
		codes: []int{10},
		do:    "the database file cannot be read or written: its volume may be full, gone, or failing",
	},
}

const (
	noNames = "statements that the driver prepares under names are not found again, as behind a pooler that sends each " +
		"transaction to another session of the server: set default_query_exec_mode=exec in pgx's data source name, or " +
		"pool_mode = session or, from PgBouncer 1.21 on, max_prepared_statements in the pooler"
	noStatementMode = "the pooler does not allow transactions: set PgBouncer's pool_mode to transaction or session"
	closedAtBegin   = "the server, or a pooler before it, closes connections when a transaction begins: if it is PgBouncer " +
		"with pool_mode = statement, set it to transaction or session"
)

const noServer = "the database server cannot be reached: check host and port in the data source name, and that the " +
	"server runs"

// malformedDSN is said instead of what the driver has, which may quote the password.
const malformedDSN = "the data source name cannot be parsed (the driver's message is left out, because it may quote the " +
	"password): percent-encode special characters in a URL, and quote values that have spaces in the key=value form"

// malformedName reports whether a driver could not parse the data source name. lib/pq does so when it connects, and
// quotes the whole of a URL, or what it takes for a keyword; pgx hides only what it takes for the password.
func malformedName(err error) bool {
	if stateOf(err) != "" {
		return false
	}
	quotes := func(part string) bool { return strings.Contains(err.Error(), part) }
	return errors.As(err, new(*url.Error)) ||
		slices.ContainsFunc([]string{"connection info string", "connection string", "cannot parse `", "pq: wrong value for "}, quotes)
}

// remedy says what to do about an error, or "" if that is not known.
func remedy(err error) string {
	var stated interface{ SQLState() string }
	var coded interface{ Code() int }
	matches := func(t trouble) bool { return slices.Contains(t.numbers, mysqlNumber(err)) }
	switch {
	case unreachable(err):
		return noServer
	case changedTable(err):
		return ""
	case errors.As(err, &stated):
		state := stated.SQLState()
		matches = func(t trouble) bool {
			return slices.ContainsFunc(t.states, func(s string) bool { return strings.HasPrefix(state, s) }) && t.isSaid(err)
		}
	case errors.As(err, &coded):
		matches = func(t trouble) bool { return t.isSQLite(coded.Code()&0xff, err.Error()) }
	}
	if i := slices.IndexFunc(troubles, matches); i >= 0 {
		return troubles[i].do
	}
	return ""
}

// isSaid reports whether an error has one of the messages, if there are any.
func (t trouble) isSaid(err error) bool {
	said := func(message string) bool { return strings.Contains(err.Error(), message) }
	return len(t.messages) == 0 || slices.ContainsFunc(t.messages, said)
}

// sqliteError is the code of SQLite for everything that has none of its own: SQLITE_ERROR.
const sqliteError = 1

// isSQLite reports whether the trouble is what SQLite tells with a code and a message.
func (t trouble) isSQLite(code int, message string) bool {
	return slices.Contains(t.codes, code) || code == sqliteError && t.says != "" && strings.Contains(message, t.says)
}

// unreachable reports whether there was no connection to be had.
func unreachable(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial" || errors.As(err, new(*net.DNSError))
}
