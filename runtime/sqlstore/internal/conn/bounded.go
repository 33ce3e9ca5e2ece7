package conn

import (
	"database/sql"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// lockingStatements are those that may wait for a lock.
var lockingStatements = [...]Statement{ReadRows, SeedRows, TakeRows, TakeShards, TakeOne, SwapRow}

// newBounds returns the statements that wait for a lock for a moment only, or nil if the dialect has none.
func newBounds(db *sql.DB, d dialect.Dialect, schema, table string, queries Queries) (b *Bounds, err error) {
	b = &Bounds{queries: queries}
	switch {
	case d.BoundWaits != "":
		sources := rowSources(d)
		for i := range sources {
			for _, source := range []*string{&sources[i].rows, &sources[i].logged, &sources[i].keys} {
				*source += "\nWHERE " + d.BoundWaits
			}
		}
		d.CompareAndSwap += "\nAND " + d.BoundWaits
		if b.queries, err = newQueriesOf(d, schema, table, sources); err == nil {
			b.together, err = newTogether(d, schema, table, sources)
		}
		return b, err
	case d.BoundTime != "":
		for _, statement := range lockingStatements {
			for n := range b.queries[statement] {
				b.queries[statement][n].Sql = d.BoundTime + b.queries[statement][n].Sql
			}
		}
		return b, nil
	case d.Kill != "":
		b.killer = &killer{db: db, statements: d.Statements, kill: d.Kill}
		return b, nil
	}
	return nil, nil
}
