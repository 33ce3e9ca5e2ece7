package group

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// do returns the backend's answers to calls, in a batch if others wait too. Once the queue is closed, each do is a backend
// call of its own.
func (q *queue) do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	key := q.keyOf(calls)
	if f := q.beginAlone(ctx, calls, key); f != nil {
		if answers, ok, err := q.runAlone(ctx, f, calls); ok {
			return answers, err
		}
	}
	b, i := q.join(ctx, calls, key)
	if b == nil {
		return doSingle(ctx, waiting(q.backend, q.wait), calls, q.undelivered)
	}
	if !b.wait(ctx) {
		if phase := q.leave(b, i); phase != "" {
			return nil, q.explain(b, fmt.Errorf("%s: %w", phase, ctx.Err()))
		}
	}
	answers, err := b.answersOf(i)
	if err == nil {
		return answers, nil
	}
	if locked := lockedErrorOf(err); locked != nil {
		return q.await(ctx, b.created.Add(bounds.Timeout), calls, answers, locked)
	}
	return answers, q.explain(b, err)
}

// await answers the calls that were not answered because a row of theirs is locked: they wait for the transaction that has
// locked it.
func (q *queue) await(ctx context.Context, deadline time.Time, calls []runtime.Call, answers []runtime.Answer, locked *LockedError) ([]runtime.Answer, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	all := make([]runtime.Answer, len(calls))
	copy(all, answers)
	for {
		var rest []runtime.Call
		var at []int
		for i, a := range all {
			if !a.Answered() {
				rest, at = append(rest, calls[i]), append(at, i)
			}
		}
		row := locked.rowOf(rest)
		got, err := q.doForRow(ctx, rest, row)
		for i, a := range got {
			all[at[i]] = a
		}
		if err == nil {
			return all, nil
		}
		if again := lockedErrorOf(err); again != nil && ctx.Err() == nil {
			locked = again
			continue
		}
		if (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) && !errors.As(err, new(*RowError)) {
			err = &RowError{Limit: row.Name, Holder: q.holderOf(row), Err: err}
		}
		return all, err
	}
}

// holderOf describes the transaction that has locked a row, if that is known.
func (q *queue) holderOf(row runtime.Row) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.waiterLocked(q.hashOf(row)); f != nil {
		return f.holder
	}
	return ""
}

// explain adds the transaction that has locked the row for which a batch has waited to an error, if there is one.
func (q *queue) explain(b *batch, err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return explainLocked(b.in, err)
}

func explainLocked(f *flight, err error) error {
	if f != nil && f.locked {
		return &RowError{Limit: f.limit, Holder: f.holder, Err: err}
	}
	return err
}

// ask finds out which transaction has locked the row for which a flight waits.
func (q *queue) ask(f *flight, row runtime.Row) {
	ctx, cancel := context.WithTimeout(context.Background(), bounds.AskTimeout)
	defer cancel()
	holder, locked := q.holder(ctx, row)
	q.mu.Lock()
	defer q.mu.Unlock()
	// Another call may have the flight by now, if its caller was alone.
	if f.need == row {
		f.limit, f.holder, f.locked = row.Name, holder, locked
	}
}

// doForRow returns the backend's answers to calls that need a row which is locked.
func (q *queue) doForRow(ctx context.Context, calls []runtime.Call, row runtime.Row) ([]runtime.Answer, error) {
	b, i := q.joinForRow(ctx, calls, row)
	if b == nil {
		return doSingle(ctx, waiting(q.backend, q.wait), calls, q.undelivered)
	}
	if !b.wait(ctx) && q.leave(b, i) != "" {
		return nil, q.explain(b, ctx.Err())
	}
	answers, err := b.answersOf(i)
	if err != nil && lockedErrorOf(err) == nil {
		err = q.explain(b, err)
	}
	return answers, err
}

