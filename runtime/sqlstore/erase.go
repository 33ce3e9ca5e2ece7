package sqlstore

import (
	"context"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

var (
	_ runtime.Eraser = (*Store)(nil)
	_ runtime.Eraser = (*callerTxStore)(nil)
)

// Erase implements [runtime.Eraser], in one transaction. If ctx has no deadline, it takes at most [Timeout]. The database
// user needs UPDATE on the log of overrides, once that has an entry of the key. Processes read the log again as they do for
// any new entry: see [Options.OverridesEvery].
func (s *Store) Erase(ctx context.Context, limit, key string, why runtime.OverrideEnd) (runtime.Erased, error) {
	if err := s.usable(); err != nil {
		return runtime.Erased{}, err
	}
	if err := override.CheckErase(limit, key); err != nil {
		return runtime.Erased{}, err
	}
	done, err := s.eraser.Erase(ctx, limit, key, why)
	if err != nil {
		return runtime.Erased{}, err
	}
	if view := s.overrides.View; done.Entry.ID > 0 && view.InUse() {
		// It is erased, and the memory of this process forgets it after the interval even if this fails.
		_ = view.Refresh(ctx)
	}
	return done, nil
}

// Erase implements [runtime.Eraser]. If the log has entries of the key, operators who write to it wait until the transaction
// ends, and the other way round: call it last.
func (t *callerTxStore) Erase(ctx context.Context, limit, key string, why runtime.OverrideEnd) (runtime.Erased, error) {
	if err := override.CheckErase(limit, key); err != nil {
		return runtime.Erased{}, err
	}
	return inTx(ctx, t, func(ctx context.Context) (done runtime.Erased, err error) {
		e := t.store.eraser
		now, err := t.now(ctx)
		if err != nil {
			return done, err
		}
		done, err = e.EraseIn(ctx, t.store.server.In(t.tx), limit, key, why, now())
		if fault.RefusedValue(err) {
			// Another transaction has appended an entry, after which this one can.
			return done, &fault.Again{Err: fmt.Errorf("the log of overrides has changed: %w", err)}
		}
		return done, err
	})
}
