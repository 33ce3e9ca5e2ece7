package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// sweepInterval is how often a store that was started sweeps.
const sweepInterval = time.Hour

// Start prepares a store for the limits of a program, and keeps it tidy. It calls [Store.Migrate] and [Store.Ready], whose error it
// returns, and then sweeps once an hour until the store is closed. ctx is for the preparation only. Call it once, when the program
// starts:
//
//	store, err := sqlstore.New(db, dialect.Postgres, sqlstore.Options{})
//	if err == nil {
//		err = store.Start(ctx, limits.Policies()...)
//	}
//
// What stops no call is logged with [log/slog]: the [runtime.ErrUnusedOverrides] of Ready as a warning, the mode of policies that are
// from [runtime.Catalog.Mode] too, and a sweep that failed as an error. Call Migrate, Ready and [Store.SweepEvery] yourself for anything else: another interval, a database user without the right to
// delete, or hundreds of processes, of which one that sweeps is enough.
func (s *Store) Start(ctx context.Context, policies ...*runtime.Policy) error {
	err := s.Migrate(ctx, policies...)
	if err == nil {
		err = s.Ready(ctx, policies...)
	}
	if errors.Is(err, runtime.ErrUnusedOverrides) {
		slog.WarnContext(ctx, "rate limits: blocks or overrides without effect", "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	for _, p := range policies {
		if mode, relaxed := p.Relaxed(); relaxed {
			slog.WarnContext(ctx, "rate limits: no limit is stricter than limiter.Mode", "mode", mode.String())
			break
		}
	}
	go s.SweepEvery(s.open, sweepInterval, func(_ int, err error) {
		if err != nil {
			slog.Error("rate limits: sweep", "error", err)
		}
	}, policies...)
	return nil
}
