package sqlstore

import (
	"context"
	"database/sql"
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

// errorTable is the meaning of a database's error codes. There is one for each form of errors that codeOf distinguishes,
// in the file of a dialect.
type errorTable struct {
	// retry are the codes after which the same transaction may succeed if it is run again.
	retry []string
	// refused are the prefixes of codes for a statement that failed because of a value in it, such as a key that a
	// constraint refuses; the same statement with other values may succeed.
	refused []string
	// foreign are the codes with which the database rejects a query of another one's system tables, settings or functions.
	foreign []string
	// hints are in the order in which they are tried.
	hints []errorHint
}

// errorHint is the remedy for an error that is caused by the deployment.
type errorHint struct {
	// codes are codes of the database, or the first two characters of SQLSTATEs for a class.
	codes []string
	// messages distinguish errors that share a code: the error contains one of them, if there are any.
	messages []string
	// hint says how to fix it. See fillIn for the placeholders.
	hint string
}

// code is an error code of a database, as a text, and the table that it belongs to.
type code struct {
	table *errorTable
	text  string
	// exact means that a code in a table must equal the text; otherwise it may be a prefix of the text.
	exact bool
}

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

// in reports whether the code is in a list.
func (c code) in(list []string) bool {
	return slices.ContainsFunc(list, func(listed string) bool {
		return c.text == listed || !c.exact && c.text != "" && strings.HasPrefix(c.text, listed)
	})
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

// stateOf returns the SQLSTATE of a driver's error, or "".
func stateOf(err error) string {
	var withState interface{ SQLState() string }
	if errors.As(err, &withState) {
		return withState.SQLState()
	}
	return ""
}

// mysqlNumber returns the number in "Error 1213 (40001): Deadlock found ...", or 0 if err does not have this form.
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

// unbegunError is why a transaction, or a statement outside of one, has not begun: the connection was lost, often because the server has closed it
// while it was idle. Package database/sql then tries another connection, but not for a statement on an [sql.Conn].
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

// unsent returns the error of the first statement on a connection as an [unbegunError] if it was not sent.
func unsent(err error) error {
	if errors.Is(err, driver.ErrBadConn) {
		return &unbegunError{err}
	}
	return err
}

// reconnecting runs fn, which uses one connection of db, and again on other connections if that was lost before fn did
// anything.
func reconnecting(ctx context.Context, db *sql.DB, fn func() error) error {
	// Each try uses up one connection of the pool that the server has closed.
	for tries := db.Stats().OpenConnections + 1; ; tries-- {
		err := fn()
		if tries == 0 || ctx.Err() != nil || !errors.As(err, new(*unbegunError)) {
			return err
		}
	}
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

const (
	// maxAttempts is how often a transaction is tried.
	maxAttempts = 100
	// maxPause is the longest pause between two attempts.
	maxPause = 100 * time.Millisecond
)

// retrier counts the attempts of a transaction. It is not a function with a callback, so that its caller can be read
// in a stack trace.
type retrier struct{ attempts int }

// again reports whether to run a transaction again that has failed with err, after a pause. Otherwise it sets err to the
// error to return.
func (r *retrier) again(ctx context.Context, err *error) bool {
	if *err == nil || !retryable(*err) {
		return false
	}
	r.attempts++
	if r.attempts == maxAttempts {
		*err = fmt.Errorf("gave up after %d attempts: %w", r.attempts, *err)
		return false
	}
	if ended := pause(ctx, r.attempts); ended != nil {
		*err = fmt.Errorf("%w: %w", ended, *err)
		return false
	}
	return true
}

// retry runs a transaction until it succeeds, fails with another error than a conflict, or has been tried
// [maxAttempts] times.
func retry(ctx context.Context, transaction func() error) error {
	for r := (retrier{}); ; {
		err := transaction()
		if !r.again(ctx, &err) {
			return err
		}
	}
}

// pause waits before another attempt: longer after each attempt, and at random, so that transactions that have conflicted
// do not do so again.
func pause(ctx context.Context, attempt int) error {
	// 1 ms << 10 is more than maxPause already, and a larger shift would overflow.
	return sleep(ctx, rand.N(min(maxPause, time.Millisecond<<min(attempt, 10))))
}

// sleep waits, and returns the error of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hintedError is a hint and the error of the database, if there is one.
type hintedError struct {
	hint string
	err  error
}

func (e *hintedError) Error() string {
	if e.err == nil {
		return e.hint
	}
	return e.hint + ": " + e.err.Error()
}

// Unwrap returns the driver's error.
func (e *hintedError) Unwrap() error { return e.err }

// withHint adds the hint for an error, if there is one.
func (s *Store) withHint(err error) error {
	if err == nil || errors.As(err, new(*hintedError)) {
		return err
	}
	if malformedDSN(err) {
		// Not even wrapped, because a log may print the wrapped error.
		return &hintedError{malformedDSNHint, nil}
	}
	if hint := hintFor(err); hint != "" {
		return &hintedError{s.fillIn(hint), err}
	}
	return err
}

// fillIn fills in the placeholders of a hint: {table} is the table's name in quotes, {dialect} the dialect's name, and
// {flags} the flags with which ratelimitgen sql prints the table.
func (s *Store) fillIn(hint string) string {
	flags := "-dialect " + s.dialect.Name
	if s.table != DefaultTable {
		flags += " -table " + s.table
	}
	return strings.NewReplacer("{table}", strconv.Quote(s.table), "{dialect}", s.dialect.Name, "{flags}", flags).Replace(hint)
}

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

// explainServer adds the hint for an error of a statement that is about the server and not about the table. Without it, a
// system table that another database lacks would look like the missing table.
func (s *Store) explainServer(err error) error {
	if c := codeOf(err); c.in(c.table.foreign) {
		return &hintedError{s.fillIn(wrongDialect), err}
	}
	return err
}

// explainWait adds a hint to the error of a call that had no answer in time, if it may have waited for its own caller.
func (s *Store) explainWait(err error) error {
	if pool := s.db.Stats(); s.upserter == nil && pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections {
		return &hintedError{fmt.Sprintf("all %d connections of the *sql.DB are in use: in a transaction, make calls with WithTx(tx), "+
			"or raise db.SetMaxOpenConns", pool.MaxOpenConnections), err}
	}
	if age := oldestRunInTx(s.db); age >= time.Second && s.circuit.silence() == 0 {
		return &hintedError{fmt.Sprintf("a transaction of RunInTx has been in flight for %v: if it waits for this call, make the call "+
			"with WithTx(tx)", age.Round(100*time.Millisecond)), err}
	}
	return err
}

// matches reports whether an error contains one of the messages, if there are any.
func (h errorHint) matches(err error) bool {
	contains := func(message string) bool { return strings.Contains(err.Error(), message) }
	return len(h.messages) == 0 || slices.ContainsFunc(h.messages, contains)
}

// Hints that several databases share.
const (
	lackingPrivilege = "the database user lacks a privilege: on table {table} it needs SELECT, INSERT, UPDATE and DELETE, " +
		"and to run Migrate also CREATE"
	readOnlyServer = "the server, or the transaction, is read-only: taking tokens writes to the table, so connect to the " +
		"primary server, and not to a replica"
	missingDatabase = "the database does not exist: create it, or name another in the data source name"
	refusedUser     = "the server refuses the database user: check user and password in the data source name, and which " +
		"users the server accepts from this host"
	tooManyConnections = "the server accepts no more connections: limit those of each process with db.SetMaxOpenConns, or " +
		"allow more in the server"
	wrongDialect      = "the database rejects the SQL of dialect {dialect}: pass the database's own dialect to sqlstore.New"
	endedTx           = "the transaction has ended: it was committed or rolled back, or its context has ended"
	closedConn        = "the connection was closed, or returned to its pool"
	closedDatabase    = "the *sql.DB was closed: close the store before it, and make no calls afterwards"
	unreachableServer = "the database server cannot be reached: check host and port in the data source name, and that the " +
		"server runs"
)

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
