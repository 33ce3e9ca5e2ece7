package runtime

import (
	"context"
	"database/sql"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
)

// Store keeps the counts. Package storetest is its contract: an implementation that passes it is a Store.
//
// A Store may be used by many goroutines at once.
//
// A store that decorates another one, to trace its calls for example, has a method that returns the other one, as the
// writers for [net/http.ResponseController] have:
//
//	Unwrap() Store
//
// What a store can do beyond Do is looked for along that chain: it is a [TxStore], a [RowLister] or an [Eraser], holds
// leased tokens (see [Lease]), which its method TakeLocal hands out, or keeps overrides. The methods of the first store that
// has them are called, so that these calls pass by the decorators before it: requests in a transaction, and takes of leased
// tokens, do not reach the Do of a decorator unless it has WithTx, WithConn or TakeLocal itself. A decorator without Unwrap,
// such as struct{ Store }, lacks these abilities, and requests that need one return an error of [OriginProgram].
type Store interface {
	// Do executes calls and returns one answer per call, as if the calls were executed one after the other in their
	// order, and those for one key at one instant. A call whose requests cannot all pass takes nothing, and does not
	// prevent the calls after it. The calls must not be changed afterwards, even after an error, because the store may
	// still be using them.
	//
	// An error means that not every call was answered. The answers are then nil, or have a zero [Answer] for each call
	// without one. Calls without an answer have taken nothing, unless ctx ended or the connection to the store was lost
	// while they were executed. The store then releases the slots that they have acquired, and cancels the tokens that they
	// have reserved, as far as it can know that.
	Do(ctx context.Context, calls []Call) ([]Answer, error)
}

// Call is a set of requests of which all pass or none does. If there are several, each must be a Take or a Check, and
// reserving ones may be among them. Takes of one key are decided one after the other: each needs the tokens of those
// before it too, and its UsableAfter and RetryAfter are those of the sum. Checks are decided before all takes, in whatever
// order the requests are: they do not need the tokens that the call takes from the same key, and the counts of several
// checks of one key do not add up. The slots of a key have one holder in a call: two Takes of them are
// [ErrInvalidCall].
type Call struct {
	Requests []Request
}

// String returns the limits of the call for errors: `limit "a", "b"`. It has no keys, which may be personal.
func (c Call) String() string {
	var names []string
	for i := range c.Requests {
		if p := c.Requests[i].Policy; p != nil {
			names = append(names, p.Name)
		}
	}
	return "limit " + words.Quoted(names, ", ")
}

// Answer is the result of a [Call].
type Answer struct {
	// Decisions holds one decision per request. If one of them denies, nothing was taken.
	Decisions []Decision
	// Err is why the call could not be executed: [ErrInvalidCount], [ErrExceedsCapacity], [ErrInvalidPolicy],
	// [ErrInvalidKey], [ErrInvalidCall] or [ErrSlotLost]. Nothing was changed then.
	Err error
	// At is the instant as of which the call was executed, in nanoseconds since 1970 UTC.
	At int64
	// Source is what has decided: a store that answers from the memory of this process says so, for observers.
	Source Source
}

// Answered reports whether the call was answered; false for the zero Answer.
func (a Answer) Answered() bool { return len(a.Decisions) > 0 || a.Err != nil }

// Allowed reports whether every request of the call passed.
func (a Answer) Allowed() bool {
	for _, d := range a.Decisions {
		if !d.Allowed {
			return false
		}
	}
	return a.Err == nil && len(a.Decisions) > 0
}

// Tx is a transaction of the caller: an [sql.Tx], or a type that embeds one. Stores never call Commit and Rollback, which
// pools and connections do not have: an [sql.DB] in place of a transaction does not compile, and an [sql.Conn] goes to
// WithConn.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Commit() error
	Rollback() error
}

// TxStore is a [Store] that can keep the counts inside a transaction of its caller.
type TxStore interface {
	Store
	// WithTx returns a store whose changes are committed if and only if tx is. It never begins, commits or rolls back,
	// and tx remains usable after a denial. The store returns [ErrNilTx] if tx is nil, and [ErrNoTx] if it cannot be a
	// transaction of the store.
	WithTx(tx Tx) Store
	// WithConn is WithTx for a transaction that the caller has begun by a statement on a connection. If none is open when the
	// store is called, it returns [ErrNoTx], and [ErrNilTx] if conn is nil.
	WithConn(conn *sql.Conn) Store
}

