package runtime

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Store keeps the counts. Package storetest is its contract: an implementation that passes it is a Store.
//
// A Store may be used by many goroutines at once.
type Store interface {
	// Do executes calls and returns one answer per call, as if the calls were executed one after the other in their
	// order, and those for one key at one instant. A call whose requests cannot all pass takes nothing, and does not
	// prevent the calls after it. The calls must not be changed afterwards, even after an error, because the store may
	// still be using them.
	//
	// An error means that not every call was answered. The answers are then nil, or have a zero [Answer] for each call
	// without one. Calls without an answer have taken nothing, unless ctx ended or the connection to the store was lost
	// while they were executed.
	Do(ctx context.Context, calls []Call) ([]Answer, error)
}

// Call is a set of requests of which all pass or none does. If there are several, each must be a Take or a Check, and
// reserving ones may be among them. Takes of one key are decided one after the other: each needs the tokens of those
// before it too, and its Delay and RetryAfter are those of the sum. Checks are decided before all takes, in whatever
// order the requests are: they do not need the tokens that the call takes from the same key, and the counts of several
// checks of one key do not add up.
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
	// Count is the number of tokens to take, check, charge or refund. A request for 0 is allowed and changes nothing.
	Count int64
	// Reserve lets Take and Check go into debt, up to the policy's MaxReserved.
	Reserve bool
	// MaxDelay denies a reservation whose tokens are due later than that from now; 0 means no bound. RetryAfter is then
	// the time until the request passes without any delay. A count beyond the capacity always has a delay: then
	// RetryAfter is that delay, and the retry may be denied too.
	MaxDelay time.Duration
	// TakenAt is when the tokens of a Refund were taken, in nanoseconds since 1970 UTC. The refund leaves the key as if they
	// had not been taken then: see [Limit.RefundN]. 0 means that the tokens belong to no request: all of them are added, up
	// to the capacity, and earlier requests for the key can no longer be refunded, except for a sliding window. Make the
	// refund of a request by [Decision.RefundRequest].
	TakenAt int64
	// Total is how many tokens had been taken from the row of the key when those of a Refund had been, or 0 if that is
	// unknown. Without it, nothing is given back once tokens have accrued, or after an hour.
	Total float64
	// Shard counts from 1, if the tokens of a Refund were taken from one shard; otherwise it is 0.
	Shard int
	// Leased says that a Take is for a lease, or that the tokens of a Refund are a part of those that a lease has taken. Of a
	// token bucket, at least those that have not accrued since at the policy's rate are then given back.
	Leased bool
	// Zone is the time zone of the key, if the policy's Calendar has ZonePerKey; otherwise nil.
	Zone *time.Location
	// Anniversary is the first day of some window of the key, if the policy's Calendar has Anniversary; otherwise zero.
	Anniversary Date
}

// Validate returns nil for a request with a valid policy and key, and otherwise [ErrInvalidKey] or [ErrInvalidPolicy].
func (q Request) Validate() error {
	if len(q.Key) > MaxKey || !printable(q.Key) {
		return fmt.Errorf("%w: it must be in the form that Key.String returns", ErrInvalidKey)
	}
	if err := q.Policy.Validate(); err != nil {
		return err
	}
	if problem := q.calendarProblem(); problem != "" {
		return fmt.Errorf("%w: %s", ErrInvalidKey, problem)
	}
	return nil
}

// Answer is the result of a [Call].
type Answer struct {
	// Decisions holds one decision per request. If one of them denies, nothing was taken.
	Decisions []Decision
	// Err is why the call could not be executed: [ErrInvalidCount], [ErrExceedsCapacity], [ErrInvalidPolicy],
	// [ErrInvalidKey] or [ErrInvalidCall]. Nothing was taken then.
	Err error
	// At is the instant as of which the call was executed, in nanoseconds since 1970 UTC.
	At int64
	// Source is what has decided: a store that answers from the memory of this process says so, for observers.
	Source Source
}

// Answered reports whether the call was answered; false for the zero Answer.
func (a Answer) Answered() bool { return len(a.Decisions) > 0 || a.Err != nil }

// Allowed reports whether every request of the call passed.
func (a Answer) Allowed() bool {
	for _, d := range a.Decisions {
		if !d.Allowed {
			return false
		}
	}
	return a.Err == nil && len(a.Decisions) > 0
}

// Row identifies a stored [State].
type Row struct {
	// Name is that of the policy.
	Name string
	// Key is the key as it is stored.
	Key string
	// Shard counts from 0.
	Shard int
}

// Compare orders rows by name, key and shard. Every store locks rows in this order, so that transactions do not deadlock.
func (r Row) Compare(o Row) int {
	if c := strings.Compare(r.Name, o.Name); c != 0 {
		return c
	}
	if c := strings.Compare(r.Key, o.Key); c != 0 {
		return c
	}
	return r.Shard - o.Shard
}

// sweepAfter is how long a row is kept after it has become full, so that a clock that is set back by less still finds it.
const sweepAfter = time.Hour

