package agree

import (
	"database/sql"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/inside"
)

// NewStore is [sqlstore.New] with the statements of a dialect, which a test may have changed.
func NewStore(db *sql.DB, d dialect.Dialect, o sqlstore.Options) (*sqlstore.Store, error) {
	return sqlstore.NewInside(db, o, inside.Options{Dialect: d})
}

// NewCreatingStore is [NewStore] for a store that creates all of its tables at their first use, as one of package sqlite
// does.
func NewCreatingStore(db *sql.DB, d dialect.Dialect, o sqlstore.Options) (*sqlstore.Store, error) {
	return sqlstore.NewInside(db, o, inside.Options{Dialect: d, AutoCreate: true})
}
