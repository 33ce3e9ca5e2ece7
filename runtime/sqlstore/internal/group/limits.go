package group

import (
	"context"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// What a call waits for when its context ends.
const (
	phaseQueued   = "waiting for earlier calls"
	phaseInFlight = "waiting for the database"
)

// linger is how long a flight that all callers have left may go on. Most answers that are late are a little late, and
// drivers abort a statement by closing its connection. Without linger, connections would be closed and opened all the
// time, and with a timeout shorter than it takes to open one, no call would ever succeed. Calls wait as long for a flight that
// has one of their keys.
const linger = 250 * time.Millisecond

// grace is how long the backend has to return after the context of a flight has ended.
const grace = 50 * time.Millisecond

// glance is how often the context of a lone caller is checked, and how long its statement may go on after that. After that
// time, too, the next flight goes around one that has not ended.
const glance = 25 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lockedPatience is how long calls for a row that another transaction has locked wait for the flight that waits for it, before one of
// them asks the database whether the row is still locked.
const lockedPatience = time.Second

// askTimeout is how long it may take to find out which transaction has locked a row.
const askTimeout = time.Second

// maxWaits is the most flights that wait for locked rows at once, each with a connection.
const maxWaits = 8

// Timeout is the longest that a call waits, whatever its context: up to half of it in the queue, and up to half of it for
// the backend. The error then wraps [context.DeadlineExceeded].
const Timeout = 10 * time.Second

// DefaultBatch is the default of [Options.Batch].
const DefaultBatch = 1000

// Options configure a [Store].
type Options struct {
	// OneWriter means that the backend is a database in this process that has one writer at a time.
	OneWriter bool
	// Batch is the most calls in a batch; 0 is [DefaultBatch]. If it is 1, each call goes to the backend at once and by itself,
	// but one after the other with one writer.
	Batch int
	// Undelivered, if not nil, gets the calls that the backend has answered, with their answers, after their callers have been
	// given an error, or have left. It must not call the store, and is called with a lock held.
	Undelivered func(calls []runtime.Call, answers []runtime.Answer)
	// Inline, if not nil, runs a call that finds the store idle in the goroutine of its caller.
	Inline InlineFunc
	// Wait, if not nil, calls the backend for calls that may wait for locked rows: they are about one row, or the only ones that wait
	// for it. The backend must not wait long for the others, and returns a [*LockedError].
	Wait func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error)
	// Holder, if not nil, reports whether a row is locked, and describes the transaction, if the backend can.
	Holder func(ctx context.Context, row runtime.Row) (holder string, locked bool)
	// Connections, if not nil, returns the most connections of the backend, or 0 if there is no limit.
	Connections func() int
}

// InlineFunc calls the backend in the goroutine of a lone caller. If ok is false, it has done nothing, and the calls must
// go to the backend. It must return soon after ctx has ended, except with one writer.
type InlineFunc func(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error)

// errTimeout is the error of calls that the backend has not answered within [Timeout].
var errTimeout = fmt.Errorf("the database did not answer in time: %w", context.DeadlineExceeded)
