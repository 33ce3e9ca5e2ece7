package runtime

import (
	"errors"
	"fmt"
	"slices"
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
	// ErrInvalidPlan: the plan is the zero Plan, or limits.yaml does not have it. No request of such a plan is allowed.
	ErrInvalidPlan = errors.New("invalid plan")
	// ErrInvalidNumbers: a caller gives a limit numbers that [Policy.AtMost] does not allow, or none. The store is not
	// reached.
	ErrInvalidNumbers = errors.New("invalid numbers")
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
	// ErrNoTx: the store cannot keep the counts inside a transaction of its caller, or what the caller has passed is no
	// transaction: a pool, such as an [sql.DB], or an [sql.Conn] on which none was begun.
	ErrNoTx = errors.New("the store does not support transactions")
	// ErrNoErase: the store is not an [Eraser].
	ErrNoErase = errors.New("the store cannot erase keys")
	// ErrNilTx: the transaction of the caller is nil.
	ErrNilTx = errors.New("the transaction is nil")
	// ErrRolledBack: the tokens were taken in a transaction that was rolled back, so that there is nothing to settle.
	ErrRolledBack = errors.New("the transaction was rolled back")
	// ErrSlotLost: the slot is no longer held. It was released, or its hold has ended before it was renewed, so that
	// another holder may have it, or the key was reset. Nothing was changed.
	ErrSlotLost = errors.New("the slot is lost: it was released, or its hold has ended")
	// ErrNotReserved: the reservation was denied, or has been settled or cancelled already.
	ErrNotReserved = errors.New("the reservation was denied, or is already settled or cancelled")
)

// Origin says who can prevent an error of a limit, so that middleware can choose the response.
type Origin uint8

const (
	// OriginStore is the store, the network or the end of a context: the same request may pass later.
	OriginStore Origin = iota
	// OriginRequest is whoever sent the request: it asks for more than the limit allows at once, or has an empty key.
	OriginRequest
	// OriginProgram is the program: a mistake that every request would meet.
	OriginProgram
)

// OriginOf returns the origin of an error that is no denial.
func OriginOf(err error) Origin {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case slices.ContainsFunc(ofRequests, is):
		return OriginRequest
	case slices.ContainsFunc(ofPrograms, is):
		return OriginProgram
	}
	return OriginStore
}

var (
	ofRequests = []error{ErrExceedsCapacity, ErrInvalidCount, ErrEmptyKey}
	ofPrograms = []error{ErrInvalidKey, ErrInvalidPlan, ErrInvalidNumbers, ErrInvalidPolicy, ErrInvalidCall, ErrNoStore, ErrNoTx, ErrNilTx, ErrNoErase}
)
