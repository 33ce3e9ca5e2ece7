package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// sweepPage is how many rows a sweep reads at once, and so the most that it deletes at once.
const sweepPage = 500

// Sweep deletes the rows of the policies that are worth no more than a key never seen, and have been so for
// an hour, and returns how many they were. It reads the table page by page, and deletes those of a page
// by one statement; a row that is used meanwhile stays. If ctx has no deadline, each page takes at most [Timeout].
// Run it now and then, from any one process. Rows of other policies are kept.
//
// The policies are to be those of every process that uses the table: the store cannot see that another process
// runs a larger limit of the same name, for which a row that looks full is not. While a deploy raises a capacity or
// lowers a rate, sweep with the policies of the new version, or of both: if several policies share a name, a row
// is deleted only if each of them allows it. If a policy is invalid, the error is [runtime.ErrInvalidPolicy], and
// nothing is deleted.
func (s *Store) Sweep(ctx context.Context, policies ...*runtime.Policy) (deleted int, err error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	for _, p := range policies {
		if err := p.Validate(); err != nil {
			return 0, err
		}
	}
	for i, p := range policies {
		named := func(o *runtime.Policy) bool { return o.Name == p.Name }
		if slices.IndexFunc(policies, named) < i {
			continue
		}
		same := slices.DeleteFunc(slices.Clone(policies), func(o *runtime.Policy) bool { return !named(o) })
		n, err := s.sweep(ctx, same)
		deleted += n
		if err != nil {
			return deleted, fmt.Errorf("sweep limit %q: %w", p.Name, s.explain(ctx, err))
		}
	}
	return deleted, nil
}

// sweep sweeps the rows of the policies of one name.
func (s *Store) sweep(ctx context.Context, same []*runtime.Policy) (deleted int, err error) {
	last := runtime.Row{Name: same[0].Name, Shard: -1}
	for {
		swept, err := bounded(ctx, func(ctx context.Context) (swept, error) { return s.sweepPage(ctx, same, last) })
		deleted += swept.deleted
		if err != nil || swept.empty {
			return deleted, err
		}
		last = swept.last
	}
}

// swept is what has become of a page of rows.
type swept struct {
	empty   bool
	last    runtime.Row
	deleted int
}

// sweepPage sweeps the rows that follow one.
func (s *Store) sweepPage(ctx context.Context, same []*runtime.Policy, after runtime.Row) (done swept, err error) {
	prepared, err := s.prepare(ctx)
	if err != nil {
		return done, err
	}
	now, err := s.now(ctx, s.db)
	if err != nil {
		return done, err
	}
	var page []stored
	err = s.single(ctx, prepared, func(in session) (err error) {
		page, err = pageAfter(ctx, in, after)
		return err
	})
	if err != nil || len(page) == 0 {
		done.empty = true
		return done, err
	}
	done.last = page[len(page)-1].row
	at := now()
	full := slices.DeleteFunc(page, func(r stored) bool { return !runtime.Sweepable(same, r.row, r.state, at) })
	done.deleted, err = s.forget(ctx, prepared, full)
	return done, err
}

// pageAfter returns the rows that follow one of the same name.
func pageAfter(ctx context.Context, in session, after runtime.Row) ([]stored, error) {
	_, v := bind([]stored{{row: after}})
	v[paramCount] = sweepPage
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
		r.state.Exists = r.state.TS != unseen
		page = append(page, r)
	}
	return page, rows.Err()
}

// forget deletes rows unless they have changed since they were read.
func (s *Store) forget(ctx context.Context, p *prepared, rows []stored) (deleted int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	form, v := bind(rows)
	once := func() error {
		return s.single(ctx, p, func(in session) error {
			result, err := in.exec(ctx, forgetRows, form, v)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			deleted = int(n)
			return err
		})
	}
	err = s.withRoom(ctx, func() error { return retry(ctx, once) })
	return deleted, err
}
