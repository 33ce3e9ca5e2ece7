// Package group commits the calls that arrive while a store is busy together, as one batch.
//
// # The model
//
// A call that finds the store idle goes to the backend at once. Calls that arrive while that one is in flight wait in a
// queue, and when it ends they go as one batch, in the order of their arrival: one transaction, in which a key is read and
// written once, however many calls it has. A database that commits a thousand transactions a second can so answer a
// hundred thousand calls, and grouping adds no wait to an idle store.
//
// A call goes like this:
//
//  1. If nothing is in flight, and the last call was alone too and was answered, the call is a lone one: it runs in the
//     goroutine of its caller, if the backend has an [InlineFunc] (alone.go). It saves half of what a goroutine and two
//     contexts cost.
//  2. Otherwise it joins a batch: the last one in the queue, or, if its key is in flight, the last one of those that wait for
//     that flight (queue.go). So all calls for a busy key meet in one batch.
//  3. The batches at the head of the queue begin, together, as a flight, which is one backend call (flight.go): at once if
//     nothing is in flight, and otherwise when the flight before has ended, or takes so long that its connection may be silent.
//  4. When the flight ends, its callers have their answers, and the batches that waited for it take their place in the
//     queue. The goroutine of the flight runs the next one, or ends.
//  5. A backend may say that another transaction has locked the row of a call, which it then has not answered, but the calls beside
//     it (locked.go). The call is made again in a flight that waits for this row alone; later calls for the row wait for that flight,
//     and no others. A flight of one row from the beginning becomes such a flight when it takes long (queue.go).
//  6. One timer ends the flights and calls that take too long (run.go).
//
// # Guarantees
//
//   - The calls of a batch are answered as if the backend was called with one after the other.
//   - A caller waits no longer than its context; in its own goroutine, at most twice [bounds.Glance] longer, and as long as the
//     InlineFunc takes to return then. With one writer, no caller that has a deadline runs it.
//   - A call whose context ends while it is queued takes nothing; one that is in flight may have taken, and if it was
//     answered, the caller gets the answer. The other calls of the batch are not affected.
//   - Of the caller and [Options.Undelivered], exactly one gets an answer, so that the store can give back slots of a
//     caller that has gone.
//   - A row that another transaction has locked makes only the calls wait that need it: with [Options.Wait], one flight waits for each
//     row, and at most half of the connections wait.
//   - A caller waits at most [bounds.Timeout], whatever its context, unless an InlineFunc with one writer takes longer.
//   - No goroutine runs while no caller waits, except for a backend call that goes on after its context has ended.
//
// # A backend that does not return
//
// The context of a batch ends after half of [bounds.Timeout], or shortly after its last caller has left. If the backend does
// not return then, the batch fails without it, and the next batch begins. The backend may still carry out
// the abandoned batch: its callers have got an error, and their tokens may be taken. If it returns answers, they are
// undelivered. Calls wait for a batch for a moment only: after [bounds.Glance], calls for other keys go around it, and after
// [bounds.Linger] those for its keys. If the call was a lone one, the next calls are batches until one of a single call is
// answered: a batch may take longer to open a connection than a lone call whose context ends soon.
//
// With one writer the next batch waits until the backend has returned, so batches are never reordered; only their callers
// stop waiting.
package group

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Store is a [runtime.Store] that groups the calls of another, its backend. It may be used by many goroutines at once.
type Store struct {
	backend runtime.Store
	wait    doFunc
	// queue is nil if there are no batches.
	queue *queue
	// undelivered is [Options.Undelivered].
	undelivered func(calls []runtime.Call, answers []runtime.Answer)
}

// New returns a store that groups the calls of a backend.
func New(backend runtime.Store, o Options) *Store {
	if o.Batch < 1 {
		o.Batch = DefaultBatch
	}
	if o.Undelivered == nil {
		o.Undelivered = func([]runtime.Call, []runtime.Answer) {}
	}
	s := &Store{backend: backend, wait: o.Wait, undelivered: o.Undelivered}
	if o.Batch > 1 || o.OneWriter {
		s.queue = newQueue(backend, o)
	}
	return s
}

// Do implements [runtime.Store]. The error is that of the backend or of ctx, or wraps [context.DeadlineExceeded] after
// [bounds.Timeout].
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := ctx.Err(); err != nil || len(calls) == 0 {
		return nil, err
	}
	if s.queue == nil {
		return doSingle(ctx, waiting(s.backend, s.wait), calls, s.undelivered)
	}
	return s.queue.do(ctx, calls)
}

// Shutdown waits until nothing is in flight. Later calls are not refused, which is up to the backend: each goes to it by
// itself. The error is that of ctx, if it ends first.
func (s *Store) Shutdown(ctx context.Context) error {
	if s.queue == nil {
		return nil
	}
	select {
	case <-s.queue.close():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("calls are still in flight: %w", ctx.Err())
	}
}

func newQueue(backend runtime.Store, o Options) *queue {
	q := &queue{
		backend: backend, wait: o.Wait, undelivered: o.Undelivered, inline: o.Inline, connections: o.Connections, holder: o.Holder,
		oneWriter: o.OneWriter, maxCalls: o.Batch, seed: maphash.MakeSeed(),
		wasAlone: true,
	}
	q.watchdog = time.AfterFunc(time.Hour, q.check)
	q.watchdog.Stop()
	return q
}
