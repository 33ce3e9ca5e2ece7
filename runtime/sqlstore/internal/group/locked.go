package group

import (
	"errors"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// LockedError is the error of a backend that has not answered some calls, because other transactions have locked rows of
// theirs. It has done nothing for these calls.
type LockedError struct {
	// Rows are those that are locked, as far as they are known.
	Rows []runtime.Row
	// Err is the error of the database.
	Err error
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("other transactions have locked rows of the calls: %v", e.Err)
}

// Unwrap returns the error of the database.
func (e *LockedError) Unwrap() error { return e.Err }

// lockedErrorOf returns the LockedError in err, or nil.
func lockedErrorOf(err error) *LockedError {
	locked := new(LockedError)
	if errors.As(err, &locked) {
		return locked
	}
	return nil
}

// rowOf returns the first of the locked rows that calls are about, or their first row if it is not known.
func (e *LockedError) rowOf(calls []runtime.Call) runtime.Row {
	first := runtime.Row{}
	for _, c := range calls {
		for i := range c.Requests {
			row := rowOf(&c.Requests[i])
			if first == (runtime.Row{}) {
				first = row
			}
			for _, locked := range e.Rows {
				if locked.Name == row.Name && locked.Key == row.Key {
					return row
				}
			}
		}
	}
	return first
}

// rowOf returns the first row of a request's key.
func rowOf(r *runtime.Request) runtime.Row {
	if r.Policy == nil {
		return runtime.Row{Key: r.Key}
	}
	return runtime.Row{Name: r.Policy.Name, Key: r.Key}
}

// RowError is the error of a call that has waited for a row which another transaction has locked.
type RowError struct {
	// Limit is the name of the row's limit.
	Limit string
	// Holder describes the transaction, or is empty if the database does not say.
	Holder string
	Err    error
}

func (e *RowError) Error() string {
	by := ""
	if e.Holder != "" {
		by = " (" + e.Holder + ")"
	}
	return fmt.Sprintf("another transaction%s has locked the row of limit %q and this key: %v", by, e.Limit, e.Err)
}

// Unwrap returns the error without the limit.
func (e *RowError) Unwrap() error { return e.Err }
