package runtime

import (
	"errors"
	"fmt"
)

// Errors mean that a request could not be executed. A denial is not an error but a [Decision]; only Require and Wait
// return it as a [*LimitedError].
var (
	// ErrLimited is the error that every [*LimitedError] wraps.
	ErrLimited = errors.New("rate limited")
	// ErrExceedsCapacity: the count can never pass, however long the caller waits.
	ErrExceedsCapacity = errors.New("count exceeds capacity")
	// ErrInvalidCount: the count is negative.
	ErrInvalidCount = errors.New("invalid count")
	// ErrInvalidPolicy: the policy breaks a rule of [Policy].
	ErrInvalidPolicy = errors.New("invalid policy")
	// ErrInvalidKey: a part of the key could not be converted to text, or the key lacks the time zone or the anniversary
	// that the limit's Calendar needs.
	ErrInvalidKey = errors.New("invalid key")
	// ErrEmptyKey is an ErrInvalidKey: all parts of the key are empty.
	ErrEmptyKey = fmt.Errorf("%w: it is empty, so that all callers without a value would share one count", ErrInvalidKey)
	// ErrInvalidCall: the requests cannot be in one call, because there are none, or they belong to different limiters, or
	// one of them neither takes nor checks tokens.
	ErrInvalidCall = errors.New("invalid call")
	// ErrNoStore: the limiter was made without a store.
	ErrNoStore = errors.New("the limits have no store: pass one to the New of the generated package, or of package limiter")
	// ErrNoTx: the store cannot keep the counts inside a transaction of its caller.
	ErrNoTx = errors.New("the store does not support transactions")
	// ErrNilTx: the transaction of the caller is nil.
	ErrNilTx = errors.New("the transaction is nil")
	// ErrRolledBack: the tokens were taken in a transaction that was rolled back, so that there is nothing to settle.
	ErrRolledBack = errors.New("the transaction was rolled back")
	// ErrNotReserved: the reservation was denied, or has been settled or cancelled already.
	ErrNotReserved = errors.New("the reservation was denied, or is already settled or cancelled")
)
