package sqlstore

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// DefaultTable is the name of the table if [Options] have none.
const DefaultTable = "rate_limits"

// Options are what a [Store] can be told. The zero Options are the usual ones.
type Options struct {
	// Table is the name of the table, or schema.table: letters, digits and underscores.
	// [DefaultTable] if empty.
	Table string
	// Clock tells the time; time.Now if nil.
	Clock func() time.Time
	// Taker, if not nil, is tried first for a call that it could decide. It is for packages that know
	// the driver.
	Taker Taker
}

// Store is a [runtime.Store] in a table of an SQL database. It may be used by many goroutines at once, and
// the table by many stores.
type Store struct {
	db      *sql.DB
	dialect Dialect
	table   string
	clock   func() time.Time
	taker   Taker

	mu       sync.Mutex
	prepared *statements
	closed   bool
}

// New returns a store in a table of db, which the caller has opened and will close after the store. The
// table need not exist yet: see [Store.Migrate]. The error is about the table's name.
func New(db *sql.DB, dialect Dialect, o Options) (*Store, error) {
	if _, err := dialect.DDL(o.Table); err != nil {
		return nil, err
	}
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Store{db: db, dialect: dialect, table: o.Table, clock: o.Clock, taker: o.Taker}, nil
}

// Do implements [runtime.Store]. The error is that of ctx or of the database, or
// [ErrClosed].
func (s *Store) Do(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, err error) {
	err = s.retry(ctx, func() error {
		answers, err = s.answer(ctx, calls)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// answer answers calls, by a single statement if it can.
func (s *Store) answer(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	st, err := s.statements(ctx)
	if err != nil {
		return nil, err
	}
	d, ok, err := s.take(ctx, calls)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return []runtime.Answer{{Decisions: []runtime.Decision{d}}}, nil
	}
	return s.locked(ctx, st, calls)
}

// now returns the instant in nanoseconds since 1970 UTC.
func (s *Store) now() int64 { return s.clock().UnixNano() }
