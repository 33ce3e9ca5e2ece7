package sqlstore

import (
	"context"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var _ runtime.OverrideStore = (*Store)(nil)

// OverrideView implements [runtime.OverrideStore]. It reads the log every [Options.OverridesEvery].
func (s *Store) OverrideView() *runtime.OverrideView {
	if s.usable() != nil {
		// Its first read returns the error.
		return runtime.NewOverrideView(runtime.OverrideSource{Since: s.OverridesSince, Now: func() int64 { return 0 }})
	}
	return s.overrides.view
}

// OverridesSince implements [runtime.OverrideStore].
func (s *Store) OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.overrides.entriesSince(ctx, id)
}

// OverrideHistory implements [runtime.OverrideStore].
func (s *Store) OverrideHistory(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.overrides.historyOf(ctx, limit, key)
}

// AppendOverride implements [runtime.OverrideStore].
func (s *Store) AppendOverride(ctx context.Context, e runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return runtime.OverrideEntry{}, err
	}
	return s.overrides.append(ctx, e)
}

// OverrideView implements [runtime.OverrideStore].
func (t *callerTxStore) OverrideView() *runtime.OverrideView { return t.store.OverrideView() }

// OverridesSince implements [runtime.OverrideStore]. It reads in the transaction, which may have the only connection.
func (t *callerTxStore) OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	s := t.store
	if err := s.usable(); err != nil {
		return nil, err
	}
	switch {
	case s.overrides.err != nil:
		return nil, s.overrides.err
	case isNil(t.tx):
		return nil, runtime.ErrNilTx
	}
	entries, err := await(ctx, func() ([]runtime.OverrideEntry, error) {
		if _, err := s.prepared.now(ctx, t.tx); err != nil {
			return nil, err
		}
		return scanOverrides(ctx, t.tx, s.overrides.since, []any{id, runtime.OverridePage})
	}, nil)
	if err != nil && retryable(err) {
		return nil, &RetryTxError{err}
	}
	return entries, s.prepared.withHint(s.overrides.explain(err))
}

// OverrideHistory implements [runtime.OverrideStore].
func (t *callerTxStore) OverrideHistory(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error) {
	return t.store.OverrideHistory(ctx, limit, key)
}

// AppendOverride implements [runtime.OverrideStore]. It returns an error: the caller's transaction could not be run again if
// another one has the same id.
func (t *callerTxStore) AppendOverride(context.Context, runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	return runtime.OverrideEntry{}, fmt.Errorf("%w: overrides cannot be written in a transaction of the caller", runtime.ErrInvalidOverride)
}
