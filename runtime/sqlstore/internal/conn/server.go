// Package conn is a database as a store uses it: a [Server] and its clock, connections that may be silent, retries, prepared
// statements and transactions.
package conn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Server is a database as a store uses it: through a dialect, in a table, by one clock.
type Server struct {
	DB      *sql.DB
	Circuit *Circuit
	Dialect dialect.Dialect
	Table   string
	// place has the statements for the table.
	place atomic.Pointer[Place]
	// Clock is the one of the store's options, or nil: then offset has the clock of the database.
	Clock  func() time.Time
	offset clock
	// offsetNow is offset.now. A method value made for each call would be an allocation.
	offsetNow func() int64
	// guard returns an error if the database must not be used. It may be nil.
	guard func(ctx context.Context) error
	Gate  Gate
	// Checked is set once the table has passed check.
	Checked atomic.Bool
	aborts  atomic.Int32 // of type txAborts
}

// NewServer returns the server of a pool, with the names of a table in the dialect's statements. The clock is that of the
// database if nil, and guard, which may be nil too, returns an error while the database must not be used.
func NewServer(db *sql.DB, d dialect.Dialect, table string, clock func() time.Time, guard func(ctx context.Context) error) (*Server, error) {
	place, err := newPlace(db, d, table, nil)
	if err != nil {
		return nil, err
	}
	s := &Server{DB: db, Dialect: d, Table: table, Clock: clock, guard: guard}
	s.place.Store(place)
	if d.Now != "" {
		s.Circuit = newCircuit(db)
	}
	s.offsetNow = s.offset.now
	return s, nil
}

// In returns the session of a transaction of the caller. It uses no prepared statements: to prepare one takes a second
// connection, and the caller may have the only one.
func (s *Server) In(tx Runner) Session { return &session{Runner: tx, queries: &s.Place().Queries} }

// Select runs a query, whose arguments are literals in it if the dialect needs that.
func (s *Server) Select(ctx context.Context, in Runner, query string, args ...any) (*sql.Rows, error) {
	if !s.Dialect.Literals {
		return in.QueryContext(ctx, query, args...)
	}
	var b []byte
	for _, arg := range args {
		before, after, _ := strings.Cut(query, "?")
		b, query = appendLiteral(append(b, before...), arg, false), after
	}
	return in.QueryContext(ctx, string(append(b, query...)))
}

// Guarded returns the error of guard. Every operation starts with it, but those
// in a transaction of the caller.
func (s *Server) Guarded(ctx context.Context) error {
	if s.guard == nil {
		return nil
	}
	err := s.guard(ctx)
	if err != nil && s.Gate.IsClosed() {
		return runtime.ErrClosed
	}
	return err
}

// Maintain runs a task of an operator, such as Migrate, under ctx's deadline or [bounds.Timeout].
func Maintain[T any](ctx context.Context, s *Server, task func(ctx context.Context) (T, error)) (T, error) {
	if err := s.Guarded(ctx); err != nil {
		var zero T
		return zero, err
	}
	value, err := Bounded(ctx, func(ctx context.Context) (T, error) {
		return through(ctx, s.Circuit, s.DB, func() (T, error) { return task(ctx) })
	})
	return value, s.Explain(ctx, err)
}

// Now returns the clock of the store. It is called before a transaction begins, because it may have to query the
// database; the clock is read when the rows are locked. Calls wait for the first measurement only, which is part of the
// store's preparation unless db is a transaction of the caller.
func (s *Server) Now(ctx context.Context, db Querier) (func() int64, error) {
	if s.Clock != nil {
		if _, err := meter.ReadClock(s.Clock); err != nil {
			return nil, err
		}
		return func() int64 { return s.Clock().UnixNano() }, nil
	}
	if s.Dialect.Now == "" {
		return func() int64 { return time.Now().UnixNano() }, nil
	}
	switch known, due, wait := s.offset.begin(); {
	case !known:
		if err := s.offset.measure(func() (reading, error) { return s.queryNow(ctx, db) }); err != nil {
			return nil, err
		}
	case due:
		s.renewOffset(ctx, db, wait)
	}
	return s.offsetNow, nil
}

// Present returns the store's time without a request: the clock was measured when the store was prepared.
func (s *Server) Present() int64 {
	switch {
	case s.Clock != nil:
		return s.Clock().UnixNano()
	case s.Dialect.Now != "" && s.offset.known():
		return s.offset.now()
	}
	return time.Now().UnixNano()
}

