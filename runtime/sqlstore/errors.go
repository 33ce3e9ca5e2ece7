package sqlstore

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// codeOf returns the code of a driver's error. An error without a code has an empty table.
func codeOf(err error) code {
	var withState interface{ SQLState() string }
	var withCode interface{ Code() int }
	// By the form of the error, because this package imports no driver.
	switch {
	case errors.As(err, &withState):
		return code{&postgresErrors, withState.SQLState(), false}
	case errors.As(err, &withCode):
		// The low byte is the code; the others refine it.
		return code{&sqliteErrors, strconv.Itoa(withCode.Code() & 0xff), true}
	}
	if number := mysqlNumber(err); number != 0 {
		return code{&mysqlErrors, strconv.Itoa(number), true}
	}
	return code{&errorTable{}, "", true}
}

// retryable reports whether the transaction that failed with err did nothing, and may succeed if it is run again.
func retryable(err error) bool {
	if errors.As(err, new(*RetryTxError)) || errors.Is(err, errVanished) || errors.Is(err, errTxEnded) {
		return true
	}
	c := codeOf(err)
	return c.in(c.table.retry) || deadlockDuringCommit(err)
}

// refusedValue reports whether a statement failed because of a value in it.
func refusedValue(err error) bool {
	c := codeOf(err)
	return c.in(c.table.refused)
}

// outdated reports whether a query did not run because its prepared statement is missing from the session, belongs to
// another client, or returned other columns when it was prepared.
func outdated(err error) bool {
	return changedResult(err) || slices.Contains(misplacedStatement, stateOf(err))
}

// lost reports whether a connection was lost, and not given up because it did not respond in time.
func lost(err error) bool {
	var failed net.Error
	if errors.As(err, &failed) {
		// After a timeout the server may still be executing the statement.
		return !failed.Timeout()
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		slices.Contains(sessionEnded, stateOf(err))
}

// unreachable reports whether no connection could be opened.
func unreachable(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial" || errors.As(err, new(*net.DNSError))
}

// errTxEnded means that the server has ended the transaction.
var errTxEnded = errors.New("the transaction is no longer open: another node of the cluster has aborted it, or it was committed or never begun")

// errVanished means that a row was gone again each time after it had been inserted.
var errVanished = errors.New("a row that was inserted is missing")

// RetryTxError means that the caller's transaction has conflicted with another one (deadlock, serialization failure) and
// cannot continue: roll it back and run it again from its beginning, which may succeed. [RunInTx] does so.
type RetryTxError struct {
	// Err is the database's error.
	Err error
}

// Error returns the remedy and the database's error.
func (e *RetryTxError) Error() string {
	return fmt.Sprintf("run your transaction again: %v", e.Err)
}

// Unwrap returns the database's error.
func (e *RetryTxError) Unwrap() error { return e.Err }

// hintFor returns the hint for an error without its placeholders filled in, or "".
func hintFor(err error) string {
	switch {
	case err == nil:
		return ""
	case unreachable(err):
		return unreachableServer
	case changedResult(err):
		return "" // the driver prepares the statement again
	case errors.Is(err, sql.ErrTxDone):
		return endedTx
	case errors.Is(err, sql.ErrConnDone):
		return closedConn
	case strings.HasSuffix(err.Error(), databaseClosed):
		return closedDatabase
	}
	c := codeOf(err)
	// In order: the hint of a class of SQLSTATEs comes after those of its members.
	for _, h := range c.table.hints {
		if c.in(h.codes) && h.matches(err) {
			return h.hint
		}
	}
	return ""
}

// databaseClosed is the error of a closed [sql.DB], which package database/sql does not export.
const databaseClosed = "sql: database is closed"

// malformedDSNHint replaces the driver's message, which may quote the password.
const malformedDSNHint = "the data source name cannot be parsed (the driver's message is left out, because it may quote the " +
	"password): percent-encode special characters in a URL, and quote values that have spaces in the key=value form"

// malformedDSN reports whether a driver could not parse the data source name. lib/pq parses it when it connects, and
// quotes the whole of a URL or of a malformed keyword; pgx hides only the part that it recognizes as the password.
func malformedDSN(err error) bool {
	if stateOf(err) != "" {
		// An error of the server, whose text may contain the same words.
		return false
	}
	quotes := func(part string) bool { return strings.Contains(err.Error(), part) }
	return errors.As(err, new(*url.Error)) ||
		slices.ContainsFunc([]string{"connection info string", "connection string", "cannot parse `", "pq: wrong value for "}, quotes)
}
