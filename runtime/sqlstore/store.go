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
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

// DefaultTable is the name of the table if [Options] have none.
const DefaultTable = "rate_limits"

// Timeout is the longest that a call waits whose context has no nearer deadline: half of it for the calls before it, and
// half of it for the database. It also bounds [Store.Close], and [Store.Ready], [Store.Migrate] and each page of
// [Store.Sweep] if their context has no deadline. It does not bound calls in a transaction of the caller, which have the
// caller's context only. See [Store.Do] for connections that do not answer.
const Timeout = group.Timeout

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
	// Batch is the most calls that go together: those that arrive while a transaction is under way share the
	// next one. 0 is [group.DefaultBatch], and 1 gives each call its own.
	Batch int
	// Taker, if not nil, is tried first for a call that it could decide. It is for packages that know
	// the driver.
	Taker Taker
}

// Store is a [runtime.Store] in a table of an SQL database. It may be used by many goroutines at once, and
// the table by many stores.
type Store struct {
	front
	db      *sql.DB
	dialect Dialect
	table   string
	texts   texts
	// describe is the dialect's, for the table.
	describe string
	clock    func() time.Time
	taker    Taker
	offset   clock
	streaks  *streaks
	// checked says that the table has been seen to be as it must be.
	checked atomic.Bool
	aborts  atomic.Int32 // of type txAborts

	prepared  atomic.Pointer[prepared]
	preparing preparing

	// gate guards closed, and open counts the calls that came before.
	gate   sync.RWMutex
	closed bool
	open   sync.WaitGroup
}

// New returns a store in a table of db, which the caller has opened and will close after the store. The
// table need not exist yet: see [Store.Migrate] and [Store.Ready]. The error is about the table's name, or
// [runtime.ErrNoStore] if db is nil or the dialect is the zero one.
func New(db *sql.DB, dialect Dialect, o Options) (*Store, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: the *sql.DB is nil", runtime.ErrNoStore)
	}
	if dialect.Create == "" {
		return nil, fmt.Errorf("%w: the dialect has no statements: use one of this package, such as Postgres", runtime.ErrNoStore)
	}
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
	if dialect.Sync, err = dialect.Text(dialect.Sync, o.Table); err != nil {
		return nil, err
	}
	if dialect.Reclaim, err = dialect.Text(dialect.Reclaim, o.Table); err != nil {
		return nil, err
	}
	s := &Store{
		db: db, dialect: dialect, table: o.Table, texts: texts, describe: describe, clock: o.Clock, taker: o.Taker,
		streaks: newStreaks(),
	}
	s.front = newFront(direct{s}, dialect.Lanes, o)
	return s, nil
}

// usable returns an error for a store that New has not made, which would hang or panic.
func (s *Store) usable() error {
	if s == nil || s.db == nil {
		return fmt.Errorf("%w: make the sqlstore.Store with sqlstore.New", runtime.ErrNoStore)
	}
	return nil
}

// Do implements [runtime.Store]. The error is that of ctx or of the database, or [ErrClosed].
//
// Do returns when ctx ends, and after [Timeout] at the latest, even if a connection does not answer. The statement's
// context then ends, upon which pgx and go-sql-driver close the connection, and later calls use another one. A COMMIT of
// go-sql-driver, and anything of lib/pq, goes on until the operating system gives the connection up, which takes up to 16
// minutes if packets are dropped, and counts against [sql.DB.SetMaxOpenConns] for as long. For go-sql-driver, set
// readTimeout and writeTimeout in the data source name to a few seconds; for lib/pq, give its Connector a Dialer whose
// connections have the socket option TCP_USER_TIMEOUT.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return s.front.Do(ctx, calls)
}

var (
	_ runtime.TxStore    = (*Store)(nil)
	_ runtime.LocalTaker = (*Store)(nil)
)

// TakeLocal implements [runtime.LocalTaker].
func (s *Store) TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool) {
	if s.usable() != nil {
		return runtime.Decision{}, false
	}
	return s.front.TakeLocal(p, key, n)
}

// direct is a store without what stands before it.
type direct struct{ *Store }

// Do implements [runtime.Store].
func (d direct) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if !d.enter() {
		return nil, ErrClosed
	}
	defer d.open.Done()
	answers, err := d.askWithRoom(ctx, calls)
	if err != nil {
		return answers, d.explain(ctx, err)
	}
	return answers, nil
}

// enter counts a call in, unless the store is closed.
func (s *Store) enter() bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if !s.closed {
		s.open.Add(1)
	}
	return !s.closed
}

// inBackground runs f in a goroutine, unless the store is closed. Close waits for it.
func (s *Store) inBackground(f func()) bool {
	if !s.enter() {
		return false
	}
	go func() {
		defer s.open.Done()
		f()
	}()
	return true
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

func (s *Store) isClosed() bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.closed
}

// Close waits for calls in flight, gives back what is leased, releases what the store has prepared in the database, and
// lets every later call fail with [ErrClosed]. It does not close the database. It returns within [Timeout]; the error says
// so if calls are still in flight then, because a connection does not answer.
func (s *Store) Close() error {
	if err := s.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), Timeout-2*grace)
	defer cancel()
	err := s.front.close(ctx)
	s.gate.Lock()
	s.closed = true
	s.gate.Unlock()
	_, late := bounded(ctx, func(context.Context) (struct{}, error) {
		s.open.Wait()
		s.release()
		return struct{}{}, nil
	})
	if late != nil {
		late = fmt.Errorf("calls are still in flight, on connections that do not answer: %w", late)
	}
	return errors.Join(err, late)
}