// InTx returns the store inside a transaction of the caller. If store is not a [TxStore], and decorates none, the result
// returns [ErrNoTx].
func InTx(store Store, tx Tx) Store {
	if inTx, ok := ability.Of[TxStore](store); ok {
		return inTx.WithTx(tx)
	}
	return noTx{ability.Missing(ErrNoTx, store)}
}

// InConn is [InTx] for a transaction that the caller has begun on a connection.
func InConn(store Store, conn *sql.Conn) Store {
	if inTx, ok := ability.Of[TxStore](store); ok {
		return inTx.WithConn(conn)
	}
	return noTx{ability.Missing(ErrNoTx, store)}
}

// noTx replaces a store without transactions: InTx has no error, so that methods can be chained after it.
type noTx struct{ err error }

func (n noTx) Do(context.Context, []Call) ([]Answer, error) { return nil, n.err }

// Source is the origin of a decision.
type Source uint8

const (
	// SourceStore: the rows of the store, or it should have been, but the store has failed.
	SourceStore Source = iota
	// SourceLease: leased tokens in the memory of this process; see [Lease].
	SourceLease
	// SourceDenyCache: a denial in the memory of this process; see the DenyCache of [Policy].
	SourceDenyCache
	// SourceMemory: the memory of this process, because the store has failed and the policy's OnError is [FailLocal].
	SourceMemory
	// SourceNone: no counts were needed, because of the policy's Mode or an invalid request.
	SourceNone

	endOfSources // every source before it has an entry in the table sources
)

var sources [endOfSources]string = [...]string{
	SourceStore: "store", SourceLease: "lease", SourceDenyCache: "deny cache", SourceMemory: "memory", SourceNone: "none",
}

// String returns the source in words: "deny cache".
func (s Source) String() string { return nameOf(entryOf(sources[:], s), s) }

// Row identifies a stored [State].
type Row struct {
	// Name is the name of the policy.
	Name string
	// Key is the key as it is stored.
	Key string
	// Shard counts from 0.
	Shard int
}

// Compare orders rows by name, key and shard. Every store locks rows in this order, so that transactions do not
// deadlock.
func (r Row) Compare(o Row) int {
	if c := strings.Compare(r.Name, o.Name); c != 0 {
		return c
	}
	if c := strings.Compare(r.Key, o.Key); c != 0 {
		return c
	}
	return r.Shard - o.Shard
}

// State is the stored count of one key of a limit, or of one shard of it. The zero State belongs to a new key, which is
// full.
type State struct {
	// Value is minus the number of tokens that the key lacked of a full one as of TS, so that capacity + Value of them
	// were available. For a [SlidingWindow] it is minus the tokens used in the window that begins at TS, and for a
	// precise one minus the tokens in its log. For [InFlight] it is minus the slots in use. An edit of the capacity
	// does not change Value: what was used stays used.
	Value float64
	// TS is the instant as of which Value holds, in nanoseconds since 1970 UTC. It never moves back.
	TS int64
	// Prev is the number of tokens used in the window before TS, for a [SlidingWindow], or if it was reset, a mark
	// between -1 and 0; for a precise one, and for [InFlight], a number of at most -1 that differs after each change;
	// otherwise minus the tokens ever taken, from a start derived from the instant of the first take, times
	// meter.TotalUnit.
	Prev float64
	// Log has the tokens of a precise [SlidingWindow] with the instants at which they were taken, or the holders of the
	// slots of [InFlight] with the ends of their holds, in a format of package meter. For other limits it has the tokens
	// that were returned to requests which were not the last one, and mostly is empty. If the key has a [Penalty], that is
	// before the rest.
	Log string
	// Exists distinguishes a stored State from the State of a new key.
	Exists bool
}

// StoredRow is a row of a store.
type StoredRow struct {
	Row   Row
	State State
}

// RowLister is a [Store] that can list its rows, for operators.
type RowLister interface {
	Store
	// Rows returns the rows of a limit after a row, in the order of [Row.Compare]: at most limit of them, and at most
	// [RowPage]. It reads by the primary key, so that a page of a large table is as fast as one of a small table. The
	// first page begins after the row with the name of the limit and Shard -1. The instant is that of the store's
	// clock, in nanoseconds since 1970 UTC.
	Rows(ctx context.Context, after Row, limit int) (rows []StoredRow, at int64, err error)
}

// RowPage is the most rows that [RowLister.Rows] returns at once.
const RowPage = 500
