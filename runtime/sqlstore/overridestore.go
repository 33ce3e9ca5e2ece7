package sqlstore

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

var (
	_ override.Store  = (*Store)(nil)
	_ override.Reader = (*callerTxStore)(nil)
)

// OverrideView implements [override.Store]. It reads the log every [Options.OverridesEvery].
func (s *Store) OverrideView() *override.View {
	if s.usable() != nil {
		// Its first read returns the error.
		return override.New(override.Source{Since: s.OverridesSince, Now: func() int64 { return 0 }})
	}
	return s.overrides.View
}

// OverridesSince implements [override.Store].
func (s *Store) OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.overrides.EntriesSince(ctx, id)
}

// OverrideHistory implements [override.Store].
func (s *Store) OverrideHistory(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.overrides.HistoryOf(ctx, limit, key)
}

// AppendOverride implements [override.Store].
func (s *Store) AppendOverride(ctx context.Context, e runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return runtime.OverrideEntry{}, err
	}
	return s.overrides.Append(ctx, e)
}

// OverrideView implements [override.Reader].
func (t *callerTxStore) OverrideView() *override.View { return t.store.OverrideView() }

// OverridesSince implements [override.Reader]. It reads in the transaction, which may have the only connection.
func (t *callerTxStore) OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	s := t.store
	if err := s.usable(); err != nil {
		return nil, err
	}
	switch {
	case s.overrides.Err != nil:
		return nil, s.overrides.Err
	case isNil(t.tx):
		return nil, runtime.ErrNilTx
	}
	entries, err := conn.Bounded(ctx, func(ctx context.Context) ([]runtime.OverrideEntry, error) {
		if _, err := s.prepared.Now(ctx, t.tx); err != nil {
			return nil, err
		}
		return table.ScanOverrides(ctx, t.tx, s.overrides.Since, []any{id, override.Page})
	})
	if err != nil && fault.Retryable(err) {
		return nil, &RetryTxError{err}
	}
	return entries, s.prepared.WithHint(s.overrides.Explain(err))
}
