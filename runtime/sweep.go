package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

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
//	go runtime.SweepEvery(ctx, store, time.Hour, report, limits.Policies()...)
//
// After each sweep, report gets the number of rows deleted and the error, upon which the loop goes on. If report is nil,
// the first error ends the loop. The error is that one, the cause of ctx, or at once [ErrInvalidPolicy] or about an
// interval that is not positive.
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
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case report != nil:
			report(deleted, err)
		case err != nil:
			return err
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

// SweepEvery sweeps the store once per interval, until ctx ends; see the function [SweepEvery].
func (m *MemStore) SweepEvery(ctx context.Context, interval time.Duration, report func(deleted int, err error), policies ...*Policy) error {
	return SweepEvery(ctx, m, interval, report, policies...)
}

// Forget deletes all rows of a limit that no longer exists, and returns how many. If one of the policies, which are those
// in use, has that name, the error is [ErrInUse], and nothing is deleted.
func (m *MemStore) Forget(ctx context.Context, name string, policies ...*Policy) (deleted int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := CheckForget(name, policies); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.rows)
	for row := range m.rows {
		if row.Name == name {
			delete(m.rows, row)
		}
	}
	return before - len(m.rows), nil
}
