package conn

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Single is [Server.Once], and again as [Retry] does.
func (s *Server) Single(ctx context.Context, x *Executor, fn func(Session) error) error {
	return x.Retry(ctx, func(ctx context.Context) error { return s.Once(ctx, x, fn) })
}

// Once runs fn outside of a transaction, unless the driver splits statements. The statements of fn may be executed twice
// without harm.
func (s *Server) Once(ctx context.Context, x *Executor, fn func(Session) error) error {
	if x.Splits {
		return s.InTx(ctx, x, runtime.DurabilityDefault, fn)
	}
	return fn(x)
}

// InTx runs fn in a transaction of the store, and commits it if fn returns no error. If ctx ends during the commit, or the
// commit has no response, the error is an [fault.ErrOutcomeUnknown].
func (s *Server) InTx(ctx context.Context, x *Executor, d runtime.Durability, fn func(in Session) error) error {
	// Before the transaction has a connection: in a pool of one, preparing would wait for it forever.
	if err := x.prepareWanted(ctx); err != nil {
		return err
	}
	return s.begin(ctx, func() error { return s.inTxOnce(ctx, x, d, fn) })
}

// InTwoPhases is InTx for a transaction that writes to several shards, all or none of them. If the commit fails, the outcome
// is unknown: the server may still decide to commit.
func (s *Server) InTwoPhases(ctx context.Context, x *Executor, fn func(in Session) error) error {
	return s.begin(ctx, func() error {
		conn, err := s.DB.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.ExecContext(ctx, s.Dialect.TwoPhase); err != nil {
			return unbegun(err)
		}
		defer func() {
			if _, err := conn.ExecContext(context.WithoutCancel(ctx), s.Dialect.OnePhase); err != nil {
				conn.Raw(func(any) error { return driver.ErrBadConn })
			}
		}()
		return s.inTxOn(ctx, conn, x, true, fn)
	})
}

// begin runs once, and again on another connection if the transaction could not be begun.
func (s *Server) begin(ctx context.Context, once func() error) error {
	err := reconnecting(ctx, s.DB, once)
	if unbegun := new(unbegunError); errors.As(err, &unbegun) && ctx.Err() == nil {
		return &fault.Hinted{Text: fault.ClosedAtBegin, Err: unbegun.err}
	}
	return err
}

// inTxOnce is one attempt of InTx, on one connection.
func (s *Server) inTxOnce(ctx context.Context, x *Executor, d runtime.Durability, fn func(in Session) error) error {
	// A connection and not db.BeginTx: withSync changes its settings, and ended may have to close it.
	conn, err := s.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.withSync(ctx, conn, d, func() error { return s.inTxOn(ctx, conn, x, false, fn) })
}

func (s *Server) inTxOn(ctx context.Context, conn *sql.Conn, x *Executor, twoPhase bool, fn func(in Session) error) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: s.Dialect.Isolation})
	if err != nil {
		return unbegun(ended(conn, err))
	}
	defer rollback(conn, tx)
	if err := fn(x.in(tx)); err != nil {
		return err
	}
	if x.Resends && s.Dialect.TxOpen != "" {
		// A Galera node may have aborted the transaction after its last statement; the commit would then succeed.
		if err := RequireOpen(ctx, tx, s.Dialect.TxOpen); err != nil {
			return err
		}
	}
	if s.Dialect.OneWriter {
		// A database in this process has committed if it says so, whatever the callers wait for: the answers are known.
		return ended(conn, tx.Commit())
	}
	err = commit(ctx, conn, tx)
	if err != nil && twoPhase && !fault.NoTwoPhase(err) {
		return fault.OutcomeUnknown(err)
	}
	return err
}

// ErrRollback ends a transaction without changes to keep.
var ErrRollback = errors.New("nothing to commit")

// SetsSync reports whether a durability is a setting of the session, and not of a statement.
func (s *Server) SetsSync(d runtime.Durability) bool {
	return s.Dialect.Sync != "" && d == runtime.DurabilityFull
}

