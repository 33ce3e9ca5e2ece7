// Package sqlstore keeps the counts of rate limits in an SQL database.
//
// # The model
//
// A [Store] is a database, a [Dialect] and a table. Calls that arrive while a transaction is under way share the
// next one; see the package internal/group. What it does with a batch of calls is the same on every database. Tokens that
// are plainly taken from a token bucket or a fixed window are taken by one statement a limit, which decides and
// writes in one round trip, on MySQL if all of them are of one row: see [runtime.Upsert]. For everything else, and
// for what the statements have not taken, it begins a transaction, reads the rows that the calls are about, in one
// order and locked, lets [runtime.Batch] answer, writes what has changed, and commits. A row that is not there
// cannot be locked, so it is inserted first, marked as never seen. Calls about one row need no transaction: it is
// read, and written if it still is what it was; only if somebody else was faster does it come to one. On a
// server, they begin with that if the row had too little again and again: to take in vain is a round trip for nothing.
//
// A dialect is the text of the statements and nothing else. A statement takes one row as parameters, and any
// number of rows as one parameter in JSON, or as a list for each column. A package that knows a driver may have a
// faster way to take, a [Taker].
//
// The same statements run in a transaction of the caller, by WithTx: then the store neither retries nor
// commits, and a conflict is a [RetryTxError].
//
// On Postgres the store prepares no statements, so that it works behind a pooler that sends each transaction to another
// session of the server; see [Postgres] for what drivers and poolers must be set to. On MySQL, MariaDB and SQLite each
// statement is prepared at its first use.
//
// Before its first use, the table is compared with what the dialect says it must be: one without its primary
// key, for example, would have two rows of one key. An error that comes of how the program is deployed says
// what to do, and wraps the driver's.
//
// # Durability
//
// The default is what the database is set up for: on a server, counts are usually on its disk before a call
// is answered, as everything else that it keeps; of SQLite, package sqlite tells. A limit of its own can be relaxed,
// for counts that a crash may set back by some moments:
//
//   - Postgres then does not wait for the disk when it commits (synchronous_commit = off, for these transactions
//     only), and waits if the limit's durability is full: as with synchronous_commit = on, or remote_apply if that is
//     set.
//   - SQLite is not told to wait; for full, these transactions run with synchronous = FULL.
//   - MySQL and MariaDB have one setting for the whole server, innodb_flush_log_at_trx_commit: there a limit's
//     durability has no effect.
//
// In a transaction of the caller, it is the caller's. Calls that share a statement, or a transaction, wait for the disk if
// one of them does.
//
// # Time
//
// The time is the database's, measured now and then, so that hosts need not agree.
//
// # When the database does not answer
//
// A call returns when its context ends, at its limit's timeout, and after [Timeout] at the latest. A transaction is given
// up after half of [Timeout], or a quarter of a second after the last of its calls has returned; the next one uses another
// connection. [Store.Do] says which drivers then close the connection, and which settings help the others. Calls in a
// transaction of the caller have the caller's context only.
//
// What the store prepares at its first use goes on when the call that began it has ended, so that a timeout of a few round
// trips is enough.
//
// If packets are dropped, the server does not hear of the end of a connection either, and keeps the rows locked that a
// transaction had locked. Set idle_in_transaction_session_timeout on Postgres, idle_transaction_timeout on MariaDB, and
// wait_timeout on MySQL, to a few seconds, for example in the data source name. Sessions
// that waited for such a row get it one after the other, each for as long as that: with [Options.Batch] 1 they may be many.
//
// How many decisions a second a database carries, and what to do when they are not enough, is in CAPACITY.md.
//
// The package imports no driver. Package sqlite, below it, brings the embedded one.
//
// # What is guaranteed
//
//   - What a call was told is taken has been committed.
//   - However many goroutines, processes and hosts ask at once, as much is admitted as if they asked one
//     after the other.
//   - A row that is not stored is that of a key never seen. Sweep deletes only rows that are worth no more.
//
// # What is not
//
//   - That a call whose error came from the database took nothing: if the connection broke while it was
//     committing, or the transaction was given up, it may have.
//   - That a node of a Galera cluster sees at once what another has committed: for that, connections set
//     wsrep_sync_wait=1. Without it, no more is admitted either, but a denial or a Peek may come from a
//     moment before.
//   - That several primaries of a Galera cluster or of MySQL Group Replication have one time: each store uses the clock of
//     the node that it is connected to. A clock that is ahead by d grants the tokens of d early, and keys that it was used
//     for get no more by the other nodes until their clocks are there. Synchronize them by NTP; on Galera, Ready returns
//     an error if it sees rows more than 10 seconds ahead.
//   - Anything behind a proxy that sends the statements of one connection to several servers, such as ProxySQL or MaxScale
//     with read/write splitting, or the statements of one transaction to several connections: no such proxy was tested.
//     Neither was Percona XtraDB Cluster, whose servers cannot report whether a transaction is still open.
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

