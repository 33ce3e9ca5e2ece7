package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
)

// sweeper deletes rows page by page.
type sweeper struct {
	*prepared
	view *override.View
}

// sweepPage is how many rows a sweep reads at once, and so the most that it deletes at once.
const sweepPage = 500

// sweep sweeps the rows of policies with one name.
func (s *sweeper) sweep(ctx context.Context, same []*runtime.Policy) (deleted int, err error) {
	return s.eachPage(ctx, same[0].Name, func(ctx context.Context, x *executor, after runtime.Row) (swept, error) {
		return s.sweepPage(ctx, x, same, after)
	})
}

// eachPage calls do for one page of a limit's rows after the other, and returns how many rows it deleted.
func (s *sweeper) eachPage(
	ctx context.Context, name string, do func(ctx context.Context, x *executor, after runtime.Row) (swept, error),
) (deleted int, err error) {
	// Before the first row that can exist: shards count from 0.
	last := runtime.Row{Name: name, Shard: -1}
	for {
		began := time.Now()
		// Each page has a timeout of its own: a sweep of a large table takes longer than one call.
		page, err := using(ctx, s.prepared, func(ctx context.Context, x *executor) (swept, error) { return do(ctx, x, last) })
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

// forgetPage deletes the page of rows after a row.
func (s *sweeper) forgetPage(ctx context.Context, x *executor, after runtime.Row) (done swept, err error) {
	page, err := s.page(ctx, x, after)
	if err != nil || len(page) == 0 {
		done.empty = true
		return done, err
	}
	done.last = page[len(page)-1].row
	done.deleted, err = s.deleteUnchanged(ctx, x, page)
	return done, err
}

// sweepPage sweeps the page of rows after a row.
func (s *sweeper) sweepPage(ctx context.Context, x *executor, same []*runtime.Policy, after runtime.Row) (done swept, err error) {
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
	sweepable := slices.DeleteFunc(page, func(r stored) bool { return !s.view.Sweepable(same, r.row, r.state, at) })
	done.deleted, err = s.deleteUnchanged(ctx, x, sweepable)
	return done, err
}

// page is pageAfter on a session of its own.
func (s *sweeper) page(ctx context.Context, x *executor, after runtime.Row) (page []stored, err error) {
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
func (s *sweeper) deleteUnchanged(ctx context.Context, x *executor, rows []stored) (deleted int, err error) {
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
