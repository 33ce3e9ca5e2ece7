package runtime

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Store keeps the counts. Its contract is the package storetest: what passes there is a Store.
//
// A Store may be used by many goroutines at once.
type Store interface {
	// Do answers calls, one answer a call, as if one after the other in their order, and those about one key at one
	// instant. A call whose requests cannot all pass takes nothing, and does not stand in the way of
	// the calls after it. The calls must not be changed any more, even after an error: the store may still be at
	// them.
	//
	// An error means that not every call was answered. Those that were have their answers nevertheless, the
	// others have a zero [Answer]; if there are no answers, none was. What was not answered has taken nothing,
	// unless ctx ended or the connection to the store was lost while it was taking.
	Do(ctx context.Context, calls []Call) ([]Answer, error)
}

// Call is a set of requests of which all pass or none does. If there are several, each must be a Take;
// those for one key add up.
type Call struct {
	Requests []Request
}

// Request is an operation on one key of one limit.
type Request struct {
	// Policy is the limit. It must be valid.
	Policy *Policy
	// Key is the key as it is stored; see [Key.String].
	Key string
	// Op is the operation.
	Op Op
	// Count is how many tokens are taken, checked or given back.
	Count int64
	// Reserve lets Take and Check go into debt, up to the policy's MaxReserved.
	Reserve bool
	// MaxDelay refuses a reservation whose tokens are due later than that from now; 0 means no bound.
	// RetryAfter is then the time until it passes without any delay. A count beyond the capacity never does: then
	// RetryAfter is the delay, and the retry may be refused too.
	MaxDelay time.Duration
	// TakenAt is when the tokens of a Refund were taken, in nanoseconds since 1970 UTC. Tokens that the key would have
	// lost since, if it had been full and they had not been taken, are not given back: all tokens of a window that has
	// ended, and as many tokens of a bucket as have accrued. 0 means that they were taken now.
	TakenAt int64
	// Missing is how many tokens the key was short of its capacity right after those of a Refund were taken, or 0 if that
	// is unknown. A key loses no tokens until that many have accrued, so the refund is what the key would have
	// more by now if they had never been taken. It is too large by at most the tokens that others have given back meanwhile.
	// A sliding window ignores it.
	Missing float64
}

// Validate returns nil for a request that rows can stand for, and otherwise [ErrInvalidKey] or
// [ErrInvalidPolicy].
func (q Request) Validate() error {
	if len(q.Key) > MaxKey || !legible(q.Key) {
		return fmt.Errorf("%w: it is not one that Key.String has written", ErrInvalidKey)
	}
	return q.Policy.Validate()
}

// Answer answers a [Call].
type Answer struct {
	// Decisions holds one decision a request. If any of them denies, nothing was taken.
	Decisions []Decision
	// Err says why the call could not be answered: [ErrInvalidCount], [ErrExceedsCapacity],
	// [ErrInvalidPolicy], [ErrInvalidKey] or [ErrInvalidCall]. Nothing was taken then.
	Err error
	// At is the instant as of which the call was answered, in nanoseconds since 1970 UTC.
	At int64
}

// Given reports whether there is an answer.
func (a Answer) Given() bool { return len(a.Decisions) > 0 || a.Err != nil }

// Allowed reports whether every request of the call passed.
func (a Answer) Allowed() bool {
	for _, d := range a.Decisions {
		if !d.Allowed {
			return false
		}
	}
	return a.Err == nil && len(a.Decisions) > 0
}

// Row names a stored [State].
type Row struct {
	// Name is that of the policy.
	Name string
	// Key is as stored.
	Key string
	// Shard counts from 0.
	Shard int
}

// Compare orders rows by name, key and shard: the order in which every store locks them, so that no two
// transactions wait for each other.
func (r Row) Compare(o Row) int {
	if c := strings.Compare(r.Name, o.Name); c != 0 {
		return c
	}
	if c := strings.Compare(r.Key, o.Key); c != 0 {
		return c
	}
	return r.Shard - o.Shard
}
