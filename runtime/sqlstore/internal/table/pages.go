package table

import (
	"context"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
)

// Sweeper deletes rows page by page.
type Sweeper struct {
	prepared *Prepared
	server   *conn.Server
	view     *override.View
	// driver deletes the rows of a page, or is nil.
	driver PageDeleter
}

// PageDeleter deletes rows where a driver has a faster way than the dialect's statements, with the same results. Package
// sqlite has one.
type PageDeleter interface {
	// DeletePage deletes those that may go of the rows after a row with the same name, in their order and at most so many, in
	// one transaction.
	DeletePage(after runtime.Row, most int, mayGo func(r runtime.StoredRow) bool) (DeletedPage, error)
}

// DeletedPage is the result of a [PageDeleter].
type DeletedPage struct {
	// Last is the last of the rows; Empty means that there are none.
	Last  runtime.Row
	Empty bool
	// Deleted is how many were deleted.
	Deleted int
	// Took is how long calls have waited for the transaction.
	Took time.Duration
}

// NewSweeper returns a sweeper with a driver's way to delete, which may be nil.
func NewSweeper(on *Prepared, v *override.View, driver PageDeleter) *Sweeper {
	return &Sweeper{on, on.Server, v, driver}
}

// sweepPage is how many rows a sweep reads at once, and so the most that it deletes at once.
const sweepPage = runtime.RowPage

// Sweep deletes the rows of policies with one name that are not needed, and returns how many it deleted.
func (s *Sweeper) Sweep(ctx context.Context, same []*runtime.Policy) (deleted int, err error) {
	return s.delete(ctx, same[0].Name,
		func(r runtime.StoredRow, now int64) bool { return s.view.Sweepable(same, r.Row, r.State, now) })
}

// Forget deletes all rows of a limit, and returns how many it deleted.
func (s *Sweeper) Forget(ctx context.Context, limit string) (deleted int, err error) {
	return s.delete(ctx, limit, func(runtime.StoredRow, int64) bool { return true })
}

// delete deletes the rows of a limit that may go, page by page.
func (s *Sweeper) delete(ctx context.Context, limit string, mayGo func(r runtime.StoredRow, now int64) bool) (deleted int, err error) {
	// Before the first row that can exist: shards count from 0.
	last, end := runtime.Row{Name: limit, Shard: -1}, false
	for {
		began, pause := time.Now(), time.Duration(0)
		// Each page has a timeout of its own: a sweep of a large table takes longer than one call.
		n, err := Using(ctx, s.prepared, func(ctx context.Context, x *conn.Executor) (int, error) {
			now, err := s.server.Now(ctx, s.server.DB)
			if err != nil {
				return 0, err
			}
			at := s.prepared.sweepTime(now())
			if s.driver != nil {
				page, err := s.deleteByDriver(ctx, x, last, func(r runtime.StoredRow) bool { return mayGo(r, at) })
				// Calls wait for the page, so nine tenths of the time are for them.
				last, end, pause = page.Last, page.Empty, 9*page.Took
				return page.Deleted, err
			}
			page, err := s.prepared.Page(ctx, x, last, sweepPage)
			if end = len(page) == 0; end || err != nil {
				return 0, err
			}
			last = page[len(page)-1].Row
			return s.deleteUnchanged(ctx, x, slices.DeleteFunc(page, func(r runtime.StoredRow) bool { return !mayGo(r, at) }))
		})
		deleted += n
		if err != nil || end {
			return deleted, err
		}
		if s.driver == nil {
			// Half of the time is for calls, which need the same disk.
			pause = time.Since(began)
		}
		if err := conn.Sleep(ctx, pause); err != nil {
			return deleted, err
		}
	}
}

func (s *Sweeper) deleteByDriver(
	ctx context.Context, x *conn.Executor, after runtime.Row, mayGo func(runtime.StoredRow) bool,
) (page DeletedPage, err error) {
	// Even a deletion needs room on the volume, for the log.
	err = s.server.WithRoom(ctx, func() error {
		return x.Retry(ctx, func(context.Context) (err error) {
			page, err = s.driver.DeletePage(after, sweepPage, mayGo)
			return err
		})
	})
	return page, err
}

// Page returns the rows after a row with the same name: at most so many of them, and at most [runtime.RowPage].
func (p *Prepared) Page(ctx context.Context, x *conn.Executor, after runtime.Row, most int) (page []runtime.StoredRow, err error) {
	if most = min(most, runtime.RowPage); most <= 0 {
		return nil, nil
	}
	err = p.Server.Single(ctx, x, func(in conn.Session) (err error) {
		page, err = pageAfter(ctx, in, after, most)
		return err
	})
	return page, err
}

func pageAfter(ctx context.Context, in conn.Session, after runtime.Row, most int) ([]runtime.StoredRow, error) {
	_, v := conn.Bind([]runtime.StoredRow{{Row: after}})
	v.Of[conn.ParamCount] = most
	rows, err := in.Query(ctx, conn.ReadPage, conn.OneRow, v)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []runtime.StoredRow
	// What is scanned into is allocated once, and not for each row.
	r := runtime.StoredRow{Row: runtime.Row{Name: after.Name}}
	for rows.Next() {
		if err := rows.Scan(&r.Row.Key, &r.Row.Shard, &r.State.Value, &r.State.TS, &r.State.Prev, (*conn.Log)(&r.State.Log)); err != nil {
			return nil, err
		}
		r.State.Exists = r.State.TS != placeholderTS
		if page == nil {
			page = make([]runtime.StoredRow, 0, most)
		}
		page = append(page, r)
	}
	return page, rows.Err()
}

// deleteUnchanged deletes rows unless they have changed since they were read, by a statement for each shard on which they
// are.
func (s *Sweeper) deleteUnchanged(ctx context.Context, x *conn.Executor, rows []runtime.StoredRow) (deleted int, err error) {
	var places map[string]string
	if s.server.Sharded() {
		if places, err = s.placesOf(ctx, x, rows); err != nil {
			return 0, err
		}
	}
	for _, part := range byPlace(rows, places) {
		n, err := s.deletePart(ctx, x, part)
		if deleted += n; err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// placesOf returns the shards of the first parts of the rows' keys.
func (s *Sweeper) placesOf(ctx context.Context, x *conn.Executor, rows []runtime.StoredRow) (places map[string]string, err error) {
	parts := make([]string, len(rows))
	for i, r := range rows {
		parts[i] = conn.FirstPart(r.Row.Key)
	}
	err = s.server.Single(ctx, x, func(in conn.Session) error {
		places, err = s.server.PlacesIn(ctx, in, parts)
		return err
	})
	return places, err
}

func (s *Sweeper) deletePart(ctx context.Context, x *conn.Executor, rows []runtime.StoredRow) (deleted int, err error) {
	n, v := conn.Bind(rows)
	// Even a deletion needs room on the volume, for the log.
	err = s.server.WithRoom(ctx, func() error {
		return s.server.Single(ctx, x, func(in conn.Session) error {
			result, err := in.Exec(ctx, conn.DeleteUnchanged, n, v)
			if err != nil {
				return err
			}
			affected, err := result.RowsAffected()
			deleted = int(affected)
			return err
		})
	})
	return deleted, err
}
