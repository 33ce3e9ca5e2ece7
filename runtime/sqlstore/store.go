// Package sqlstore keeps the counts of rate limits in a table of an SQL database. In this example, limits is the
// generated package, and err is not checked:
//
//	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
//	store, err := sqlstore.New(db, dialect.Postgres, sqlstore.Options{})
//	defer store.Close()
//	err = store.Start(ctx, limits.Policies()...)
//	limiter := limits.New(store)
//	decision, err := limiter.SendMessage(userID).Allow(ctx)
//
// # The model
//
// A [Store] is a database, a [dialect.Dialect] and a table. The first call of a limit is compared with what is registered of
// it, see below. A call then passes through leases, the deny cache and group commit, in which calls that arrive while a
// transaction is in flight share the next one, and a call that arrives alone runs in the goroutine of its caller. The
// remaining calls are a batch for the database. The batch is decided in the same way on every database: plain takes by one
// statement that decides and writes in a round trip, and what it cannot decide, in the end, by a transaction that reads and
// locks the rows in one order, decides in Go, writes the changes and commits. The ways between them, each for what it makes
// cheaper, stand in the table of strategies of package decide.
//
// The statements of a dialect are data: texts, with the few functions that only this database needs, such as decoding the
// insert id in which MySQL returns the result of an upsert. Package internal/fault has the error codes of each database with
// their meaning. A statement takes one row as parameters, and several rows as one JSON parameter, as one list per column or,
// on Vitess, as literals.
//
// WithTx runs the same statements in a transaction of the caller. The store then neither retries nor commits, and
// a conflict with another transaction is a [RetryTxError].
//
// On Postgres the store prepares no statements, so that it works behind a pooler that sends each transaction to another
// session of the server; see [dialect.Postgres] for the settings of drivers and poolers. On MySQL, MariaDB and SQLite each
// statement is prepared when it is first used, except that on MySQL a take from several rows is sent as text. On Vitess all
// are.
//
// Before its first use, the table is compared with the dialect's requirements: without its primary key, for example,
// it could hold two rows for one key. An error that is caused by the deployment says how to fix it, and wraps the
// driver's error.
//
// # Overrides
//
// Limits with overrides need a second table, see [dialect.OverridesTable], which Migrate creates if it gets their policies.
// It is a log: rows are added and not changed, but to erase a key (see [Store.Erase]), the newest of a key is in force, and
// an id is one more than the one before in the order of commits. So a process finds what is new by the last id that it has
// read. It does so when the first such limit is used, and then once per [Options.OverridesEvery], outside of decisions. On a
// cluster or a replica, a row is in force where it has arrived.
//
// Sweep deletes rows that are no longer needed; see [Options.KeepOverrides]. Do not update rows, and do not delete the
// newest ones: a process that finds fewer rows than it has read reads all of them again. To end entries, append others.
//
// # Registrations
//
// A third table, see [dialect.RegistryTable], says whose the limits are: their owner, the types of their keys and the format
// of their rows. Migrate writes it, and the first use of a limit is compared with it. A call of a limit that belongs to
// another program, that had another key, or whose rows a newer version has written, is refused with an error that wraps
// [runtime.ErrForeignCounts], names both sides and says what to do; calls of other limits go on. Ready reports the same when
// the program starts. Use [Options].Owner to share limits between programs, [Options].Table to keep programs apart, and
// [Store.Adopt] when one has taken the place of the other.
//
// # Durability
//
// By default the settings of the database apply: on a server, counts are usually on its disk before a call returns;
// for SQLite, see package sqlite. A limit can set relaxed durability if its counts may lose the last moments before
// a crash:
//
//   - Postgres then commits these transactions with synchronous_commit = off. With full durability it commits
//     them with synchronous_commit = on, or remote_apply if that is the session's setting.
//   - SQLite ignores relaxed. With full durability these transactions run with synchronous = FULL.
//   - MySQL and MariaDB have one setting for the whole server, innodb_flush_log_at_trx_commit: there a limit's
//     durability has no effect.
//
// A transaction of the caller has the caller's durability. Calls that share a statement or a transaction wait for the
// disk if one of them has to.
//
// # Time
//
// The time is the database's clock, measured every 30 seconds, so that hosts need not agree. It is off by at most half of
// the round trip of the measurement, and 0.2 ms for each second since; a measurement whose packets are late does not replace
// a better one. If the database's clock is set, or another server takes its place, calls go by the old clock until the next
// measurement.
//
// # When the database does not respond
//
// A call returns when its context ends, at its limit's timeout, and after [Timeout] at the latest; [Store.Do] has the
// details. A transaction is given up after half of [Timeout], or a quarter of a second after the last of its callers has
// left; the next one uses another connection. [Store.Do] lists the drivers that close the connection then, and the
// settings that the others need.
//
// While a database does not respond at all, its process does not open one connection after another: once a probe has had
// no answer for a second, calls and [RunInTx] wait, each for its own time, until one of the probes that follow has, and
// each probe opens at most one connection. They go on at most 4 seconds after the database responds again, or as soon as a
// pooler before it does. Statements that are slow, have a short timeout or wait for a lock do not matter, because the
// probe is a ping.
//
// The preparation at the first use continues after the context of the call that began it, so a timeout of a few round
// trips is enough.
//
// If packets are dropped, the server does not notice that a connection has ended, and keeps the rows of its transaction
// locked. Set idle_in_transaction_session_timeout on Postgres, idle_transaction_timeout on MariaDB, and wait_timeout on
// MySQL to a few seconds, for example in the data source name. Sessions that waited for such a row get it one after the
// other, each for that long: with [Options.Batch] 1 they may be many.
//
// CAPACITY.md says how many decisions per second a database carries, and what to do when that is not enough.
//
// The package imports no driver. Its subpackage sqlite brings the embedded one.
//
// # Guarantees
//
//   - Tokens reported as taken are committed.
//   - However many goroutines, processes and hosts call at once, the store admits as much as if they called one after
//     the other.
//   - A call that returns an error holds no slot and no reservation. If it was executed nonetheless, that is given back in the
//     background; tokens of a reservation may stay taken if its answer was lost: see the guarantees of runtime.
//   - A key without a row is full. Sweep deletes only rows of full keys, which are not needed.
//
// # Non-guarantees
//
//   - A call that returns an error of the database may have taken tokens: the connection may have been lost during the
//     commit, or the transaction may have been given up.
//   - A node of a Galera cluster may not yet see a commit of another node, unless connections set wsrep_sync_wait=1.
//     Without it the cluster admits no more either, but a denial or a Peek may be a moment old.
//   - Several primaries of a Galera cluster or of MySQL Group Replication do not share a clock: each store uses the clock of
//     its node. A clock that is ahead by d grants the tokens of d early, and until their clocks catch up the other nodes deny
//     the keys that it was used for. Synchronize them by NTP; on Galera, Ready returns an error if it
//     finds rows more than 10 seconds ahead.
//   - Proxies that send the statements of one connection to several servers, such as ProxySQL or MaxScale with read/write
//     splitting, or the statements of one transaction to several connections, are untested. So is Percona XtraDB Cluster,
//     whose servers cannot report whether a transaction is still open.
package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/decide"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/denycache"
	texts "github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/inside"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lane"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// Store is a [runtime.Store] in a table of an SQL database. It may be used by many goroutines at once, and