// renewOffset measures again, after begin has returned that it is due. The call that finds it due waits only if the clock
// may be off by much more than when it was measured, so that a late packet delays no call.
func (s *Server) renewOffset(ctx context.Context, db Querier, wait bool) {
	if _, pool := db.(*sql.DB); wait && !pool {
		// The caller's transaction may have the only connection.
		s.offset.measure(func() (reading, error) { return s.queryNow(ctx, db) })
		return
	}
	done := make(chan struct{})
	if !s.Gate.InBackground(func() {
		defer close(done)
		// The measurement serves all calls, so it does not end with the context of this one.
		s.offset.measure(func() (reading, error) {
			return Bounded(context.WithoutCancel(ctx), func(ctx context.Context) (reading, error) { return s.queryNow(ctx, s.DB) })
		})
	}) || !wait {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// queryNow reads the database's clock. It uses another connection if the server has closed an idle one.
func (s *Server) queryNow(ctx context.Context, db Querier) (read reading, err error) {
	err = reconnecting(ctx, s.DB, func() error {
		on := db
		if pool, ok := db.(*sql.DB); ok {
			// The wait for a connection must not count as part of the round trip.
			conn, err := pool.Conn(ctx)
			if err != nil {
				return unbegun(err)
			}
			defer conn.Close()
			on = conn
		}
		read.sent = time.Now()
		var micros int64
		err := on.QueryRowContext(ctx, s.Place().Now).Scan(&micros)
		read.now = time.UnixMicro(micros)
		return unbegun(err)
	})
	return read, err
}

// MadeRoom reports whether err was a full volume and the database has made room on it: SQLite's log keeps the changes of
// thousands of transactions, and fills a small volume although the table would fit ten times.
func (s *Server) MadeRoom(ctx context.Context, err error) bool {
	if err == nil || s.Dialect.Reclaim == "" || !fault.VolumeFull(err) {
		return false
	}
	_, err = s.DB.ExecContext(ctx, s.Place().Reclaim)
	// If there is no more room either, the first error is the better one.
	return err == nil
}

// WithRoom runs fn, and a second time if the volume was full and the database has made room on it.
func (s *Server) WithRoom(ctx context.Context, fn func() error) error {
	err := fn()
	if s.MadeRoom(ctx, err) {
		return fn()
	}
	return err
}

// Explain adds to an error of the database its cause and a hint: the end of the context, or of the store, shows up in
// the driver as something else.
func (s *Server) Explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if fault.Lost(err) {
		s.offset.hurry()
	}
	err = s.ExplainSession(ctx, s.DB, s.WithHint(err))
	cause := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		// A driver's own clock may be a moment ahead of the context's.
		cause = context.DeadlineExceeded
	}
	if s.Gate.IsClosed() {
		cause = runtime.ErrClosed
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// WithHint adds the hint for an error, if there is one, and removes keys from its text that a server has added.
func (s *Server) WithHint(err error) error {
	if err = fault.Cut(err); err == nil || errors.As(err, new(*fault.Hinted)) {
		return err
	}
	if fault.MalformedDSN(err) {
		// Not even wrapped, because a log may print the wrapped error.
		return &fault.Hinted{Text: fault.MalformedDSNHint, Err: nil}
	}
	if hint := fault.HintFor(err); hint != "" {
		if hint == fault.ClosedDatabase {
			err = closedPool{err}
		}
		return &fault.Hinted{Text: s.FillIn(hint), Err: err}
	}
	return err
}

// closedPool is the error of a closed [sql.DB]: a mistake of the program, and no failure of the database.
type closedPool struct{ error }

// Is makes it a [runtime.ErrClosed].
func (closedPool) Is(target error) bool { return target == runtime.ErrClosed }

// Unwrap returns the error of package sql.
func (c closedPool) Unwrap() error { return c.error }

// FillIn fills in the placeholders of a hint: {table} is the table's name in quotes, {dialect} the dialect's name, and
// {flags} the flags with which ratelimitgen sql prints the table.
func (s *Server) FillIn(hint string) string {
	flags := "-dialect " + s.Dialect.Name
	if s.Table != dialect.DefaultTable {
		flags += " -table " + s.Table
	}
	return strings.NewReplacer("{table}", strconv.Quote(s.Table), "{name}", s.Table, "{dialect}", s.Dialect.Name, "{flags}", flags).Replace(hint)
}

// ExplainServer adds the hint for an error of a statement that is about the server and not about the table. Without it, a
// system table that another database lacks would look like the missing table.
func (s *Server) ExplainServer(err error) error {
	if c := fault.CodeOf(err); c.In(c.Table.Foreign) {
		return &fault.Hinted{Text: s.FillIn(fault.WrongDialect), Err: err}
	}
	return err
}
