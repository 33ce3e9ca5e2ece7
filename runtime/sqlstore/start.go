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

// Start calls [Store.Migrate] and [Store.Ready] for the limits of a program, and returns their error. If there is none, the
// store is swept once an hour from then on until it is closed; ctx ends only the two calls. Call Start once, when the
// program starts:
//
//	store, err := sqlstore.New(db, dialect.Postgres, sqlstore.Options{})
//	if err == nil {
//		err = store.Start(ctx, limits.Policies()...)
//	}
//
// Start logs with [log/slog] what stops no call: as warnings the [runtime.ErrUnusedOverrides] of Ready and the mode of
// limiter.Mode, also of a limiter that is made later, and as an error a sweep that failed. Call Migrate, Ready and
// [Store.SweepEvery] yourself if you need another interval, if the database user must not delete, or if there are hundreds
// of processes, of which one can sweep for all.
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
	s.overrides.View.OnRelaxed(func(m runtime.Mode) {
		slog.Warn("rate limits: no limit is stricter than limiter.Mode", "mode", m.String())
	})
	go s.SweepEvery(s.open, sweepInterval, func(_ int, err error) {
		if err != nil {
			slog.Error("rate limits: sweep", "error", err)
		}
	}, policies...)
	return nil
}