// Sweepable reports whether a stored row of the policy has been full for an hour, or longer for a [Calendar], at the
// instant now in nanoseconds since 1970 UTC, so that it is not needed and a sweep may delete it. It is false for an invalid
// policy, for one with [ModeUnlimited], which has no numbers to judge by, and for a shard that the policy does not have.
func (p *Policy) Sweepable(row Row, s State, now int64) bool {
	switch {
	case p.Validate() != nil || p.Mode == ModeUnlimited:
		return false
	case p.Precise && row.Shard > 0:
		rule := p.Rule(row.Key)
		return !s.Exists || rule.sweepableSlot(s, now-int64(sweepAfter))
	case row.Shard >= max(1, p.Shards):
		return false
	}
	rule := p.Rule(row.Key).Shard(row.Shard, p.Shards)
	return rule.Full(s, rule.sweepableSince(now))
}

// Sweepable reports whether a row is [Policy.Sweepable] for each of several policies with the same name, such as a limit
// before and after an edit: a row that is full again at the higher rate may be nearly empty at the lower one. Policies
// with [ModeUnlimited] are left to the judgement of the others. It is false without others.
func Sweepable(policies []*Policy, row Row, s State, now int64) bool {
	judged := false
	for _, p := range policies {
		if p != nil && p.Mode == ModeUnlimited && p.Validate() == nil {
			continue
		}
		if !p.Sweepable(row, s, now) {
			return false
		}
		judged = true
	}
	return judged
}

// LocalTaker is a [Store] that holds leased tokens, which it has already taken, and can hand them out in this process.
// See [Lease].
type LocalTaker interface {
	Store
	// TakeLocal takes n tokens of a key from those that the store holds. If it returns false, nothing was taken, and the
	// request goes to Do. The policy has a Lease, but may be invalid.
	TakeLocal(p *Policy, key string, n int64) (Decision, bool)
}

// Tx is a transaction of the caller: an [sql.Tx], or an [sql.Conn] on which one was begun.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// TxStore is a [Store] that can keep the counts inside a transaction of its caller.
type TxStore interface {
	Store
	// WithTx returns a store whose changes are committed if and only if tx is. It never begins, commits or rolls back,
	// and tx remains usable after a denial. If tx is nil, the store returns [ErrNilTx].
	WithTx(tx Tx) Store
}

// InTx returns the store inside a transaction of the caller. If store is not a [TxStore], the result returns [ErrNoTx].
func InTx(store Store, tx Tx) Store {
	if inTx, ok := store.(TxStore); ok {
		return inTx.WithTx(tx)
	}
	return noTx{}
}

// noTx replaces a store without transactions: InTx has no error, so that methods can be chained after it.
type noTx struct{}

func (noTx) Do(context.Context, []Call) ([]Answer, error) { return nil, ErrNoTx }

// ErrInUse: a limit cannot be forgotten, because one of the given policies has its name.
var ErrInUse = errors.New("the limit is in use")

// Sweeper is a store that can delete the rows of keys that are full.
type Sweeper interface {
	// Sweep deletes the rows of the policies that are not needed, and returns their number.
	Sweep(ctx context.Context, policies ...*Policy) (deleted int, err error)
}

// SweepEvery sweeps a store once per interval, until ctx ends. The first sweep is after a random part of the interval, so
// that processes that were started together do not sweep together. It is for a goroutine of its own:
//
//	go runtime.SweepEvery(ctx, store, time.Hour, func(deleted int, err error) {
//		if err != nil {
//			slog.Error("sweep rate limits", "err", err)
//		}
//	}, limits.Policies()...)
//
// After each sweep, report gets the number of rows deleted and the error, upon which the loop goes on. A sweep that fails
// is seen nowhere else, so that without report, which may be nil, rows can pile up unnoticed.
// The error of SweepEvery is the cause of ctx, or at once [ErrInvalidPolicy] or about an interval that is not positive.
func SweepEvery(ctx context.Context, store Sweeper, interval time.Duration, report func(deleted int, err error), policies ...*Policy) error {
	if interval <= 0 {
		return fmt.Errorf("sweep every %v: the interval must be more than 0s", interval)
	}
	for _, p := range policies {
		if err := p.Validate(); err != nil {
			return err
		}
	}
	timer := time.NewTimer(rand.N(interval))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		begin := time.Now()
		deleted, err := store.Sweep(ctx, policies...)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if report != nil {
			report(deleted, err)
		}
		// From the beginning of this sweep, so that a slow one does not shift the next.
		timer.Reset(interval - time.Since(begin))
	}
}

// CheckForget returns nil if the rows of a name can be deleted, and otherwise an error: [ErrInUse] if a policy has the
// name, or that it is empty. Stores use it for their Forget.
func CheckForget(name string, policies []*Policy) error {
	if name == "" {
		return errors.New("forget: the name of the limit is empty")
	}
	for _, p := range policies {
		if p != nil && p.Name == name {
			return fmt.Errorf("forget limit %q: %w: remove it from limits.yaml first, or Reset its keys", name, ErrInUse)
		}
	}
	return nil
}
