package runtime

import (
	"context"
	"database/sql"
	"errors"
)

// Limiter connects limits with a [Store]. Generated code wraps one; for a limit written in Go, make one directly:
//
//	limiter := runtime.NewLimiter(store)
//	d, err := limiter.Limit(&policy, runtime.KeyOf(runtime.Int64(userID))).Allow(ctx)
//
// The zero Limiter has no store, and all methods of its limits return [ErrNoStore].
type Limiter struct {
	store   Store
	waiters waitQueue
	// local decides while the store fails.
	local localMemory
	// inTx means that store is in a transaction of the caller, and base is the store outside of it.
	inTx bool
	base Store
	// settles means that requests go to base when the transaction has ended.
	settles bool
	// observer may be nil.
	observer Observer
}

// NewLimiter returns a limiter with its counts in store. The options may have it observed: see [Observe].
func NewLimiter(store Store, options ...Option) *Limiter {
	l := &Limiter{store: store}
	for _, option := range options {
		option(l)
	}
	return l
}

// WithTx returns a limiter that keeps its counts inside a transaction of the caller, which must be of the database that
// holds the counts: tokens are taken if and only if tx commits. The methods of its limits return [ErrNoTx] if the store
// does not support transactions, and [ErrNilTx] if tx is nil.
func (l *Limiter) WithTx(tx Tx) *Limiter {
	if l == nil || l.store == nil {
		return l
	}
	return &Limiter{store: InTx(l.store, tx), inTx: true, base: l.store, observer: l.observer}
}

// settler returns the limiter that settles reservations of l: for those of a transaction, one that goes on without it when
// it has ended.
func (l *Limiter) settler() *Limiter {
	if l == nil || !l.inTx || l.settles {
		return l
	}
	return &Limiter{store: l.store, inTx: true, base: l.base, settles: true, observer: l.observer}
}

// afterTx executes calls that settle reservations of a transaction, if the error of the store in it is that it has ended.
func (l *Limiter) afterTx(ctx context.Context, calls []Call, err error) ([]Answer, error) {
	if errors.Is(err, sql.ErrTxDone) && !errors.Is(err, ErrRolledBack) {
		return l.base.Do(ctx, calls)
	}
	return nil, err
}

// Option configures a [Limiter].
type Option func(*Limiter)

// Observe makes o observe the decisions of a limiter. Several options of this kind add up. Without one, nothing is
// measured.
func Observe(o Observer) Option {
	return func(l *Limiter) {
		switch {
		case o == nil:
		case l.observer == nil:
			l.observer = o
		default:
			l.observer = both{l.observer, o}
		}
	}
}

// both is two observers.
type both struct{ first, second Observer }

func (b both) Decided(ctx context.Context, o Observation) {
	b.first.Decided(ctx, o)
	b.second.Decided(ctx, o)
}
