package group

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// batch is the calls of several callers, made as one call of the backend.
type batch struct {
	calls   []runtime.Call
	callers []caller
	// remaining is how many callers have not left. At 0, the batch is canceled.
	remaining int
	// ctx is nil until the batch begins.
	ctx    context.Context
	cancel context.CancelFunc
	// created is when the first caller joined. deadline is when the context is canceled and, after that, when the batch
	// is abandoned.
	created, deadline time.Time

	// ended is set by the goroutine that sets answers and err, and then closes done.
	ended   atomic.Bool
	done    chan struct{}
	answers []runtime.Answer
	err     error
}

// caller is one caller of [Store.Do].
type caller struct {
	ctx context.Context
	// The caller's calls are calls[from:to] of the batch.
	from, to int
	// late: the context had ended when the batch began, and the calls were dropped.
	late bool
}

// errTimeout is the error of calls that the backend has not answered within [Timeout].
var errTimeout = fmt.Errorf("the database did not answer in time: %w", context.DeadlineExceeded)

func newBatch(capacity int) *batch {
	return &batch{
		calls: make([]runtime.Call, 0, capacity), callers: make([]caller, 0, capacity),
		created: time.Now(), done: make(chan struct{}),
	}
}

// doSingle makes a batch of its own for the calls of one caller.
func doSingle(ctx context.Context, backend runtime.Store, calls []runtime.Call) ([]runtime.Answer, error) {
	// No lane has this batch, so joinLocked and beginLocked need no lock.
	b := newBatch(1)
	i := b.joinLocked(ctx, calls)
	b.beginLocked(b.created)
	// Some drivers do not return when their context ends, so the caller must be able to return without them.
	go b.run(backend)
	var timeout <-chan time.Time
	if deadline, ok := ctx.Deadline(); !ok || deadline.After(b.created.Add(Timeout)) {
		// Only where it is needed, because the timer costs more than everything else here.
		timer := time.NewTimer(Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	var err error
	select {
	case <-b.done:
		return b.answersOf(i)
	case <-ctx.Done():
		err = fmt.Errorf("%s: %w", phaseInFlight, ctx.Err())
	case <-timeout:
		err = errTimeout
	}
	time.AfterFunc(linger, b.cancel)
	return nil, err
}

// joinLocked adds the calls of a caller, and returns the caller's index.
func (b *batch) joinLocked(ctx context.Context, calls []runtime.Call) (i int) {
	from := len(b.calls)
	b.calls = append(b.calls, calls...)
	b.callers = append(b.callers, caller{ctx: ctx, from: from, to: len(b.calls)})
	b.remaining++
	return len(b.callers) - 1
}

// beginLocked sets the context of the batch and drops the calls of late callers. It returns false if no calls are left,
// or the batch has waited for too long.
func (b *batch) beginLocked(now time.Time) bool {
	b.deadline = earlier(now.Add(Timeout/2), b.created.Add(Timeout))
	var live context.Context
	late := false
	for i := range b.callers {
		c := &b.callers[i]
		// Err is called once for each caller: it may change at any time, and the caller's calls all go or all stay.
		if c.late = c.ctx.Err() != nil; !c.late && live == nil {
			live = c.ctx
		}
		late = late || c.late
	}
	if live == nil || !now.Before(b.deadline) {
		b.end(nil, errTimeout)
		return false
	}
	// The batch has the values of one of its callers, but must not end with that caller.
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(live))
	if late {
		b.dropLate()
	}
	return true
}

func (b *batch) dropLate() {
	var kept []runtime.Call
	for i := range b.callers {
		c := &b.callers[i]
		calls := b.calls[c.from:c.to]
		c.from, c.to = len(kept), len(kept)
		if !c.late {
			kept = append(kept, calls...)
			c.to = len(kept)
		}
	}
	b.calls = kept
}

// run calls the backend and ends the batch. It returns false if the batch was abandoned meanwhile.
func (b *batch) run(backend runtime.Store) bool {
	defer b.cancel()
	answers, err := backend.Do(b.ctx, b.calls)
	if err != nil && b.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errTimeout, err)
	}
	return b.end(answers, err)
}

// end sets the result of the batch and wakes its callers. It returns false if the batch has a result already.
func (b *batch) end(answers []runtime.Answer, err error) bool {
	if !b.ended.CompareAndSwap(false, true) {
		return false
	}
	b.answers, b.err = answers, err
	close(b.done)
	return true
}

// wait waits for the answers or the end of ctx, and reports which came.
func (b *batch) wait(ctx context.Context) (answered bool) {
	ended := ctx.Done()
	if ended == nil {
		// A receive costs half as much as a select.
		<-b.done
		return true
	}
	select {
	case <-b.done:
		return true
	case <-ended:
		return false
	}
}

func (b *batch) answered() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// answersOf returns the answers to the calls of the ith caller. If all of them have been answered the error is nil,
// even if the backend has failed for other calls of the batch.
func (b *batch) answersOf(i int) ([]runtime.Answer, error) {
	c := b.callers[i]
	switch {
	case c.late:
		return nil, fmt.Errorf("%s: %w", phaseQueued, c.ctx.Err())
	case c.to > len(b.answers):
		return nil, b.err
	}
	answers := b.answers[c.from:c.to:c.to]
	if b.err != nil && slices.ContainsFunc(answers, func(a runtime.Answer) bool { return !a.Answered() }) {
		return answers, b.err
	}
	return answers, nil
}
