package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrClosed is the error of calls to a store after [Store.Close].
var ErrClosed = errors.New("the store is closed")

// server is a database as a store uses it: through a dialect, in a table, by one clock.
type server struct {
	db      *sql.DB
	circuit *circuit
	dialect Dialect
	table   string
	queries queries
	// clock is the store's own, or nil for that of the database, which offset has.
	clock  func() time.Time
	offset clock
	// offsetNow is offset.now. A method value made for each call would be an allocation.
	offsetNow func() int64
	// guard returns an error if the database must not be used. It may be nil.
	guard func(ctx context.Context) error
	gate
	// checked is set once the table has passed check.
	checked atomic.Bool
	aborts  atomic.Int32 // of type txAborts
}

func newServer(db *sql.DB, d Dialect, table string, clock func() time.Time, guard func(ctx context.Context) error) (*server, error) {
	d, err := d.forTable(table)
	if err != nil {
		return nil, err
	}
	queries, err := newQueries(d, table)
	if err != nil {
		return nil, err
	}
	s := &server{db: db, dialect: d, table: table, queries: queries, clock: clock, guard: guard}
	if d.Now != "" {
		s.circuit = newCircuit(db)
	}
	s.offsetNow = s.offset.now
	return s, nil
}

// guarded returns the error of guard. Every operation starts with it, but those
// in a transaction of the caller.
func (s *server) guarded(ctx context.Context) error {
	if s.guard == nil {
		return nil
	}
	err := s.guard(ctx)
	if err != nil && s.isClosed() {
		return ErrClosed
	}
	return err
}

// maintain runs a task of an operator, such as Migrate, under ctx's deadline or [Timeout].
func maintain[T any](ctx context.Context, s *server, task func(ctx context.Context) (T, error)) (T, error) {
	if err := s.guarded(ctx); err != nil {
		var zero T
		return zero, err
	}
	value, err := bounded(ctx, func(ctx context.Context) (T, error) {
		return through(ctx, s.circuit, s.db, func() (T, error) { return task(ctx) })
	})
	return value, s.explain(ctx, err)
}

// now returns the clock of the store. It is called before a transaction begins, because it may have to query the
// database; the clock is read when the rows are locked. Calls wait for the first measurement only, which is part of the
// store's preparation unless db is a transaction of the caller.
func (s *server) now(ctx context.Context, db querier) (func() int64, error) {
	if s.clock != nil {
		return func() int64 { return s.clock().UnixNano() }, nil
	}
	if s.dialect.Now == "" {
		return func() int64 { return time.Now().UnixNano() }, nil
	}
	if s.offset.known() {
		s.renewOffset(ctx)
		return s.offsetNow, nil
	}
	err := s.offset.refresh(func() (sent, now time.Time, err error) { return s.queryNow(ctx, db) })
	if err != nil {
		return nil, err
	}
	return s.offsetNow, nil
}

// present returns the store's time without a request: the clock was measured when the store was prepared.
func (s *server) present() int64 {
	switch {
	case s.clock != nil:
		return s.clock().UnixNano()
	case s.dialect.Now != "" && s.offset.known():
		return s.offset.now()
	}
	return time.Now().UnixNano()
}

// renewOffset measures again if the measurement is old. The call that finds it old waits.
func (s *server) renewOffset(ctx context.Context) {
	if !s.offset.begin() {
		return
	}
	type times struct{ sent, now time.Time }
	done := make(chan struct{})
	if !s.inBackground(func() {
		defer close(done)
		// The measurement serves all calls, so it does not end with the context of this one.
		s.offset.measure(func() (sent, now time.Time, err error) {
			t, err := bounded(context.WithoutCancel(ctx), func(ctx context.Context) (t times, err error) {
				t.sent, t.now, err = s.queryNow(ctx, s.db)
				return t, err
			})
			return t.sent, t.now, err
		})
	}) {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// queryNow returns the database's clock, and when the query was sent. It uses another connection if the server has closed
// an idle one.
func (s *server) queryNow(ctx context.Context, db querier) (sent, now time.Time, err error) {
	err = reconnecting(ctx, s.db, func() error {
		sent, now, err = s.queryNowOnce(ctx, db)
		return unbegun(err)
	})
	return sent, now, err
}

func (s *server) queryNowOnce(ctx context.Context, db querier) (sent, now time.Time, err error) {
	if pool, ok := db.(*sql.DB); ok {
		// The wait for a connection must not count as part of the round trip.
		conn, err := pool.Conn(ctx)
		if err != nil {
			return sent, now, err
		}
		defer conn.Close()
		db = conn
	}
	sent = time.Now()
	var micros int64
	err = db.QueryRowContext(ctx, s.dialect.Now).Scan(&micros)
	return sent, time.UnixMicro(micros), err
}

// madeRoom reports whether err was a full volume and the database has made room on it: SQLite's log keeps the changes of
// thousands of transactions, and fills a small volume although the table would fit ten times.
func (s *server) madeRoom(ctx context.Context, err error) bool {
	if s.dialect.Reclaim == "" || !volumeFull(err) {
		return false
	}
	_, err = s.db.ExecContext(ctx, s.dialect.Reclaim)
	// If there is no more room either, the first error is the better one.
	return err == nil
}

// withRoom runs fn, and a second time if the volume was full and the database has made room on it.
func (s *server) withRoom(ctx context.Context, fn func() error) error {
	err := fn()
	if s.madeRoom(ctx, err) {
		return fn()
	}
	return err
}

// explain adds to an error of the database its cause and a hint: the end of the context, or of the store, shows up in
// the driver as something else.
func (s *server) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = s.withHint(err)
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

// withHint adds the hint for an error, if there is one.
func (s *server) withHint(err error) error {
	if err == nil || errors.As(err, new(*hintedError)) {
		return err
	}
	if malformedDSN(err) {
		// Not even wrapped, because a log may print the wrapped error.
		return &hintedError{malformedDSNHint, nil}
	}
	if hint := hintFor(err); hint != "" {
		return &hintedError{s.fillIn(hint), err}
	}
	return err
}

// fillIn fills in the placeholders of a hint: {table} is the table's name in quotes, {dialect} the dialect's name, and
// {flags} the flags with which ratelimitgen sql prints the table.
func (s *server) fillIn(hint string) string {
	flags := "-dialect " + s.dialect.Name
	if s.table != DefaultTable {
		flags += " -table " + s.table
	}
	return strings.NewReplacer("{table}", strconv.Quote(s.table), "{dialect}", s.dialect.Name, "{flags}", flags).Replace(hint)
}

// explainServer adds the hint for an error of a statement that is about the server and not about the table. Without it, a
// system table that another database lacks would look like the missing table.
func (s *server) explainServer(err error) error {
	if c := codeOf(err); c.in(c.table.foreign) {
		return &hintedError{s.fillIn(wrongDialect), err}
	}
	return err
}
