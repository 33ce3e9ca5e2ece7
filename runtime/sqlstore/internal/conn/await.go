package conn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// errSilent is the error of Await if f has not returned.
var errSilent = errors.New("the database has not responded")

// Bounded runs f under a context that has a deadline, ctx's or [bounds.Timeout], and returns soon after it has ended. If f
// has not returned by then, as with some drivers, it continues in the background.
func Bounded[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return Await(ctx, func() (T, error) { return f(ctx) }, nil)
}

// withDeadline returns ctx if it has a deadline, and otherwise one that ends after [bounds.Timeout].
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, bounds.Timeout)
}

// Await runs f and returns soon after ctx has ended, even if f does not, as with drivers that ignore the context. If f
// returns a value later, in the background, Await passes it to drop.
func Await[T any](ctx context.Context, f func() (T, error), drop func(T)) (T, error) {
	ended := ctx.Done()
	if ended == nil {
		return f()
	}
	type result struct {
		value T
		err   error
	}
	// Buffered, so that the goroutine can end after Await has returned.
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	var late <-chan time.Time
	for {
		select {
		case r := <-done:
			return r.value, r.err
		case <-ended:
			// A nil channel blocks, so the next turn of the loop waits for the result and the grace period only.
			ended, late = nil, time.After(bounds.Grace)
		case <-late:
			if drop != nil {
				// A connection or transaction that arrives late must be released.
				go func() {
					if r := <-done; r.err == nil {
						drop(r.value)
					}
				}()
			}
			var zero T
			return zero, fmt.Errorf("%w: %w", errSilent, ctx.Err())
		}
	}
}

// Sleep waits, and returns the error of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