// the table by many stores.
type Store struct {
	server    *conn.Server
	prepared  *table.Prepared
	engine    *decide.Engine
	overrides *table.OverrideLog
	registry  *table.Registry
	sweeper   *table.Sweeper
	eraser    *table.Eraser

	// The stages of a call before the engine.
	leases  *lease.Store
	denials *denycache.Store
	group   queues
	undoer  *undoer

	// open ends when Close begins.
	open  context.Context
	close context.CancelCauseFunc
}

// queues is the stage that groups calls.
type queues interface {
	runtime.Store
	Shutdown(ctx context.Context) error
}

// New returns a store in a table of db, which the caller opens, and closes after the store. The
// table need not exist yet: see [Store.Migrate] and [Store.Ready]. The error is [runtime.ErrNoStore] if db is nil or the
// dialect is none, or about the table's name.
func New(db *sql.DB, d dialect.Dialect, o Options) (*Store, error) {
	if db == nil {
		return nil, noStoreError("the *sql.DB is nil: open the database with sql.Open, and pass it to sqlstore.New")
	}
	for _, known := range texts.All() {
		if known.Name == d.String() {
			return NewInside(db, o, inside.Options{Dialect: known})
		}
	}
	return nil, noStoreError("the dialect is none: pass one of package dialect to sqlstore.New, such as dialect.Postgres")
}

