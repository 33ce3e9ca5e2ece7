// Package sweep sweeps stores now and then.
package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Sweeper is a store that can delete the rows of keys that are full.
type Sweeper interface {
	// Sweep deletes the rows of the policies that are not needed, and returns their number.
	Sweep(ctx context.Context, policies ...*runtime.Policy) (deleted int, err error)
}

// Every sweeps a store once per interval, until ctx ends. The first sweep is after a random part of the interval, so that
// processes that were started together do not sweep together. After each sweep, report, which may be nil, gets the result.
// The error is the cause of ctx, or at once [runtime.ErrInvalidPolicy] or about an interval that is not positive.
func Every(ctx context.Context, store Sweeper, interval time.Duration, report func(deleted int, err error), policies ...*runtime.Policy) error {
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
