package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// sweepPage is how many rows a sweep reads at once, and so the most that it deletes at once.
const sweepPage = 500

// Sweep deletes the rows of the policies that have been full for an hour, so that they are not needed, and returns how
// many it deleted. It reads the table page by page, and deletes those of a page by one statement; rows that are used
// meanwhile stay. After each page it pauses for as long as the page took, so that calls are not slowed much. If ctx has no
// deadline, each page takes at most [Timeout].
// Run it now and then, from any one process. Rows of other policies stay.
//
// Sweep also deletes the entries of the log of overrides that ended, or were replaced, longer ago than
// [Options.KeepOverrides]; they are not in its result. If the database user lacks the privilege to delete them, the error
// says so after everything else was swept.
//
// The policies must be those of every process that uses the table: the store does not know that another process
// runs a larger limit of the same name, for which the row is not full. While a deploy raises a capacity or
// lowers a rate, sweep with the policies of the new version, or of both: if several policies share a name, a row
// is deleted only if each of them allows it. If a policy is invalid, the error is [runtime.ErrInvalidPolicy], and
// nothing is deleted.
func (s *Store) Sweep(ctx context.Context, policies ...*runtime.Policy) (deleted int, err error) {
	for _, p := range policies {
		if err := p.Validate(); err != nil {
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
		n, err := s.sweep(ctx, same)
		deleted += n
		if err != nil {
			return deleted, fmt.Errorf("sweep limit %q: %w", p.Name, err)
		}
	}
	// A program without overrides may lack their table, or privileges on it.
	if err := s.compactOverrides(ctx); err != nil && s.usesOverrides(policies) {
		return deleted, fmt.Errorf("sweep the log of overrides: %w", err)
	}
	return deleted, nil
}

// SweepEvery sweeps the store once per interval, until ctx ends or the store is closed. The first sweep is after a random
// part of the interval, so that processes that were started together do not sweep together. It is for a goroutine of its
// own; see [runtime.SweepEvery] for report and for the error, which is [ErrClosed] after Close. One process that sweeps is
// enough, and several do no harm.
func (s *Store) SweepEvery(ctx context.Context, interval time.Duration, report func(deleted int, err error), policies ...*runtime.Policy) error {
	if err := s.usable(); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	return runtime.SweepEvery(ctx, sweeper{s, stop}, interval, report, policies...)
}

// sweeper stops a loop when its store is closed.
type sweeper struct {
	*Store
	stop context.CancelCauseFunc
}

func (s sweeper) Sweep(ctx context.Context, policies ...*runtime.Policy) (deleted int, err error) {
	deleted, err = s.Store.Sweep(ctx, policies...)
	if errors.Is(err, ErrClosed) {
		s.stop(ErrClosed)
	}
	return deleted, err
}

// Forget deletes all rows of a limit that no longer exists, which Sweep keeps because it has no policy for them, and returns
// how many it deleted. The policies are those in use, such as the generated Policies: if one of them has the name, the
// error is [runtime.ErrInUse], and nothing is deleted. Rows are deleted page by page; if ctx has no deadline, each page
// takes at most [Timeout]. It also ends the limit's blocks and overrides in force, whose entries stay in the log. Call it when
// no process has the limit any more: rows that are written meanwhile may stay.
func (s *Store) Forget(ctx context.Context, name string, policies ...*runtime.Policy) (deleted int, err error) {
	if err := runtime.CheckForget(name, policies); err != nil {
		return 0, err
	}
	deleted, err = s.eachPage(ctx, name, s.forgetPage)
	if err == nil {
		err = s.endOverrides(ctx, name)
	}
	if err != nil {
		err = fmt.Errorf("forget limit %q: %w", name, err)
	}
	return deleted, err
}

// forgetPage deletes the page of rows after a row.
func (s *Store) forgetPage(ctx context.Context, after runtime.Row) (done swept, err error) {
	x, err := s.prepare(ctx)
	if err != nil {
		return done, err
	}
	page, err := s.page(ctx, x, after)
	if err != nil || len(page) == 0 {
		done.empty = true
		return done, err
	}
	done.last = page[len(page)-1].row
	done.deleted, err = s.deleteUnchanged(ctx, x, page)
	return done, err
}

// sweep sweeps the rows of policies with one name.
func (s *Store) sweep(ctx context.Context, same []*runtime.Policy) (deleted int, err error) {
	return s.eachPage(ctx, same[0].Name, func(ctx context.Context, after runtime.Row) (swept, error) {
		return s.sweepPage(ctx, same, after)
	})
}

// eachPage calls do for one page of a limit's rows after the other, and returns how many rows it deleted.
func (s *Store) eachPage(
	ctx context.Context, name string, do func(ctx context.Context, after runtime.Row) (swept, error),
) (deleted int, err error) {
	// Before the first row that can exist: shards count from 0.
	last := runtime.Row{Name: name, Shard: -1}
	for {
		began := time.Now()
		// Each page has a timeout of its own: a sweep of a large table takes longer than one call.
		page, err := maintain(ctx, s, func(ctx context.Context) (swept, error) { return do(ctx, last) })
		deleted += page.deleted
		if err != nil || page.empty {
			return deleted, err
		}
		last = page.last
		// Half of the time is for calls, which need the same disk and, with one writer, the same connection.
		if err := sleep(ctx, time.Since(began)); err != nil {
			return deleted, err
		}
	}
}

// swept is the result for a page of rows.
type swept struct {
	empty   bool
	last    runtime.Row
	deleted int
}

// sweepPage sweeps the page of rows after a row.
func (s *Store) sweepPage(ctx context.Context, same []*runtime.Policy, after runtime.Row) (done swept, err error) {
	x, err := s.prepare(ctx)
	if err != nil {
		return done, err
	}
	now, err := s.now(ctx, s.db)
	if err != nil {
		return done, err
	}
	page, err := s.page(ctx, x, after)
	if err != nil || len(page) == 0 {
		done.empty = true
		return done, err
	}
	done.last = page[len(page)-1].row
	at := now()
	sweepable := slices.DeleteFunc(page, func(r stored) bool { return !s.overrides.view.Sweepable(same, r.row, r.state, at) })
	done.deleted, err = s.deleteUnchanged(ctx, x, sweepable)
	return done, err
}

// page is pageAfter on a session of its own.
func (s *Store) page(ctx context.Context, x *executor, after runtime.Row) (page []stored, err error) {
	err = s.single(ctx, x, func(in session) (err error) {
		page, err = pageAfter(ctx, in, after)
		return err
	})
	return page, err
}

// pageAfter returns the rows after a row with the same name.
func pageAfter(ctx context.Context, in session, after runtime.Row) ([]stored, error) {
	_, v := bind([]stored{{row: after}})
	v.of[paramCount] = sweepPage
	rows, err := in.query(ctx, readPage, oneRow, v)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []stored
	for rows.Next() {
		r := stored{row: runtime.Row{Name: after.Name}}
		if err := rows.Scan(&r.row.Key, &r.row.Shard, &r.state.Value, &r.state.TS, &r.state.Prev); err != nil {
			return nil, err
		}
		r.state.Exists = r.state.TS != placeholderTS
		page = append(page, r)
	}
	return page, rows.Err()
}

// deleteUnchanged deletes rows unless they have changed since they were read.
func (s *Store) deleteUnchanged(ctx context.Context, x *executor, rows []stored) (deleted int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	n, v := bind(rows)
	once := func() error {
		return s.single(ctx, x, func(in session) error {
			result, err := in.exec(ctx, deleteUnchanged, n, v)
			if err != nil {
				return err
			}
			affected, err := result.RowsAffected()
			deleted = int(affected)
			return err
		})
	}
	// Even a deletion needs room on the volume, for the log.
	err = s.withRoom(ctx, func() error { return retry(ctx, once) })
	return deleted, err
}
