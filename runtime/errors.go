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
	// ErrInvalidPlan: the plan is the zero Plan, or limits.yaml does not have it. No request of such a plan is allowed.
	ErrInvalidPlan = errors.New("invalid plan")
	// ErrInvalidPriority: the priority is the zero value, or limits.yaml does not have it. No request of it is allowed.
	ErrInvalidPriority = errors.New("invalid priority")
	// ErrInvalidNumbers: a caller gives a limit numbers that [Policy.AtMost] does not allow. The store is not
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
	// ErrClosed: the store was closed. Close it after the last request, such as after the Shutdown of an HTTP server.
	ErrClosed = errors.New("the store is closed")
	// ErrNoTx: the store cannot keep the counts inside a transaction of its caller, or not inside this one, such as one of
	// another store, or none was begun on the [sql.Conn].
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

	// ErrInvalidOverride: an override lacks an end, a reason or an author, or exceeds what the limit declares as the most.
	ErrInvalidOverride = errors.New("invalid override")
	// ErrNoOverride: there is nothing to end, because neither an override nor a block of the key is in force.
	ErrNoOverride = errors.New("no override is in force")
	// ErrUnknownOverride: the override in force was written by another version, and this one does not understand it.
	ErrUnknownOverride = errors.New("unknown override")
	// ErrOverridesUnread: this process has not yet read the overrides, so that it does not know whether the key is
	// blocked.
	ErrOverridesUnread = errors.New("the overrides have not been read yet")
	// ErrUnusedOverrides: blocks or overrides are in force for a limit that the program does not have.
	ErrUnusedOverrides = errors.New("they have no effect")
	// ErrOverrideInForce: the key cannot be erased, because a block or an override of it is in force, which would be
	// lifted.
	ErrOverrideInForce = errors.New("a block or an override of the key is in force: end it first, which lifts it, or erase the key when it has ended")
	// ErrNoOverrides: the store cannot keep overrides.
	ErrNoOverrides = errors.New("the store does not support overrides")
	// ErrOverridesInTx: the log is not part of a transaction of the caller.
	ErrOverridesInTx = fmt.Errorf("%w: overrides cannot be written or read in a transaction of the caller: use the limits without WithTx", ErrInvalidOverride)
	// ErrForeignCounts: the stored counts of a limit's name belong to another limit; see [RegistrationError].
	ErrForeignCounts = errors.New("the stored counts are not those of this limit")
	// ErrInUse: a limit cannot be forgotten, because one of the given policies has its name.
	ErrInUse = errors.New("the limit is in use")
)

// Origin is the class of an error, by who can prevent it. All packages that act on errors use this one: OnError, the
// outcomes of observations, and the statuses of limithttp and limitgrpc.
type Origin uint8

const (
	// OriginStore: the store has failed, or a context has ended. The same request may pass later, and the [OnError] of the
	// limits applies. A deployment that is not complete yet, as without the table of a store, is such a failure too: it
	// can be mended while the program runs.
	OriginStore Origin = iota
	// OriginRequest: the sender of the request can prevent it, who asks for more than the limit allows at once, for
	// example, or has an empty key.
	OriginRequest
	// OriginProgram: a mistake of the program, which each such request meets until the program is changed. No request is
	// allowed, whatever the OnError of the limits.
	OriginProgram
)

// OriginOf returns the origin of an error that is no denial. If err is or wraps an error with the method
// Origin() Origin, that decides, and otherwise the error of this package that err wraps. Any other error has
// OriginStore.
func OriginOf(err error) Origin {
	if own, ok := errors.AsType[interface {
		error
		Origin() Origin
	}](err); ok {
		return own.Origin()
	}
	for _, o := range origins {
		if errors.Is(err, o.err) {
			return o.origin
		}
	}
	return OriginStore
}

// origins has the origin of each error of this package; of those that an error wraps, the first counts. [ErrLimited] is
// missing because it is a denial.
var origins = [...]struct {
	err    error
	origin Origin
}{
	// Before the errors that they wrap.
	{ErrEmptyKey, OriginRequest},
	{ErrOverridesInTx, OriginProgram},

	{ErrExceedsCapacity, OriginRequest},
	{ErrInvalidCount, OriginRequest},
	{ErrInvalidOverride, OriginRequest},
	{ErrNoOverride, OriginRequest},
	{ErrOverrideInForce, OriginRequest},

	{ErrInvalidPolicy, OriginProgram},
	{ErrInvalidPlan, OriginProgram},
	{ErrInvalidPriority, OriginProgram},
	{ErrInvalidNumbers, OriginProgram},
	{ErrInvalidKey, OriginProgram},
	{ErrInvalidCall, OriginProgram},
	{ErrNoStore, OriginProgram},
	{ErrClosed, OriginProgram},
	{ErrNoTx, OriginProgram},
	{ErrNilTx, OriginProgram},
	{ErrRolledBack, OriginProgram},
	{ErrNotReserved, OriginProgram},
	{ErrNoErase, OriginProgram},
	{ErrNoOverrides, OriginProgram},
	{ErrUnknownOverride, OriginProgram},
	{ErrUnusedOverrides, OriginProgram},
	{ErrForeignCounts, OriginProgram},
	{ErrInUse, OriginProgram},

	// Last, because they wrap or accompany the reason.
	{ErrOverridesUnread, OriginStore},
	{ErrSlotLost, OriginStore},
}

// ShardsError is the error of a call whose keys lie on several shards of a database, which cannot take from them all or
// none. It wraps [ErrInvalidCall], and nothing was changed.
type ShardsError struct {
	// Limits are two limits of the call, and Shards the names of the shards on which their keys lie.
	Limits, Shards [2]string
}

// Error returns the limits, the shards and the remedy.
func (e *ShardsError) Error() string {
	return fmt.Sprintf("%v: the keys of the limits %q and %q lie on the shards %s and %s of the database, and a call takes from one shard: give the "+
		"limits of a call keys that begin with the same part, make a call for each, keep the counts in a keyspace that is not sharded, or, outside of a "+
		"transaction, set Options.TwoPhase",
		ErrInvalidCall, e.Limits[0], e.Limits[1], e.Shards[0], e.Shards[1])
}

// Unwrap returns [ErrInvalidCall].
func (e *ShardsError) Unwrap() error { return ErrInvalidCall }
