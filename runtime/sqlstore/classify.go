package sqlstore

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// What databases say when the same transaction may succeed if it is run again.
var (
	// serialization_failure, deadlock_detected and lock_not_available.
	retryableStates = []string{"40001", "40P01", "55P03"}
	// ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK and ER_CHECKREAD. A Galera node says the second when another
	// node was first, also at COMMIT.
	retryableNumbers = []int{1205, 1213, 1020}
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
	case errors.As(err, &again), errors.Is(err, errVanished):
		return true
	case errors.As(err, &stated):
		return slices.Contains(retryableStates, stated.SQLState())
	case errors.As(err, &coded):
		return slices.Contains(retryableCodes, coded.Code()&0xff)
	}
	return slices.Contains(retryableNumbers, mysqlNumber(err))
}

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
