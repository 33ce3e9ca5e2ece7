package group

import (
	"context"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// queue is the calls that wait, and the flights.
type queue struct {
	backend runtime.Store
	// wait is Options.Wait, or nil.
	wait        doFunc
	undelivered func(calls []runtime.Call, answers []runtime.Answer)
	inline      InlineFunc
	connections func() int
	holder      func(ctx context.Context, row runtime.Row) (holder string, locked bool)
	oneWriter   bool
	maxCalls    int
	seed        maphash.Seed
	// joined is how many callers have joined a batch.
	joined atomic.Int64

	mu sync.Mutex
	// waiting holds the batches to come, in their order. Calls join the last one, or the last one that waits after the
	// flight that has their key.
	waiting []*batch
	// flights are at most maxFlights, the newest last, and those that wait for locked rows, whose number is in waits. With one
	// writer there is at most one, and it ends only when the backend has returned, even if it was abandoned.
	flights []*flight
	// lone is the flight of lone callers, which one uses after the other. wasAlone: the last flight was answered, and had one
	// call, during which no other came, so that the next one is probably alone.
	lone     *flight
	wasAlone bool
	waits    int
	// answered is when a flight was last answered.
	answered time.Time
	// watchdog fires when a flight may have exceeded its time, which is at watched, or zero. It keeps running from one
	// flight to the next, because stopping and starting it costs more than letting it fire in vain now and then.
	watchdog *time.Timer
	watched  time.Time
	// lastSize is how many calls the last batch had: the room that the next one begins with.
	lastSize int
	// idle is nil until close. It is closed when nothing is in flight any more, and closed is then set.
	idle   chan struct{}
	closed bool
}

// maxFlights is one that takes too long, and one that goes around it.
const maxFlights = 2

// maxTurns bounds how often the processor is left to callers that return. With 64 callers, a decision costs 15 % less than
// with one turn.
const maxTurns = 8

// keyOf returns the hash of the first row of calls. Other rows only make a statement wait for another one's.
func (q *queue) keyOf(calls []runtime.Call) uint64 {
	if q.oneWriter || len(calls[0].Requests) == 0 {
		return 0
	}
	return q.hashOf(rowOf(&calls[0].Requests[0]))
}

// hashOf returns the hash of a row, which is not 0.
func (q *queue) hashOf(r runtime.Row) uint64 {
	return maphash.String(q.seed, r.Name) ^ bits.RotateLeft64(maphash.String(q.seed, r.Key), 1) | 1<<63
}

// listLocked returns the list that calls wait in, the first of whose rows has this hash.
func (q *queue) listLocked(calls []runtime.Call, key uint64) *[]*batch {
	for _, f := range q.flights {
		if !f.waits && f.has(key) || f.waits && q.needRow(calls, f) {
			q.watchLocked(f.patience)
			return &f.after
		}
	}
	return &q.waiting
}

// needRow reports whether calls need the row that a flight waits for. Those that only read do not.
func (q *queue) needRow(calls []runtime.Call, f *flight) bool {
	for _, c := range calls {
		reads := true
		for i := range c.Requests {
			reads = reads && c.Requests[i].Op.Reads()
		}
		for i := range c.Requests {
			if !reads && f.has(q.hashOf(rowOf(&c.Requests[i]))) {
				return true
			}
		}
	}
	return false
}

// batchLocked returns the last batch of a list if it has room for so many calls, or a new one.
func (q *queue) batchLocked(list *[]*batch, calls int) *batch {
	// The calls of one caller stay in one batch, even if they are more than maxCalls.
	if n := len(*list); n > 0 && len((*list)[n-1].calls)+calls <= q.maxCalls {
		return (*list)[n-1]
	}
	b := newBatch(q.lastSize)
	if !q.oneWriter {
		b.keys = new(keySet)
	}
	*list = append(*list, b)
	// Nothing else may fire: the flight before may have been abandoned, and never return.
	q.watchLocked(b.created.Add(bounds.Timeout))
	return b
}

// nextLocked begins the next flight, if there is one to begin, and returns it.
func (q *queue) nextLocked() *flight {
	for q.readyLocked() {
		n, size := 0, 0
		for n < len(q.waiting) && (n == 0 || size+len(q.waiting[n].calls) <= q.maxCalls) {
			size += len(q.waiting[n].calls)
			n++
		}
		q.lastSize = size
		f := newFlightLocked(q.waiting[:n], time.Now())
		rest := slices.Clone(q.waiting[n:])
		q.waiting = nil
		if f == nil {
			q.waiting = rest
			continue
		}
		// One flight waits for a row. Those that follow it only ask whether it is still locked.
		f.mayWait = q.wait != nil && f.row != 0 && q.waiterLocked(f.row) == nil && q.mayWaitLocked()
		q.flights = append(q.flights, f)
		for _, b := range rest {
			if f.keys != nil && b.keys.meets(f.keys) {
				f.after = append(f.after, b)
			} else {
				q.waiting = append(q.waiting, b)
			}
		}
		if len(f.after) > 0 || f.mayWait {
			q.watchLocked(f.patience)
		}
		q.watchLocked(f.deadline)
		return f
	}
	return nil
}

// readyLocked reports whether another flight is to begin: because there is none, or because the last one is overdue, and its
// connection may be silent. Those that wait for locked rows do not count.
func (q *queue) readyLocked() bool {
	switch {
	case len(q.waiting) == 0:
		return false
	case len(q.flights) == 0:
		return true
	case q.oneWriter:
		return false
	}
	now, n, overdue := time.Now(), 0, time.Time{}
	for _, f := range q.flights {
		late := !now.Before(f.began.Add(bounds.Glance))
		// If the database has answered others meanwhile, the connection is not silent.
		if late && f.mayWait && !f.waits && (q.answered.After(f.began) || !now.Before(f.patience)) {
			f.waits = true
			q.waits++
		}
		if !f.waits {
			n++
			overdue = f.began.Add(bounds.Glance)
			switch {
			case !late:
				q.watchLocked(overdue)
			case f.mayWait && now.Before(f.patience):
				q.watchLocked(f.patience)
			}
		}
	}
	return n == 0 || n < maxFlights && !now.Before(overdue)
}

// waiterLocked returns the flight whose statement waits for a row, or would, or nil.
func (q *queue) waiterLocked(row uint64) *flight {
	for _, f := range q.flights {
		if f.mayWait && f.row == row {
			return f
		}
	}
	return nil
}

// mayWaitLocked reports whether one more flight may wait for a locked row: there are at most as many as half of the
// connections.
func (q *queue) mayWaitLocked() bool {
	n := 0
	for _, f := range q.flights {
		if f.mayWait {
			n++
		}
	}
	if n == 0 || n >= bounds.MaxWaits || q.connections == nil {
		return n < bounds.MaxWaits
	}
	connections := q.connections()
	return connections == 0 || n < connections/2
}

// endLocked ends a flight, so that the batches that waited for its keys may begin. It returns false if the flight has
// ended before.
func (q *queue) endLocked(f *flight) bool {
	i := slices.Index(q.flights, f)
	if i < 0 {
		return false
	}
	q.flights = slices.Delete(q.flights, i, i+1)
	if f.waits {
		q.waits--
	}
	q.releaseLocked(f)
	// Not kept while the queue is idle.
	f.lone, f.need = nil, runtime.Row{}
	q.wasAlone = false
	return true
}

// releaseLocked lets the batches that wait for a flight's keys wait no longer. They have their place in the order of
// arrival: at the end, others would come before them again and again.
func (q *queue) releaseLocked(f *flight) {
	if len(f.after) == 0 {
		return
	}
	q.waiting = append(q.waiting, f.after...)
	f.after = nil
	slices.SortStableFunc(q.waiting, func(a, b *batch) int { return a.created.Compare(b.created) })
}

// removeLocked removes batches that have not begun.
func (q *queue) removeLocked(which func(*batch) bool) {
	q.waiting = slices.DeleteFunc(q.waiting, which)
	for _, f := range q.flights {
		f.after = slices.DeleteFunc(f.after, which)
	}
}

// watchLocked makes the watchdog fire at a time, or earlier.
func (q *queue) watchLocked(at time.Time) {
	if q.watched.IsZero() || at.Before(q.watched) {
		q.watched = at
		q.watchdog.Reset(time.Until(at))
	}
}
