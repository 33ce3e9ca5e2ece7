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
	return await(ctx, func() (T, error) { return f(ctx) }, nil)
}

// await runs f, which does not return when ctx ends if a driver does not, and returns soon after ctx has ended. If f
// returns a value later than that, in the background, drop is called with it.
func await[T any](ctx context.Context, f func() (T, error), drop func(T)) (T, error) {
	ended := ctx.Done()
	if ended == nil {
		return f()
	}
	type result struct {
		value T
		err   error
	}
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
			ended, late = nil, time.After(grace)
		case <-late:
			if drop != nil {
				go func() {
					if r := <-done; r.err == nil {
						drop(r.value)
					}
				}()
			}
			var zero T
			return zero, fmt.Errorf("the database has not answered: %w", ctx.Err())
		}
	}
}
