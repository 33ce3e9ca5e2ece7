// Package inside has the options of a store that only packages of this module can set.
package inside

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/decide"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// Options are beside sqlstore.Options.
type Options struct {
	Dialect dialect.Dialect
	// AutoCreate creates the table of overrides if it is missing when the first limit with overrides is used, and the table of
	// registrations, in which it writes each limit at its first use. Without it, Migrate does so.
	AutoCreate bool
	// Decider, if not nil, decides in place of the dialect's statements.
	Decider decide.Decider
	// Pages, if not nil, deletes the rows of a sweep in place of the dialect's statements.
	Pages table.PageDeleter
	// Guard, if not nil, is called before each operation of the store; its error is returned, and nothing is done.
	Guard func(ctx context.Context) error
}
