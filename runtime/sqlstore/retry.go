package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// attempts is how often a transaction is tried, and longestPause how long at most between two tries.
const (
	attempts     = 50
	longestPause = 100 * time.Millisecond
)

// retry runs a transaction until it succeeds, fails for good, or has been tried often enough.
func (s *Store) retry(ctx context.Context, transaction func() error) error {
	for i := 1; ; i++ {
		err := transaction()
		if err == nil || !s.retryable(err) {
			return err
		}
		if i == attempts {
			return fmt.Errorf("gave up after %d attempts: %w", i, err)
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
}

// retryable reports whether the database says that the same transaction may succeed if it is run again.
func (s *Store) retryable(err error) bool {
	var coded interface{ Code() int }
	if !errors.As(err, &coded) {
		return false
	}
	primary := coded.Code() & 0xff
	return slices.Contains(s.dialect.Retryable, primary)
}

// pause waits before a further attempt, the longer the more there have been, and never twice as long.
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