// joinForRow adds calls to a batch that waits for a row which is locked, of which they are the ith caller. It returns nil if
// the queue is closed.
func (q *queue) joinForRow(ctx context.Context, calls []runtime.Call, row runtime.Row) (b *batch, i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle != nil {
		return nil, 0
	}
	now, hash := time.Now(), q.hashOf(row)
	f := q.waiterLocked(hash)
	if f == nil && !q.mayWaitLocked() {
		f = q.flights[slices.IndexFunc(q.flights, func(f *flight) bool { return f.mayWait })]
	}
	if f != nil {
		// Its connection is not silent: the database has said that the row is locked.
		f.lost, f.patience = false, now.Add(bounds.LockedPatience)
		q.watchLocked(f.patience)
		b = q.batchLocked(&f.after, len(calls))
		return b, b.joinLocked(ctx, calls, hash)
	}
	b = newBatch(len(calls))
	b.keys = new(keySet)
	i = b.joinLocked(ctx, calls, hash)
	// Of calls about several rows, it is the one that others wait for.
	b.row = hash
	if f = newFlightLocked([]*batch{b}, now); f != nil {
		f.need, f.mayWait, f.waits, f.patience = row, true, true, now.Add(bounds.LockedPatience)
		q.waits++
		q.flights = append(q.flights, f)
		q.watchLocked(f.deadline)
		go q.run(f)
	}
	return b, i
}

// run runs a flight, and those that come after it, in a goroutine that ends when there is none.
func (q *queue) run(f *flight) {
	for f != nil {
		answers, err := q.doOf(f)(f.ctx, f.calls)
		err = f.returned(err)
		f.end(answers, err)
		q.letReturn()
		f = q.finish(f, err == nil || lockedErrorOf(err) != nil)
	}
}

// letReturn lets the callers of a flight, who have their answers, go on, so that those that call again at once share the
// next flight: as long as a turn of the processor brings calls. A database in this process needs the processor itself, and
// is given one turn.
func (q *queue) letReturn() {
	for turn, before := 0, int64(-1); turn < maxTurns && q.joined.Load() != before; turn++ {
		before = q.joined.Load()
		goruntime.Gosched()
		if q.oneWriter {
			return
		}
	}
}

// doOf returns how a flight calls the backend.
func (q *queue) doOf(f *flight) doFunc {
	if f.mayWait {
		return waiting(q.backend, q.wait)
	}
	return q.backend.Do
}

// leave removes the ith caller from a batch because its context has ended, and returns what the caller waited for: ""
// if the batch has been answered meanwhile.
func (q *queue) leave(b *batch, i int) (phase string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b.answered() {
		return ""
	}
	b.remaining--
	f := b.in
	if f == nil {
		if b.remaining == 0 {
			q.removeLocked(func(o *batch) bool { return o == b })
		}
		return phaseQueued
	}
	f.left = append(f.left, leaver{b, i})
	switch f.remaining--; {
	case f.remaining > 0:
	case q.oneWriter:
		f.cancel()
	default:
		f.deadline = earlier(f.deadline, time.Now().Add(bounds.Linger))
		q.watchLocked(f.deadline)
	}
	if b.callers[i].late {
		return phaseQueued
	}
	return phaseInFlight
}

// finish ends a flight, and returns the next one. If it returns nil, the caller has nothing more to run.
func (q *queue) finish(f *flight, answered bool) (next *flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(f.left) > 0 || len(f.dropped) > 0 {
		// Before the queue may be idle, so that all answers have been handed over when Shutdown returns.
		f.handOver(q.undelivered)
	}
	if !q.endLocked(f) {
		return nil
	}
	if answered {
		q.answered = time.Now()
	}
	next = q.nextLocked()
	q.wasAlone = answered && len(f.calls) <= 1 && next == nil && len(q.flights) == 0 && len(q.waiting) == 0
	q.goOnLocked()
	return next
}

// goOnLocked runs the flights that are to begin.
func (q *queue) goOnLocked() {
	for f := q.nextLocked(); f != nil; f = q.nextLocked() {
		go q.run(f)
	}
	if q.idle != nil && len(q.flights) == 0 && !q.closed {
		q.closed = true
		close(q.idle)
	}
}

// close closes the queue to new calls. The channel is closed when nothing is in flight.
func (q *queue) close() (idle <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle == nil {
		q.idle = make(chan struct{})
		q.goOnLocked()
	}
	return q.idle
}

// join adds calls to a batch, of which they are the ith caller. It returns nil if the queue is closed.
func (q *queue) join(ctx context.Context, calls []runtime.Call, key uint64) (b *batch, i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle != nil {
		return nil, 0
	}
	b = q.batchLocked(q.listLocked(calls, key), len(calls))
	i = b.joinLocked(ctx, calls, key)
	q.joined.Add(1)
	q.goOnLocked()
	return b, i
}