// preparing is what the callers of prepare share. It outlives their contexts, because otherwise a deadline that is shorter
// than the round trips of a preparation would never let the store begin.
type preparing struct {
	mu sync.Mutex
	// under is the preparation under way, nil if there is none.
	under *preparation
}

// preparation is one attempt to prepare.
type preparation struct {
	// done is closed when p and err are set.
	done chan struct{}
	p    *prepared
	err  error
}

// prepare returns the statements, which are prepared at the first use, when the table must exist. That goes on in the
// background when ctx ends. If it fails, those who wait for it get the error, and the next call tries again.
func (s *Store) prepare(ctx context.Context) (*prepared, error) {
	if s.isClosed() {
		return nil, ErrClosed
	}
	if p := s.prepared.Load(); p != nil {
		return p, nil
	}
	under := s.preparation(ctx)
	if under == nil {
		return nil, ErrClosed
	}
	select {
	case <-under.done:
		return under.p, under.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// preparation returns the preparation under way, and begins one if there is none. It returns nil if the store is closed.
func (s *Store) preparation(ctx context.Context) *preparation {
	s.preparing.mu.Lock()
	defer s.preparing.mu.Unlock()
	if s.preparing.under != nil {
		return s.preparing.under
	}
	under := &preparation{done: make(chan struct{})}
	if !s.inBackground(func() { s.runPreparation(context.WithoutCancel(ctx), under) }) {
		return nil
	}
	s.preparing.under = under
	return under
}

// preparationTimeout is less than a call has, so that a call after one that met a connection that does not answer is not
// bound to the same connection.
const preparationTimeout = Timeout / 4

// runPreparation ends a preparation after [preparationTimeout]. If it succeeds later, its statements are used all the same.
func (s *Store) runPreparation(ctx context.Context, under *preparation) {
	ctx, cancel := context.WithTimeout(ctx, preparationTimeout)
	defer cancel()
	under.p, under.err = bounded(ctx, s.prepareNow)
	s.preparing.mu.Lock()
	defer s.preparing.mu.Unlock()
	s.preparing.under = nil
	close(under.done)
}

// prepareNow returns the statements, and prepares them under ctx if nobody has. Its error is the database's or the
// pooler's own, however long they took for it.
func (s *Store) prepareNow(ctx context.Context) (*prepared, error) {
	if p := s.prepared.Load(); p != nil {
		return p, nil
	}
	p, err := s.prepareChecked(ctx)
	if err != nil {
		return nil, err
	}
	return s.keep(p)
}

// prepareChecked finds out how to run the statements, compares the table with what it must be, and measures the database's clock.
func (s *Store) prepareChecked(ctx context.Context) (*prepared, error) {
	p, err := s.newPrepared(ctx)
	if err != nil {
		return nil, err
	}
	if err = s.check(ctx, s.db); err != nil {
		err = s.blameTable(ctx, p, err)
	} else {
		_, err = s.now(ctx, s.db)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// keep returns the statements that are used from now on: those of a preparation that was faster, if there are some.
func (s *Store) keep(p *prepared) (*prepared, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		p.close()
		return nil, ErrClosed
	}
	for !s.prepared.CompareAndSwap(nil, p) {
		if other := s.prepared.Load(); other != nil {
			p.close()
			return other, nil
		}
	}
	return p, nil
}

// release releases the statements of a store that is closed.
func (s *Store) release() { s.prepared.Swap(nil).close() }
