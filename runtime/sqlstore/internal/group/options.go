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

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

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
	// Wait, if not nil, calls the backend for calls that may wait for locked rows: they are about one row, or the only ones
	// that wait for it. The backend must not wait long for the others, and returns a [*LockedError].
	Wait func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error)
	// Holder, if not nil, reports whether a row is locked, and describes the transaction, if the backend can.
	Holder func(ctx context.Context, row runtime.Row) (holder string, locked bool)
	// Connections, if not nil, returns the most connections of the backend, or 0 if there is no limit.
	Connections func() int
}

// InlineFunc calls the backend in the goroutine of a lone caller. If ok is false, it has done nothing, and the calls must
// go to the backend. It must return soon after ctx has ended, except with one writer.
type InlineFunc func(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error)

// errTimeout is the error of calls that the backend has not answered within [bounds.Timeout].
var errTimeout = fmt.Errorf("the database did not answer in time: %w", context.DeadlineExceeded)
