package group

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// batch is calls of several callers that go together.
type batch struct {
	calls   []runtime.Call
	callers []caller
	// staying is how many callers have not left. When it is none, the context ends.
	staying int
	// ctx is that of the batch, once it is under way.
	ctx    context.Context
	cancel context.CancelFunc
	// created is when the first caller joined, and deadline when the context ends or, once it has ended, when the batch is
	// given up.
	created, deadline time.Time

	// ended is set by the one who sets the answers or the error, and closes done.
	ended   atomic.Bool
	done    chan struct{}
	answers []runtime.Answer
	err     error
}

// caller is one who has joined a batch.
type caller struct {
	ctx context.Context
	// from and to say which of the calls are the caller's.
	from, to int
	// late says that the context had ended when the batch began: the caller's calls are passed over.
	late bool
}

// newBatch returns a batch with room for so many calls, for a start.
func newBatch(room int) *batch {
	return &batch{
		calls: make([]runtime.Call, 0, room), callers: make([]caller, 0, room), created: time.Now(), done: make(chan struct{}),
	}
}

// join adds the calls of a caller, and returns which one that is. The lane is locked.
func (b *batch) join(ctx context.Context, calls []runtime.Call) (i int) {
	from := len(b.calls)
	b.calls = append(b.calls, calls...)
	b.callers = append(b.callers, caller{ctx: ctx, from: from, to: len(b.calls)})
	b.staying++
	return len(b.callers) - 1
}

// begin is called when the batch goes on: from then on nobody joins. It returns false if all callers are late, or it has
// waited for too long. The context of the batch has the values of a caller's, and its own end. The lane is locked.
func (b *batch) begin(now time.Time) bool {
	b.deadline = earlier(now.Add(Timeout/2), b.created.Add(Timeout))
	var staying context.Context
	late := false
	for i := range b.callers {
		c := &b.callers[i]
		if c.late = c.ctx.Err() != nil; !c.late && staying == nil {
			staying = c.ctx
		}
		late = late || c.late
	}
	if staying == nil || !now.Before(b.deadline) {
		b.end(nil, errTimeout)
		return false
	}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(staying))
	if late {
		b.passOver()
	}
	return true
}

// run has the store answer, and tells the callers. It returns false if the batch was given up meanwhile.
func (b *batch) run(store runtime.Store) bool {
	defer b.cancel()
	answers, err := store.Do(b.ctx, b.calls)
	if err != nil && b.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errTimeout, err)
	}
	return b.end(answers, err)
}

// end sets the answers and the error, and tells the callers, unless that has been done.
func (b *batch) end(answers []runtime.Answer, err error) bool {
	if !b.ended.CompareAndSwap(false, true) {
		return false
	}
	b.answers, b.err = answers, err
	close(b.done)
	return true
}

// passOver drops the calls of those who are late.
func (b *batch) passOver() {
	var calls []runtime.Call
	for i := range b.callers {
		c := &b.callers[i]
		theirs := b.calls[c.from:c.to]
		c.from, c.to = len(calls), len(calls)
		if !c.late {
			calls = append(calls, theirs...)
			c.to = len(calls)
		}
	}
	b.calls = calls
}

// wait returns when the answers are there, or ctx has ended, and reports which.
func (b *batch) wait(ctx context.Context) (answered bool) {
	ended := ctx.Done()
	if ended == nil {
		// To wait for two things costs twice as much.
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

// answered reports whether the answers are there.
func (b *batch) answered() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// answersOf returns the answers to the calls of a caller. The error is nil if all of them have been answered,
// whatever has become of the others.
func (b *batch) answersOf(i int) ([]runtime.Answer, error) {
	c := b.callers[i]
	switch {
	case c.late:
		return nil, fmt.Errorf("%s: %w", whileWaiting, c.ctx.Err())
	case c.to > len(b.answers):
		return nil, b.err
	}
	answers := b.answers[c.from:c.to:c.to]
	if b.err != nil && slices.ContainsFunc(answers, func(a runtime.Answer) bool { return !a.Given() }) {
		return answers, b.err
	}
	return answers, nil
}
