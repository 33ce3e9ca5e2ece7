package sqlstore

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Options are optional settings of a [Store]. The zero Options are the usual ones.
type Options struct {
	// Table is the name of the table, or schema.table: letters, digits and underscores. Without a schema, it is the one in
	// which the database finds the table when the store is first used, and all statements of the store then name it: call
	// [Store.Ready] before a transaction that changes its search path or database. The default is dialect.DefaultTable.
	Table string
	// Owner is whose the limits are, in place of the import path of their generated package: a name that programs have in
	// common which share limits, although each has generated code of its own. Policies made by hand have no other owner. See
	// [runtime.Registration].
	Owner string
	// Clock returns the current time, of the years 1700 to 2240. The default is the database's clock, or the clock of this
	// process if the database has no clock.
	Clock func() time.Time
	// Batch is the most calls that share a transaction: calls that arrive while a transaction is in flight share the
	// next one. The default is 1,000, also for less than 1. With 1 each call has a transaction and a goroutine of its own, also
	// a call that arrives alone.
	Batch int
	// TwoPhase is for a sharded keyspace of Vitess: calls whose keys lie on several shards, which are otherwise refused with a
	// [*runtime.ShardsError], take from all of them or none, by a two-phase commit. That needs a keyspace with the durability
	// policy semi_sync, which [Store.Ready] tries, and costs several times the transaction of one shard. While a shard is being
	// repaired, rows of such a call may stay locked. In a transaction of the caller, such calls are refused as ever.
	TwoPhase bool
	// OverridesEvery is how often the store reads the new entries of the table of overrides, once a limit with overrides is in
	// use. The default is 5 seconds.
	OverridesEvery time.Duration
	// KeepOverrides is how long the log of overrides keeps entries that have ended or were replaced: [Store.Sweep] deletes
	// those that are older, or a hundredth of that later. What is in force stays. The default is
	// 365 days; less than 0 keeps all, and Sweep then needs no privilege to delete them. If
	// several programs share the table, the shortest time applies.
	KeepOverrides time.Duration
}

// ErrClosed is the error of calls to a store after [Store.Close]. It is [runtime.ErrClosed].
var ErrClosed = runtime.ErrClosed

// ErrOutcomeUnknown is the error of [RunInTx], and of calls to a store, if the connection was lost during a commit, or the
// context ended meanwhile: the transaction may have been committed. After any other error of RunInTx it was not. A store
// that answers by a single statement, which is not in a transaction, may have taken tokens after any error of the
// connection.
var ErrOutcomeUnknown = fault.ErrOutcomeUnknown

// Timeout, 10 seconds, is the longest that a call waits if its context has no nearer deadline: 5 seconds for earlier
// calls, and 5 seconds for the database. It also bounds [Store.Close], and [Store.Ready], [Store.Migrate] and each page of
// [Store.Sweep] if their context has no deadline, and each call in a transaction of the caller whose context has none. See
// [Store.Do] for connections that do not respond.
const Timeout = bounds.Timeout