// runAlone runs the flight of a lone caller. If ok is false, nothing was done. ctx is f.lone, which the watchdog clears if
// it abandons the flight.
func (q *queue) runAlone(ctx context.Context, f *flight, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error) {
	// Deferred, because a statement may panic.
	defer func() {
		if next := q.finish(f, ok && err == nil); next != nil {
			go q.run(next)
		}
	}()
	answers, ok, err = q.inline(loneContext{f.ctx, ctx}, calls)
	if err != nil && f.ctx.Err() != nil {
		if ctx.Err() != nil {
			// The caller's context has not been canceled just because the statement was.
			err = fmt.Errorf("%s: %w: %v", phaseInFlight, ctx.Err(), err)
		} else {
			err = fmt.Errorf("%w: %w", errTimeout, err)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		return answers, ok, explainLocked(f, err)
	}
	return answers, ok, err
}

// doSingle makes a flight of its own for the calls of one caller.
func doSingle(
	ctx context.Context, backend doFunc, calls []runtime.Call, undelivered func([]runtime.Call, []runtime.Answer),
) ([]runtime.Answer, error) {
	// No queue has this batch, so nothing needs a lock.
	b := newBatch(1)
	i := b.joinLocked(ctx, calls, 0)
	f := newFlightLocked([]*batch{b}, b.created)
	if f == nil {
		return b.answersOf(i)
	}
	// Some drivers do not return when their context ends, so the caller must be able to return without them.
	go func() {
		answers, err := backend(f.ctx, f.calls)
		f.end(answers, f.returned(err))
		f.handOver(undelivered)
	}()
	bounded, cancel := context.WithTimeout(ctx, bounds.Timeout)
	defer cancel()
	if b.wait(bounded) {
		return b.answersOf(i)
	}
	err := errTimeout
	if ctx.Err() != nil {
		err = fmt.Errorf("%s: %w", phaseInFlight, ctx.Err())
	}
	if b.end(nil, err) {
		time.AfterFunc(bounds.Linger, f.cancel)
		return nil, err
	}
	// It is being answered now.
	<-b.done
	return b.answersOf(i)
}

// check runs when the watchdog fires. It fails the batches that have exceeded their time, and sets the watchdog for the
// others.
func (q *queue) check() {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watched = time.Time{}
	for i := len(q.flights) - 1; i >= 0; i-- {
		q.expireFlightLocked(q.flights[i], now)
	}
	q.removeLocked(func(b *batch) bool {
		return !now.Before(b.created.Add(bounds.Timeout)) && b.end(nil, errTimeout)
	})
	q.goOnLocked()
	for _, f := range q.flights {
		for _, b := range f.after {
			q.watchLocked(b.created.Add(bounds.Timeout))
		}
	}
	for _, b := range q.waiting {
		q.watchLocked(b.created.Add(bounds.Timeout))
	}
}

// expireFlightLocked cancels or abandons a flight that has exceeded its time. After it was abandoned, the queue goes on
// while the backend still runs it, unless there is one writer.
func (q *queue) expireFlightLocked(f *flight, now time.Time) {
	if f.lone != nil && !f.late && f.lone.Err() != nil {
		f.late = true
		f.deadline = earlier(f.deadline, now.Add(bounds.Glance))
	}
	if f.keys != nil && !f.lost && !now.Before(f.patience) {
		// Its connection is probably silent. Then its rows are free, or the database makes the next statement wait.
		f.lost = true
		q.releaseLocked(f)
	}
	asks := now
	if q.holder != nil && f.mayWait && !f.asked {
		if asks = f.began.Add(bounds.Linger); !now.Before(asks) {
			f.asked = true
			go q.ask(f, f.need)
		}
	}
	switch {
	case now.Before(f.deadline):
	case f.ctx.Err() == nil:
		// Most drivers return soon after their context has ended, with an error that says more than a timeout.
		f.cancel()
		f.deadline = now.Add(bounds.Grace)
	default:
		f.end(nil, errTimeout)
		if !q.oneWriter {
			q.endLocked(f)
		}
		return
	}
	next := f.deadline
	if f.lone != nil && !f.late && f.lone.Done() != nil {
		next = earlier(next, now.Add(bounds.Glance))
	}
	if len(f.after) > 0 {
		next = earlier(next, f.patience)
	}
	if asks.After(now) {
		next = earlier(next, asks)
	}
	q.watchLocked(next)
}
