package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// DefaultTable is the name of the table if [Options] have none.
const DefaultTable = "rate_limits"

// ErrClosed: the store has been closed.
var ErrClosed = errors.New("the store is closed")

// Options are what a [Store] can be told. The zero Options are the usual ones.
type Options struct {
	// Table is the name of the table, or schema.table: letters, digits and underscores.
	// [DefaultTable] if empty.
	Table string
	// Clock tells the time. If nil it is the database's clock, or that of the process if the database has
	// none of its own.
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
	texts   texts
	// describe is the dialect's, for the table.
	describe string
	clock    func() time.Time
	taker    Taker
	offset   clock
	// checked says that the table has been seen to be as it must be.
	checked atomic.Bool

	mu       sync.Mutex
	prepared *prepared
	closed   bool
}

// New returns a store in a table of db, which the caller has opened and will close after the store. The
// table need not exist yet: see [Store.Migrate] and [Store.Ready]. The error is about the table's name.
func New(db *sql.DB, dialect Dialect, o Options) (*Store, error) {
	if o.Table == "" {
		o.Table = DefaultTable
	}
	texts, err := newTexts(dialect, o.Table)
	if err != nil {
		return nil, err
	}
	describe, err := dialect.Text(dialect.Describe, o.Table)
	if err != nil {
		return nil, err
	}
	return &Store{
		db: db, dialect: dialect, table: o.Table, texts: texts, describe: describe, clock: o.Clock, taker: o.Taker,
	}, nil
}

// Do implements [runtime.Store]. The error is that of ctx or of the database, or [ErrClosed].
func (s *Store) Do(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, err error) {
	err = retry(ctx, func() error {
		answers, err = s.answer(ctx, calls)
		return err
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return answers, nil
}

// explain says what is behind an error, and what to do about it: the end of the context, or of the store,
// shows itself in the database as something else.
func (s *Store) explain(ctx context.Context, err error) error {
	err = s.advise(err)
	cause := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		// A driver's own clock may be a moment ahead of the context's.
		cause = context.DeadlineExceeded
	}
	if s.isClosed() {
		cause = ErrClosed
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// answer answers calls, by a single statement if it can.
func (s *Store) answer(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	p, err := s.prepare(ctx)
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
	return s.locked(ctx, p, calls)
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close releases what the store has prepared in the database, and lets every later call fail with
// [ErrClosed]. It does not close the database.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.prepared != nil {
		s.prepared.close()
		s.prepared = nil
	}
	return nil
}
