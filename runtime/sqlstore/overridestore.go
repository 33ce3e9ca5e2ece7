package sqlstore

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

var (
	_ override.Store  = (*Store)(nil)
	_ override.Reader = (*callerTxStore)(nil)
)

// OverrideView returns the overrides in force, as this process has read them. It reads the log every
// [Options.OverridesEvery].
func (s *Store) OverrideView() *override.View {
	if s.usable() != nil {
		// Its first read returns the error.
		return override.New(override.Source{Since: s.OverridesSince, Now: func() int64 { return 0 }})
	}
	return s.overrides.View
}

// OverridesSince returns the entries of the log after an id, in order, up to a page of them.
func (s *Store) OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.overrides.EntriesSince(ctx, id)
}

// OverrideHistory returns the entries of a key, or of a whole limit, in order.
func (s *Store) OverrideHistory(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.overrides.HistoryOf(ctx, limit, key)
}

// AppendOverride appends an entry to the log, and returns it with its id and time.
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
	if s.overrides.Err != nil {
		return nil, s.overrides.Err
	}
	entries, err := conn.Bounded(ctx, func(ctx context.Context) ([]runtime.OverrideEntry, error) {
		if err := s.server.RequireBegun(ctx, t.tx); err != nil {
			return nil, err
		}
		if err := t.locate(ctx); err != nil {
			return nil, err
		}
		if _, err := t.now(ctx); err != nil {
			return nil, err
		}
		return s.overrides.EntriesIn(ctx, t.tx, id)
	})
	if err = fault.Cut(err); err != nil && fault.Retryable(err) {
		return nil, &RetryTxError{err}
	}
	return entries, s.server.WithHint(s.overrides.Explain(err))
}