// syncFull is the value of [dialect.Dialect.Sync] with which transactions wait for the disk.
const syncFull = 2

// withSync runs fn while the session waits for the disk, if the durability needs that.
func (s *Server) withSync(ctx context.Context, conn *sql.Conn, d runtime.Durability, fn func() error) error {
	if !s.SetsSync(d) {
		return fn()
	}
	var before int
	if err := conn.QueryRowContext(ctx, s.Place().Sync).Scan(&before); err != nil {
		return err
	}
	if before >= syncFull {
		// EXTRA, 3, waits even longer, and must not be lowered.
		return fn()
	}
	if err := s.setSync(ctx, conn, syncFull); err != nil {
		return err
	}
	// If resetting fails, the session waits for the disk more often than it must, which is only slower.
	defer s.setSync(context.WithoutCancel(ctx), conn, before)
	return fn()
}

func (s *Server) setSync(ctx context.Context, conn *sql.Conn, to int) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("%s = %d", s.Place().Sync, to))
	return err
}

// commit commits a transaction on a connection of its own. If ctx ends meanwhile, the outcome is unknown: lib/pq then
// cancels the wait for a synchronous standby, Postgres reports success, and a failover may lose the transaction.
func commit(ctx context.Context, conn *sql.Conn, tx *sql.Tx) error {
	// Tx.Commit returns this error too, which would then have the outcome of one that was sent.
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ended(conn, tx.Commit()); err != nil {
		return fault.OfCommit(err)
	}
	if err := ctx.Err(); err != nil {
		return fault.OutcomeUnknown(err)
	}
	return nil
}

// rollback rolls a transaction back unless it has ended.
func rollback(conn *sql.Conn, tx *sql.Tx) { ended(conn, tx.Rollback()) }

// ended returns err, and closes the connection if the server has refused to begin or end a transaction, as a Galera node
// does that has lost the others. The transaction is then still open, and if the connection returned to the pool, the next
// transaction on it could not begin, or would commit this one.
func ended(conn *sql.Conn, err error) error {
	if number := fault.MySQLNumber(err); number == fault.TxInProgress || number != 0 && !fault.Retryable(err) {
		conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

// RequireBegun returns [runtime.ErrNilTx] for nil, and [runtime.ErrNoTx] for a connection on which no transaction is open:
// it would commit each statement by itself. Every other type has a Commit, and returns [sql.ErrTxDone] after it.
func (s *Server) RequireBegun(ctx context.Context, tx Runner) error {
	if v := reflect.ValueOf(tx); tx == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return runtime.ErrNilTx
	}
	if _, raw := tx.(*sql.Conn); !raw {
		return nil
	}
	inside, err := Compile(s.Dialect, cmp.Or(s.Dialect.OnlyInTx, s.Dialect.NeverInTx), RowSource{}, "", s.Table)
	if err != nil || inside.Text == "" {
		return cmp.Or(err, errNotBegun)
	}
	for text := range strings.Lines(inside.Text) {
		if _, err = tx.ExecContext(ctx, strings.TrimSpace(text)); err != nil {
			break
		}
	}
	switch {
	case s.Dialect.OnlyInTx == "" && err == nil, s.Dialect.OnlyInTx != "" && fault.NoTx(err):
		return errNotBegun
	case s.Dialect.OnlyInTx == "" && fault.InTx(err):
		return nil
	}
	return err
}

var errNotBegun = fmt.Errorf("%w of a *sql.Conn without an open one, which commits each statement by itself: run BEGIN on it "+
	"before, or pass the *sql.Tx of BeginTx or of sqlstore.RunInTx to WithTx", runtime.ErrNoTx)

// RequireOpen returns an error if the session is not in a transaction.
func RequireOpen(ctx context.Context, tx Runner, statement string) error {
	var open bool
	// Without parameters no driver prepares it, so that the server reports an abort that has just happened.
	err := tx.QueryRowContext(ctx, statement).Scan(&open)
	if err == nil && !open {
		return fault.ErrTxEnded
	}
	return err
}
