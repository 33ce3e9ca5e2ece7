package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// unbegunError is why a transaction, or a statement outside of one, has not begun: the connection was lost, often because
// the server has closed it while it was idle. Package database/sql then tries another connection, but not for a statement on
// an [sql.Conn].
type unbegunError struct{ err error }

func (e *unbegunError) Error() string { return e.err.Error() }
func (e *unbegunError) Unwrap() error { return e.err }

// unbegun returns the error of a BEGIN as an [unbegunError] if the connection was lost.
func unbegun(err error) error {
	if fault.Lost(err) {
		return &unbegunError{err}
	}
	return err
}

// Unsent returns the error of the first statement on a connection as an [unbegunError] if it was not sent.
func Unsent(err error) error {
	if errors.Is(err, driver.ErrBadConn) {
		return &unbegunError{err}
	}
	return err
}

// reconnecting runs fn, which uses one connection of db, and again on other connections if that was lost before fn did
// anything.
func reconnecting(ctx context.Context, db *sql.DB, fn func() error) error {
	// Each try uses up one connection of the pool that the server has closed.
	for tries := db.Stats().OpenConnections + 1; ; tries-- {
		err := fn()
		if tries == 0 || ctx.Err() != nil || !errors.As(err, new(*unbegunError)) {
			return err
		}
	}
}

// budget is how many attempts the loops of a call have left. They share it, so that one in another does not multiply them.
type budget struct{ left atomic.Int32 }

type budgetKey struct{}

// WithBudget returns a context whose loops have [bounds.MaxAttempts] attempts together. A context within one that has a
// budget has the same.
func WithBudget(ctx context.Context) context.Context {
	if _, ok := ctx.Value(budgetKey{}).(*budget); ok {
		return ctx
	}
	b := new(budget)
	b.left.Store(bounds.MaxAttempts)
	return context.WithValue(ctx, budgetKey{}, b)
}

// Retrier counts the attempts of a transaction. It is not a function with a callback, so that its caller can be read
// in a stack trace.
type Retrier struct {
	attempts int
	// Bounded means that a transaction is not run again that has waited too long for a lock.
	Bounded bool
}

// Again reports whether to run a transaction again that has failed with err, after a pause. Otherwise it sets err to the
// error to return.
func (r *Retrier) Again(ctx context.Context, err *error) bool {
	if *err == nil || !fault.Retryable(*err) || r.Bounded && fault.LockTimeout(*err) {
		return false
	}
	r.attempts++
	left := bounds.MaxAttempts - r.attempts
	if b, ok := ctx.Value(budgetKey{}).(*budget); ok {
		left = int(b.left.Add(-1))
	}
	switch {
	case left < 0:
		// A loop within this one has given up, and has said so.
		return false
	case left == 0:
		*err = fmt.Errorf("gave up after %d attempts: %w", bounds.MaxAttempts, *err)
		return false
	}
	// Longer after each attempt, and at random, so that transactions that have conflicted do not do so again. 1 ms << 10 is
	// more than bounds.MaxPause already, and a larger shift would overflow.
	if ended := Sleep(ctx, rand.N(min(bounds.MaxPause, time.Millisecond<<min(r.attempts, 10)))); ended != nil {
		*err = fmt.Errorf("%w: %w", ended, *err)
		return false
	}
	return true
}

// Retry runs a transaction until it succeeds, fails with an error after which it may have done something, or the budget of
// the call is spent, which it begins if there is none. An operation that is to begin anew for a reason of its own returns a
// [fault.Again].
func Retry(ctx context.Context, transaction func(ctx context.Context) error) error {
	return Retrier{}.run(ctx, transaction)
}

func (r Retrier) run(ctx context.Context, transaction func(ctx context.Context) error) error {
	ctx = WithBudget(ctx)
	for {
		err := transaction(ctx)
		if !r.Again(ctx, &err) {
			return err
		}
	}
}
