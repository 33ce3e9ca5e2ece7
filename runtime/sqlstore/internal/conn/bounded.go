package conn

import (
	"database/sql"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// newBounds returns the statements that wait for a lock for a moment only, or nil if the dialect has none.
func newBounds(db *sql.DB, d dialect.Dialect, schema, table string, queries Queries) (b *Bounds, err error) {
	b = &Bounds{queries: queries}
	switch {
	case d.BoundWaits != "":
		sources := rowSources(d)
		for i := range sources {
			for _, source := range []*string{&sources[i].rows, &sources[i].logged, &sources[i].keys, &sources[i].swapped,
				&sources[i].numbered} {
				*source += "\nWHERE " + d.BoundWaits
			}
		}
		d.CompareAndSwap += "\nAND " + d.BoundWaits
		d.TakeOne = "" // it has no source of rows, which would bound it
		if b.queries, err = newQueriesOf(d, schema, table, sources); err == nil {
			b.together, err = newTogether(d, schema, table, sources)
		}
		return b, err
	case d.BoundTime != "":
		for s := range b.queries {
			for n := range b.queries[s] {
				if q := &b.queries[s][n]; q.waits && q.Text != "" {
					q.Text = d.BoundTime + q.Text
				}
			}
		}
		return b, nil
	case d.BoundSession:
		return b, nil
	case d.Kill != "":
		b.killer = &killer{db: db, statements: d.Statements, kill: d.Kill}
		return b, nil
	}
	return nil, nil
}
