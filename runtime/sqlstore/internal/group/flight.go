package group

import (
	"context"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// flight is a call of the backend: for some batches, which it answers, or for a lone caller in its own goroutine.
type flight struct {
	batches []*batch
	// first is the memory of batches if there is one.
	first [1]*batch
	// calls are those of the batches, one batch after the other.
	calls []runtime.Call
	// keys are those of calls, or nil with one writer, and after are the batches that wait because they have one of these keys.
	keys  *keySet
	after []*batch
	// row is the hash of the row that the calls are about, or for which they wait, or 0 if they are about several.
	row uint64
	// patience is until when calls wait for the keys. lost: they wait no longer.
	patience time.Time
	lost     bool
	// need is the row whose hash is row.
	need runtime.Row
	// asked: the database was asked whether need is locked. If it is, limit is the limit of the row, and holder describes the
	// transaction that has locked it.
	asked, locked bool
	limit, holder string
	// mayWait: the backend may wait for locks of others. waits: it probably does, and calls for other rows do not wait for the
	// flight.
	mayWait, waits bool

	began  time.Time
	ctx    context.Context
	cancel context.CancelFunc
	// deadline is when the context is canceled and, after that, when the flight is abandoned.
	deadline time.Time
	// remaining is how many callers have not left. At 0, the flight is canceled.
	remaining int
	// left are the callers that have left while it was in flight, and dropped are its batches that had a result before the
	// backend returned, with the answers.
	left    []leaver
	dropped []droppedAnswers
	// lone is the context of the lone caller, or nil. late: the watchdog has seen that it has ended.
	lone context.Context
	late bool
}

// leaver is the ith caller of a batch.
type leaver struct {
	batch *batch
	i     int
}

type droppedAnswers struct {
	calls   []runtime.Call
	answers []runtime.Answer
}

// newFlightLocked begins batches. It returns nil if none of them has a caller left.
func newFlightLocked(batches []*batch, now time.Time) *flight {
	f := &flight{began: now, deadline: now.Add(bounds.Timeout / 2), patience: now.Add(bounds.Linger)}
	f.batches = f.first[:0]
	var live context.Context
	for _, b := range batches {
		ctx := b.beginLocked(now)
		if ctx == nil {
			continue
		}
		live, b.in = ctx, f
		f.batches = append(f.batches, b)
		f.deadline = earlier(f.deadline, b.created.Add(bounds.Timeout))
		f.remaining += b.remaining
	}
	if live == nil {
		return nil
	}
	// The flight has the values of one of its callers, but must not end with that caller.
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(live))
	f.calls, f.keys, f.row = f.batches[0].calls, f.batches[0].keys, f.batches[0].row
	for _, b := range f.batches[1:] {
		f.calls = append(f.calls, b.calls...)
		if b.row != f.row {
			f.row = 0
		}
	}
	if f.row != 0 {
		f.need = rowOf(&f.calls[0].Requests[0])
	}
	for _, b := range f.batches[1:] {
		if f.keys != nil {
			f.keys.addAll(b.keys)
		}
	}
	return f
}

// has reports whether calls whose first request has a key wait for the flight.
func (f *flight) has(key uint64) bool {
	switch {
	case f.keys == nil || f.lost:
		return false
	case f.row != 0:
		return f.row == key
	}
	return f.keys.has(key)
}

// doFunc is [runtime.Store.Do].
type doFunc func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error)

// waiting returns how the backend is called for calls that may wait.
func waiting(backend runtime.Store, wait doFunc) doFunc {
	if wait != nil {
		return wait
	}
	return backend.Do
}

// returned ends the context of the backend's call, and returns the error of the call, or the timeout.
func (f *flight) returned(err error) error {
	defer f.cancel()
	if err != nil && f.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errTimeout, err)
	}
	return err
}

// end ends the batches, unless they have a result already: then the answers are dropped.
func (f *flight) end(answers []runtime.Answer, err error) {
	for _, b := range f.batches {
		// Without an error there are as many answers as calls, with one there may be fewer.
		n := min(len(b.calls), len(answers))
		if !b.end(answers[:n:n], err) && n > 0 {
			f.dropped = append(f.dropped, droppedAnswers{b.calls, answers[:n:n]})
		}
		answers = answers[n:]
	}
}

// handOver hands over the answers that callers do not get, after end. A caller that leaves from now on gets its answer.
func (f *flight) handOver(undelivered func(calls []runtime.Call, answers []runtime.Answer)) {
	for _, l := range f.dropped {
		undelivered(l.calls[:len(l.answers)], l.answers)
	}
	for _, l := range f.left {
		c := l.batch.callers[l.i]
		if to := min(c.to, len(l.batch.answers)); c.from < to {
			undelivered(l.batch.calls[c.from:to], l.batch.answers[c.from:to])
		}
	}
	f.dropped, f.left = nil, nil
}
