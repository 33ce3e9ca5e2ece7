package runtime

import (
	"errors"
	"fmt"
)

// Errors say that a question could not be asked, or not be answered. A denial is not an error but a
// [Decision], except from Require, which makes it a [*LimitedError].
var (
	// ErrLimited is what every [*LimitedError] wraps.
	ErrLimited = errors.New("rate limited")
	// ErrExceedsCapacity: the count can never fit, however long the caller waits.
	ErrExceedsCapacity = errors.New("count exceeds capacity")
	// ErrInvalidCount: the count is zero or negative.
	ErrInvalidCount = errors.New("invalid count")
	// ErrInvalidPolicy: the policy breaks a rule of [Policy].
	ErrInvalidPolicy = errors.New("invalid policy")
	// ErrInvalidKey: a part of the key could not be written as text.
	ErrInvalidKey = errors.New("invalid key")
	// ErrInvalidCall: the limits cannot be asked together, because there are none, or they are not of one
	// limiter, or not all of them are to be taken from.
	ErrInvalidCall = errors.New("invalid call")
	// ErrNoStore: the limiter was made without a store.
	ErrNoStore = errors.New("no store")
	// ErrNoTx: the store cannot keep count inside a transaction of its caller.
	ErrNoTx = errors.New("the store knows no transactions")
	// ErrNilTx: the transaction of the caller is nil.
	ErrNilTx = errors.New("there is no transaction")
	// ErrNotReserved: the reservation was refused, or has been settled or cancelled already.
	ErrNotReserved = errors.New("nothing is reserved")
)

// LimitedError is a denial as an error. It names the limit but never the key, which may be personal.
type LimitedError struct {
	Decision
}

// Error says which limit was met and when to retry.
func (e *LimitedError) Error() string {
	return fmt.Sprintf("limit %q: %v, retry after %v", e.Limit, ErrLimited, rough(e.RetryAfter))
}

// Unwrap returns [ErrLimited].
func (e *LimitedError) Unwrap() error { return ErrLimited }
