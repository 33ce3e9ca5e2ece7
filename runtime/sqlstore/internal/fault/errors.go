// Package fault knows what the errors of databases mean: by the codes of their servers, because it imports no driver.
package fault

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// CodeOf returns the code of a driver's error. An error without a code has an empty table.
func CodeOf(err error) Code {
	// By the form of the error, because this package imports no driver.
	if state := stateOf(err); state != "" {
		return Code{&postgresErrors, state, false}
	}
	if number := sqliteCode(err); number != 0 {
		// The low byte is the code; the others refine it.
		return Code{&sqliteErrors, strconv.Itoa(number & 0xff), true}
	}
	if number := MySQLNumber(err); number != 0 {
		if text, ok := vitessText(err); ok {
			return Code{&vitessErrors, vitessCode(text, number), true}
		}
		return Code{&mysqlErrors, strconv.Itoa(number), true}
	}
	return Code{&errorTable{}, "", true}
}

// Retryable reports whether the transaction that failed with err did nothing, and may succeed if it is run again.
func Retryable(err error) bool {
	if errors.Is(err, ErrOutcomeUnknown) {
		return false // whatever it wraps
	}
	if errors.As(err, new(*Again)) || errors.Is(err, ErrVanished) || errors.Is(err, ErrTxEnded) {
		return true
	}
	c := CodeOf(err)
	return c.In(c.Table.retry) || deadlockDuringCommit(err)
}

// NoTx reports whether a statement failed because no transaction is open.
func NoTx(err error) bool {
	c := CodeOf(err)
	return c.In(c.Table.noTx.codes) && c.Table.noTx.matches(err)
}

// InTx reports whether a statement failed because a transaction is open.
func InTx(err error) bool {
	c := CodeOf(err)
	return c.In(c.Table.inTx.codes) && c.Table.inTx.matches(err)
}

// LockTimeout reports whether a statement did nothing because it has waited too long, for a lock of another transaction or,
// on MySQL and MariaDB, for anything.
func LockTimeout(err error) bool {
	c := CodeOf(err)
	return c.In(c.Table.locked)
}

// RefusedValue reports whether a statement failed because of a value in it.
func RefusedValue(err error) bool {
	c := CodeOf(err)
	return c.In(c.Table.refused)
}

// Outdated reports whether a query did not run because its prepared statement is missing from the session, belongs to
// another client, or returned other columns when it was prepared.
func Outdated(err error) bool {
	return changedResult(err) || slices.Contains(misplacedStatement, stateOf(err))
}

// Lost reports whether a connection was lost, and not given up because it did not respond in time.
func Lost(err error) bool {
	var failed net.Error
	if errors.As(err, &failed) {
		// After a timeout the server may still be executing the statement.
		return !failed.Timeout()
	}
	c := CodeOf(err)
	return c.In(c.Table.lost) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		slices.Contains(sessionEnded, stateOf(err))
}

// Undone reports whether a write that failed with err has certainly written nothing.
func Undone(err error) bool {
	return !errors.Is(err, ErrOutcomeUnknown) &&
		(Retryable(err) || LockTimeout(err) || Outdated(err) || RefusedValue(err) || unreachable(err))
}

// ErrOutcomeUnknown is sqlstore.ErrOutcomeUnknown, where it is documented.
var ErrOutcomeUnknown = errors.New("the transaction may have been committed")

// unknownOutcome is an [ErrOutcomeUnknown] because of another error. It wraps only that, because the number of a MySQL error
// is looked for along one chain.
type unknownOutcome struct{ err error }

func (e *unknownOutcome) Error() string        { return ErrOutcomeUnknown.Error() + ": " + e.err.Error() }
func (e *unknownOutcome) Unwrap() error        { return e.err }
func (e *unknownOutcome) Is(target error) bool { return target == ErrOutcomeUnknown }

// OutcomeUnknown returns an [ErrOutcomeUnknown] because of err.
func OutcomeUnknown(err error) error { return &unknownOutcome{err} }

// OfCommit returns the error of a COMMIT that has failed with err: an [ErrOutcomeUnknown] unless the server has refused it,
// or it was not sent.
func OfCommit(err error) error {
	if err == nil || Undone(err) || errors.Is(err, sql.ErrTxDone) || CodeOf(err).Text != "" && !Lost(err) {
		return err
	}
	return OutcomeUnknown(err)
}

// NoTwoPhase reports whether a vtgate has refused to commit over several shards, so that nothing is committed.
func NoTwoPhase(err error) bool { return CodeOf(err).In([]string{vitessTwoPhase}) }

// unreachable reports whether no connection could be opened.
func unreachable(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial" || errors.As(err, new(*net.DNSError))
}

// ErrTxEnded means that the server has ended the transaction.
var ErrTxEnded = errors.New("the transaction is no longer open: another node of the cluster has aborted it, or it was committed or never begun")

// ErrVanished means that a row was gone again each time after it had been inserted.
var ErrVanished = errors.New("a row that was inserted is missing")

// Again is an error after which nothing was done, so that the transaction can be run again.
type Again struct{ Err error }

// Error returns the text of Err.
func (e *Again) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Again) Unwrap() error { return e.Err }

// HintFor returns the hint for an error without its placeholders filled in, or "".
func HintFor(err error) string {
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
		return ClosedDatabase
	}
	c := CodeOf(err)
	// In order: the hint of a class of SQLSTATEs comes after those of its members.
	for _, h := range c.Table.hints {
		if c.In(h.codes) && h.matches(err) {
			return h.hint
		}
	}
	return ""
}

// databaseClosed is the error of a closed [sql.DB], which package database/sql does not export.
const databaseClosed = "sql: database is closed"

// MalformedDSNHint replaces the driver's message, which may quote the password.
const MalformedDSNHint = "the data source name cannot be parsed (the driver's message is left out, because it may quote the " +
	"password): percent-encode special characters in a URL, and quote values that have spaces in the key=value form"

// MalformedDSN reports whether a driver could not parse the data source name. lib/pq parses it when it connects, and
// quotes the whole of a URL or of a malformed keyword; pgx hides only the part that it recognizes as the password.
func MalformedDSN(err error) bool {
	if stateOf(err) != "" {
		// An error of the server, whose text may contain the same words.
		return false
	}
	quotes := func(part string) bool { return strings.Contains(err.Error(), part) }
	return errors.As(err, new(*url.Error)) ||
		slices.ContainsFunc([]string{"connection info string", "connection string", "cannot parse `", "pq: wrong value for "}, quotes)
}

// OfServer reports whether an error is that of a statement which the server has refused, for a reason that has no hint.
func OfServer(err error) bool { return CodeOf(err).Text != "" && HintFor(err) == "" }

// SeveralShards reports whether a statement, and with it the transaction, was undone because it would write to several
// shards.
func SeveralShards(err error) bool { return CodeOf(err).Text == vitessShards }

// NoTable reports whether a statement failed because its table does not exist.
func NoTable(err error) bool { return strings.HasPrefix(HintFor(err), MissingTable) }

// NoPrivilege reports whether a statement failed because the database user lacks a privilege.
func NoPrivilege(err error) bool { return HintFor(err) == LackingPrivilege }
