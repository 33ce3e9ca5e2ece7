package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/registry"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/sweep"
)

// Sweep deletes the rows of the policies that have been full for an hour, so that they are not needed, and returns how
// many it deleted. It reads the table page by page, and deletes those of a page by one statement; rows that are used
// meanwhile stay. After each page it pauses for as long as the page took, so that half of the time is for calls; nine times
// as long in a file of package sqlite, where calls wait for the page. If ctx has no deadline, each page takes at most
// [Timeout]. Run it now and then, from any one process. Rows of other policies stay.
//
// Sweep also deletes the entries of the log of overrides that ended, or were replaced, longer ago than
// [Options.KeepOverrides]; they are not in its result. If the database user lacks the privilege to delete them, the error
// says so after everything else was swept.
//
// Sweep goes by the store's clock, but does not believe a jump ahead of more than a minute since the store was prepared
// until a sweep at least an hour later finds it again, by the monotonic clock of this process. It then sweeps as if the
// clock had not jumped. So a clock that is set ahead by mistake, and back, costs no count. A program that does nothing but
// one sweep cannot notice a jump before it. An [Options.Clock] is believed at once.
//
// The policies must be those of every process that uses the table: the store does not know that another process
// runs a larger limit of the same name, for which the row is not full. While a deploy raises a capacity or
// lowers a rate, sweep with the policies of the new version, or of both: if several policies share a name, a row
// is deleted only if each of them allows it. If a policy is invalid, the error is [runtime.ErrInvalidPolicy], and if its
// counts are those of another program, [runtime.ErrForeignCounts]; nothing is deleted then.
func (s *Store) Sweep(ctx context.Context, policies ...*runtime.Policy) (deleted int, err error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	for _, p := range policies {
		if err := p.Validate(); err != nil {
			return 0, err
		}
		if err := s.registry.Compare(ctx, p); err != nil {
			return 0, err
		}
	}
	if slices.ContainsFunc(policies, (*runtime.Policy).Overridable) {
		// A row that is full by its policy may not be by the numbers of an override.
		if err := s.OverrideView().Refresh(ctx); err != nil {
			return 0, err
		}
	}
	for i, p := range policies {
		hasName := func(o *runtime.Policy) bool { return o.Name == p.Name }
		if slices.IndexFunc(policies, hasName) < i {
			continue // swept with the first policy of that name
		}
		same := slices.DeleteFunc(slices.Clone(policies), func(o *runtime.Policy) bool { return !hasName(o) })
		n, err := s.sweeper.Sweep(ctx, same)
		deleted += n
		if err != nil {
			return deleted, fmt.Errorf("sweep limit %q: %w", p.Name, err)
		}
	}
	// A program without overrides may lack their table, or privileges on it.
	if err := s.overrides.Compact(ctx); err != nil && s.overrides.UsedBy(policies) {
		return deleted, fmt.Errorf("sweep the log of overrides: %w", err)
	}
	return deleted, nil
}

// SweepEvery sweeps the store once per interval, until ctx ends or the store is closed. The first sweep is after a random
// part of the interval, so that processes that were started together do not sweep together. It is for a goroutine of its
// own, and one process that sweeps is enough. [Store.Start] does it once an hour, and logs the errors.
//
//	go store.SweepEvery(ctx, time.Hour, func(deleted int, err error) {
//		if err != nil {
//			slog.Error("sweep rate limits", "err", err)
//		}
//	}, limits.Policies()...)
//
// After each sweep, report gets the number of rows deleted and the error, upon which the loop goes on. A sweep that
// fails is seen nowhere else, so that without report, which may be nil, rows can pile up unnoticed. The error of
// SweepEvery is the cause of ctx, or at once [runtime.ErrInvalidPolicy] or about an interval that is not positive, and
// after Close [ErrClosed].
func (s *Store) SweepEvery(ctx context.Context, interval time.Duration, report func(deleted int, err error), policies ...*runtime.Policy) error {
	if err := s.usable(); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.open, func() { stop(ErrClosed) })()
	return sweep.Every(ctx, s, interval, report, policies...)
}

// Forget deletes all rows of a limit that no longer exists, which Sweep keeps because it has no policy for them, and returns
// how many it deleted. The policies are those in use, such as the generated Policies: if one of them has the name, the
// error is [runtime.ErrInUse], and if the limit is registered for an owner that none of them has,
// [runtime.ErrForeignCounts]; nothing is deleted then. Rows are deleted page by page; if ctx has no deadline, each page
// takes at most [Timeout]. It also ends the limit's blocks and overrides in force, whose entries stay in the log, and
// deletes its registration; a database user that may not delete that leaves it, which does no harm but to keep the name. Call
// it when no process has the limit any more: rows that are written meanwhile may stay.
func (s *Store) Forget(ctx context.Context, name string, policies ...*runtime.Policy) (deleted int, err error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	if err := registry.CheckForget(name, policies); err != nil {
		return 0, err
	}
	if slices.Contains(s.registry.OfOthers(ctx, policies), name) {
		return 0, fmt.Errorf("forget limit %q: %w: it is registered for another program", name, runtime.ErrForeignCounts)
	}
	deleted, err = s.sweeper.Forget(ctx, name)
	if err == nil {
		err = s.overrides.EndAll(ctx, name)
	}
	if err == nil {
		err = s.registry.Forget(ctx, name)
	}
	if err != nil {
		err = fmt.Errorf("forget limit %q: %w", name, err)
	}
	return deleted, err
}
