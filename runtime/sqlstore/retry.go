package sqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// attempts is how often a transaction is tried, and longestPause how long at most between two tries.
const (
	attempts     = 100
	longestPause = 100 * time.Millisecond
)

// retry runs a transaction until it succeeds, fails for good, or has been tried often enough.
func retry(ctx context.Context, transaction func() error) error {
	for i := 1; ; i++ {
		err := transaction()
		if err == nil || !retryable(err) {
			return err
		}
		if i == attempts {
			return fmt.Errorf("gave up after %d attempts: %w", i, err)
		}
		if ended := pause(ctx, i); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// pause waits before a further attempt: at random, so that those who were in each other's way do not meet
// again, and the longer the more attempts there have been.
func pause(ctx context.Context, attempt int) error {
	longest := min(longestPause, time.Millisecond<<min(attempt, 10))
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
