package sqlstore

import (
	"context"
	"fmt"
	"time"
)

// grace is how long a driver has to return after its context has ended. Its error says more than ours.
const grace = 50 * time.Millisecond

// bounded runs f under a context that has a deadline, that of ctx or [Timeout], and returns soon after it has ended. If f
// has not returned by then, as some drivers do not, it goes on in the background.
func bounded[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (T, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f(ctx)
		done <- result{value, err}
	}()
	var late <-chan time.Time
	ended := ctx.Done()
	for {
		select {
		case r := <-done:
			return r.value, r.err
		case <-ended:
			ended, late = nil, time.After(grace)
		case <-late:
			var zero T
			return zero, fmt.Errorf("the database has not answered: %w", ctx.Err())
		}
	}
}
