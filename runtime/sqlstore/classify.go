package sqlstore

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
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
