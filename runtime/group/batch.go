package group

import (
	"context"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// batch is calls of several callers that go together.
type batch struct {
	calls []runtime.Call
	// contexts has for each call that of its caller.
	contexts []context.Context
	// staying is how many callers have not left. When it is none, the context ends.
	staying int
	// ctx is that of the batch, once it is under way.
	ctx    context.Context
	cancel context.CancelFunc

	// done is closed when the answers, or the error, are there.
	done    chan struct{}
	answers []runtime.Answer
	err     error
}

// newBatch returns a batch with room for so many calls, for a start.
func newBatch(room int) *batch {
	return &batch{
		calls: make([]runtime.Call, 0, room), contexts: make([]context.Context, 0, room), done: make(chan struct{}),
	}
}

// join adds the calls of a caller, and returns their place. The lane is locked.
func (b *batch) join(ctx context.Context, calls []runtime.Call) (at int) {
	at = len(b.calls)
	b.calls = append(b.calls, calls...)
	for range calls {
		b.contexts = append(b.contexts, ctx)
	}
	b.staying++
	return at
}

// begin is called when the batch goes on: from then on nobody joins, and those whose contexts have ended, who are
// about to leave, are passed over. It returns false if nobody is left. The context of the batch has the values of
// a caller's, and its own end. The lane is locked.
func (b *batch) begin() bool {
	for i, ctx := range b.contexts {
		if ctx.Err() != nil {
			b.contexts[i] = nil
		} else if b.ctx == nil {
			b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
		}
	}
	return b.ctx != nil
}

// run has the store answer, and tells the callers.
func (b *batch) run(store runtime.Store) {
	defer close(b.done)
	defer b.cancel()
	if !slices.Contains(b.contexts, nil) {
		b.answers, b.err = store.Do(b.ctx, b.calls)
		return
	}
	var places []int
	var calls []runtime.Call
	for i, ctx := range b.contexts {
		if ctx != nil {
			places, calls = append(places, i), append(calls, b.calls[i])
		}
	}
	var answers []runtime.Answer
	answers, b.err = store.Do(b.ctx, calls)
	b.answers = make([]runtime.Answer, len(b.calls))
	for i, a := range answers {
		b.answers[places[i]] = a
	}
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

// answersOf returns the answers to the n calls at a place, whose context is ctx. The error is nil if all of them have
// been answered, whatever has become of the others.
func (b *batch) answersOf(ctx context.Context, at, n int) ([]runtime.Answer, error) {
	switch {
	case b.contexts[at] == nil:
		return nil, fmt.Errorf("%s: %w", whileWaiting, ctx.Err())
	case at+n > len(b.answers):
		return nil, b.err
	}
	answers := b.answers[at : at+n : at+n]
	if b.err != nil && slices.ContainsFunc(answers, func(a runtime.Answer) bool { return !a.Given() }) {
		return nil, b.err
	}
	return answers, nil
}
