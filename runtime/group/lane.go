package group

import (
	"context"
	"slices"
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// lane is a queue with one batch under way at a time.
type lane struct {
	mu   sync.Mutex
	busy bool
	// waiting are the batches to come, in their order. Calls join the last one.
	waiting []*batch
	// usual is how many calls the last batch had.
	usual int
	// idle is nil until the lane is closed to new calls. It is closed when nothing is under way any more.
	idle chan struct{}
}

// entry is how a lane has let calls in.
type entry int

const (
	// joined: the calls are in a batch that waits.
	joined entry = iota
	// first is joined, but nothing is under way: the caller is to see to it that the batch goes on.
	first
	// alone: nothing is under way. The calls go on at once, and what waits goes on when they are answered.
	alone
	// outside: the lane is closed.
	outside
)

// enter lets calls in, and returns the batch that they have joined and which of its callers theirs is, if they have. They
// wait for a goroutine of the lane, so that their caller can leave; one who cannot leave anyhow, and finds the lane
// idle, is alone. A batch has at most most calls, unless one caller has more.
func (l *lane) enter(ctx context.Context, calls []runtime.Call, most int) (how entry, b *batch, i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.idle != nil:
		return outside, nil, 0
	case !l.busy && ctx.Done() == nil:
		l.busy = true
		return alone, nil, 0
	case !l.busy:
		l.busy = true
		how = first
	default:
		how = joined
	}
	if n := len(l.waiting); n > 0 && len(l.waiting[n-1].calls)+len(calls) <= most {
		b = l.waiting[n-1]
	} else {
		b = newBatch(l.usual)
		l.waiting = append(l.waiting, b)
	}
	return how, b, b.join(ctx, calls)
}

// leave is for a caller whose context has ended. It says where the calls were then, and nothing if the answers
// are there by now.
func (l *lane) leave(b *batch, i int) (where string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.answered() {
		return ""
	}
	b.staying--
	switch {
	case b.ctx == nil && b.staying == 0:
		l.waiting = slices.DeleteFunc(l.waiting, func(o *batch) bool { return o == b })
	case b.ctx != nil && b.staying == 0:
		b.cancel()
	}
	if b.ctx == nil || b.callers[i].late {
		return whileWaiting
	}
	return whileUnderWay
}

// Where calls are when their caller leaves.
const (
	whileWaiting  = "while earlier calls were under way"
	whileUnderWay = "while the store was at it"
)

// take returns the batch that goes on next, and nil if none waits: then the lane is idle.
func (l *lane) take() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 {
		b := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		if l.usual = len(b.calls); b.begin() {
			return b
		}
		close(b.done)
	}
	l.busy = false
	if l.idle != nil {
		close(l.idle)
	}
	return nil
}

// close closes the lane to new calls. What it returns is closed when it is idle.
func (l *lane) close() (idle <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle == nil {
		l.idle = make(chan struct{})
		if !l.busy {
			close(l.idle)
		}
	}
	return l.idle
}