// NewInside is [New] for packages of this module, which alone can name its options.
func NewInside(db *sql.DB, o Options, in inside.Options) (*Store, error) {
	if o.Table == "" {
		o.Table = dialect.DefaultTable
	}
	if o.TwoPhase && in.Dialect.TwoPhase == "" {
		return nil, noStoreError("Options.TwoPhase is about the shards of dialect.Vitess: leave it out for dialect." + in.Dialect.Name)
	}
	server, err := conn.NewServer(db, in.Dialect, o.Table, o.Clock, in.Guard)
	if err != nil {
		return nil, err
	}
	p := &table.Prepared{Server: server, TwoPhase: o.TwoPhase}
	s := &Store{server: server, prepared: p, overrides: table.NewOverrideLog(p, table.LogSettings{
		Every: o.OverridesEvery, Keep: cmp.Or(o.KeepOverrides, override.DefaultKeep), AutoCreate: in.AutoCreate,
	})}
	s.registry = table.NewRegistry(p, o.Owner, s.overrides)
	s.engine = decide.NewEngine(p, in.Decider)
	s.sweeper = table.NewSweeper(p, s.overrides.View, in.Pages)
	s.eraser = &table.Eraser{OverrideLog: s.overrides}
	// A database with one writer is better off with the group's queue than with its own lock, also without batches.
	s.undoer = newUndoer(s)
	s.engine.Unknown = s.undoer.unknown
	grouping := group.Options{
		OneWriter: in.Dialect.OneWriter, Batch: o.Batch, Inline: s.engine.Inline, Undelivered: s.undoer.undelivered,
	}
	if in.Dialect.Keyspaces == "" {
		s.group = s.newGroup(grouping)
	} else {
		places := table.NewPlaces(p)
		var across func() *group.Store
		if o.TwoPhase {
			across = func() *group.Store {
				return group.New(decide.Across{Engine: s.engine, Places: places},
					group.Options{Batch: o.Batch, Undelivered: s.undoer.undelivered})
			}
		}
		s.group = lane.New(places, func() *group.Store { return s.newGroup(grouping) }, across)
	}
	s.denials = denycache.New(s.group, o.Clock)
	s.leases = lease.New(s.denials, o.Clock)
	s.open, s.close = context.WithCancelCause(context.Background())
	return s, nil
}

// noStoreError is a [runtime.ErrNoStore] with another remedy.
type noStoreError string

func (e noStoreError) Error() string { return string(e) }

func (e noStoreError) Unwrap() error { return runtime.ErrNoStore }

// newGroup returns the group of the engine. On a server, calls that share statements do not wait for the locks of others.
func (s *Store) newGroup(o group.Options) *group.Store {
	if o.OneWriter {
		return group.New(s.engine, o)
	}
	o.Wait, o.Holder = s.engine.Do, s.engine.Holder
	o.Connections = func() int { return s.server.DB.Stats().MaxOpenConnections }
	return group.New(decide.Bounded{Engine: s.engine}, o)
}

// usable returns an error for a nil or zero Store, which would hang or panic.
func (s *Store) usable() error {
	if s == nil || s.prepared == nil {
		return noStoreError("the *sqlstore.Store is nil or zero: make it with sqlstore.New")
	}
	return nil
}

// Close waits for calls in flight, refunds leased tokens, gives back slots and reservations of callers that have gone, and
// releases prepared statements. Later calls return [ErrClosed].
// It does not close the database. It returns within [Timeout], with an error if calls are still in flight by
// then because a connection does not respond.
func (s *Store) Close() error {
	if err := s.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bounds.Timeout-2*bounds.Grace)
	defer cancel()
	s.close(ErrClosed)
	s.overrides.Stop()
	// Leases refund their tokens through the group, so the group must still be running, and the gate still open.
	// The undoer comes last, because calls in flight may give it work.
	err := errors.Join(s.leases.Shutdown(ctx), s.group.Shutdown(ctx), s.undoer.shutdown(ctx))
	s.server.Gate.Close()
	s.prepared.Stop()
	_, late := conn.Bounded(ctx, func(context.Context) (struct{}, error) {
		// The group is idle, but a batch that it has given up may still be running.
		s.server.Gate.Open.Wait()
		s.prepared.Executor.Swap(nil).Close()
		return struct{}{}, nil
	})
	if late != nil {
		late = fmt.Errorf("calls are still in flight, on connections that do not respond: %w", late)
	}
	return errors.Join(err, late)
}
