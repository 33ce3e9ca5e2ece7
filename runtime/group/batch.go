package group

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// batch is waiters whose calls are under way together.
type batch struct {
	lane    *lane
	waiters []*waiter
	calls   []runtime.Call
	// staying is how many still wait for their answers. When it is none, nobody does, and the context
	// ends.
	staying int
	ctx     context.Context
	cancel  context.CancelFunc
}

// newBatch returns the batch of waiters, who have so many calls. Its context has the values of the first
// waiter's, and its own end. The lane is locked.
func newBatch(l *lane, waiters []*waiter, calls int) *batch {
	b := &batch{lane: l, waiters: waiters, calls: make([]runtime.Call, 0, calls), staying: len(waiters)}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(waiters[0].ctx))
	for _, w := range waiters {
		w.batch = b
		b.calls = append(b.calls, w.calls...)
	}
	return b
}

// leave counts one out who no longer waits. The lane is locked.
func (b *batch) leave() {
	if b.staying--; b.staying == 0 {
		b.cancel()
	}
}

// run has the store answer, and tells the waiters.
func (b *batch) run(store runtime.Store) {
	answers, err := store.Do(b.ctx, b.calls)
	b.cancel()
	b.lane.mu.Lock()
	defer b.lane.mu.Unlock()
	for _, w := range b.waiters {
		w.err = err
		if n := len(w.calls); len(answers) >= n {
			w.tell(answers[:n:n])
			answers = answers[n:]
		}
		close(w.done)
	}
}
