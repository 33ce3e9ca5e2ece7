package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/denycache"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

var _ runtime.TxStore = (*Store)(nil)

// Do implements [runtime.Store]. The error is that of ctx or of the database, or [ErrClosed].
//
// Do returns when ctx ends, and after [Timeout] at the latest, even if a connection does not respond. A call that finds the
// store idle runs in the goroutine of its caller, if the driver is pgx or go-sql-driver, or a Decider runs in this process.
// With these drivers, it then returns within 50 ms of the end of ctx, after which they close the connection, or with the
// decision, if its statement has been executed by then. SQLite cannot interrupt a statement that waits for its disk, and a
// caller whose context has no deadline then may wait as long; callers with a deadline, such as that of a limit's timeout, do
// not.
//
// Other statements run in another goroutine, because a driver may ignore a context. The statement's context then ends, upon
// which pgx and go-sql-driver close the connection, and later calls use another one. A COMMIT of go-sql-driver, and anything
// of lib/pq, continues until the operating system gives the connection up, which takes up to 16 minutes if packets are
// dropped, and counts against [sql.DB.SetMaxOpenConns] for that long. For go-sql-driver, set readTimeout and writeTimeout in
// the data source name to a few seconds; for lib/pq, give its Connector a Dialer whose connections have the socket option
// TCP_USER_TIMEOUT.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	if err := s.server.Guarded(ctx); err != nil {
		return nil, err
	}
	refused, err := s.registry.Refuse(ctx, calls)
	if err != nil {
		return nil, err
	}
	calls = refused.Admitted(calls)
	answers, err := s.firstStage(calls).Do(ctx, calls)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = s.explainWait(err)
	}
	return refused.Answers(answers), err
}

// firstStage returns the first stage that one of the calls' limits uses. Most have neither a lease nor a deny cache.
func (s *Store) firstStage(calls []runtime.Call) runtime.Store {
	stage := runtime.Store(s.group)
	for i := range calls {
		for j := range calls[i].Requests {
			switch q := &calls[i].Requests[j]; {
			case q.Policy == nil:
			case q.Policy.Lease.Tokens > 0:
				return s.leases
			case denycache.Concerns(q):
				stage = s.denials
			}
		}
	}
	return stage
}

// TakeLocal takes n leased tokens of a key that this process holds. If it returns false, nothing was taken, and the request
// goes to Do. Handles of package limiter call it, for policies with a [runtime.Lease].
func (s *Store) TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool) {
	if s.usable() != nil {
		return runtime.Decision{}, false
	}
	return s.leases.TakeLocal(p, key, n)
}

// explainWait adds a hint to the error of a call that had no answer in time, if it may have waited for its own caller.
func (s *Store) explainWait(err error) error {
	if pool := s.server.DB.Stats(); s.engine.Decider == nil && pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections {
		return &fault.Hinted{Text: fmt.Sprintf("all %d connections of the *sql.DB are in use: in a transaction, make calls with WithTx(tx), "+
			"or raise db.SetMaxOpenConns", pool.MaxOpenConnections), Err: err}
	}
	// Only a call for a row that is locked can wait for its own transaction, or one for a database that has one writer.
	waits := s.server.Dialect.OneWriter || errors.As(err, new(*group.RowError))
	if age := conn.OldestRunInTx(s.server.DB); age >= time.Second && waits {
		return &fault.Hinted{Text: fmt.Sprintf("a transaction of RunInTx has been in flight for %v: if it waits for this call, make the call "+
			"with WithTx(tx)", age.Round(100*time.Millisecond)), Err: err}
	}
	return err
}
