package group

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// lane is a queue of batches, one of which is in flight at a time. A [Store] uses only init, do and close, so that
// another kind of queue can replace it.
type lane struct {
	backend  runtime.Store
	maxCalls int
	// ordered: a batch begins only after the backend has returned from the one before, even if that was abandoned.
	ordered bool

	mu   sync.Mutex
	busy bool
	// queue holds the batches to come, in their order. Calls join the last one.
	queue []*batch
	// inFlight is nil if the lane is idle, or the calls in flight bypass the queue.
	inFlight *batch
	// watchdog fires when a batch may have exceeded its time. It keeps running from one batch to the next, because
	// stopping and starting it costs more than letting it fire in vain now and then.
	watchdog *time.Timer
	watched  bool
	// lastSize is how many calls the last batch had: the room that the next one begins with.
	lastSize int
	// idle is nil until close. It is closed when nothing is in flight any more.
	idle chan struct{}
}

func (l *lane) init(backend runtime.Store, maxCalls int, ordered bool) {
	l.backend, l.maxCalls, l.ordered = backend, maxCalls, ordered
	l.watchdog = time.AfterFunc(time.Hour, l.check)
	l.watchdog.Stop()
}

// do returns the backend's answers to calls, in a batch if others wait too. Once the lane is closed, each do is a backend
// call of its own.
func (l *lane) do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	how, b, i := l.enter(ctx, calls)
	switch how {
	case closed:
		return doSingle(ctx, l.backend, calls)
	case bypass:
		defer l.runNext()
		return l.backend.Do(ctx, calls)
	case first:
		l.runNext()
	}
	if !b.wait(ctx) {
		if phase := l.leave(b, i); phase != "" {
			return nil, fmt.Errorf("%s: %w", phase, ctx.Err())
		}
	}
	return b.answersOf(i)
}

// close closes the lane to new calls. The channel is closed when the lane is idle.
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

// entry is what the caller of enter has to do.
type entry int

const (
	// joined: wait for the batch.
	joined entry = iota
	// first: the lane was idle. Run the batch, then wait for it.
	first
	// bypass: the lane was idle. Call the backend directly, then run the next batch.
	bypass
	// closed: the lane takes no calls.
	closed
)

// enter adds calls to a batch, of which they are the ith caller, unless it returns bypass or closed.
func (l *lane) enter(ctx context.Context, calls []runtime.Call) (how entry, b *batch, i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.idle != nil:
		return closed, nil, 0
	case l.busy:
		how = joined
	case l.ordered && ctx.Done() == nil:
		// This caller cannot leave early, so it needs no goroutine that goes on without it. Unordered lanes do not bypass:
		// they must return to this caller after Timeout, even if the backend does not.
		how = bypass
	default:
		how = first
	}
	if how != joined {
		l.busy = true
		l.watchLocked()
	}
	if how == bypass {
		return bypass, nil, 0
	}
	// The calls of one caller stay in one batch, even if they are more than maxCalls.
	if n := len(l.queue); n > 0 && len(l.queue[n-1].calls)+len(calls) <= l.maxCalls {
		b = l.queue[n-1]
	} else {
		b = newBatch(l.lastSize)
		l.queue = append(l.queue, b)
	}
	return how, b, b.joinLocked(ctx, calls)
}

// What a call waits for when its context ends.
const (
	phaseQueued   = "waiting for earlier calls"
	phaseInFlight = "waiting for the database"
)

// leave removes the ith caller from a batch because its context has ended, and returns what the caller waited for: ""
// if the batch has been answered meanwhile.
func (l *lane) leave(b *batch, i int) (phase string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.answered() {
		return ""
	}
	b.remaining--
	switch {
	case b.remaining > 0:
	case b.ctx == nil:
		l.queue = slices.DeleteFunc(l.queue, func(o *batch) bool { return o == b })
	case l.ordered:
		b.cancel()
	default:
		b.deadline = earlier(b.deadline, time.Now().Add(linger))
		l.watched = true
		l.watchdog.Reset(time.Until(b.deadline))
	}
	if b.ctx == nil || b.callers[i].late {
		return phaseQueued
	}
	return phaseInFlight
}

// runNext runs the next batch of the queue, and those that come after it, in a goroutine that ends when the lane is idle.
func (l *lane) runNext() {
	if b := l.take(); b != nil {
		go l.run(b)
	}
}

// run returns early if check has abandoned a batch and started the next one.
func (l *lane) run(b *batch) {
	for ; b != nil; b = l.take() {
		if !b.run(l.backend) && !l.ordered {
			return
		}
		// Callers that have their answers often call again at once: yielding lets them join the next batch.
		goruntime.Gosched()
	}
}

// take begins the next batch of the queue, and returns it. If it returns nil, the lane is idle.
func (l *lane) take() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		b := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		if l.lastSize = len(b.calls); b.beginLocked(time.Now()) {
			l.inFlight = b
			return b
		}
	}
	l.inFlight, l.busy = nil, false
	if l.idle != nil {
		close(l.idle)
	}
	return nil
}

// linger is how long a batch that all callers have left may go on. Most answers that are late are a little late, and
// drivers abort a statement by closing its connection. Without linger, connections would be closed and opened all the
// time, and with a timeout shorter than it takes to open one, no call would ever succeed.
const linger = 250 * time.Millisecond

// grace is how long the backend has to return after the context of a batch has ended.
const grace = 50 * time.Millisecond

// watchLocked makes the watchdog fire in time for a batch that begins now.
func (l *lane) watchLocked() {
	if !l.watched {
		l.watched = true
		l.watchdog.Reset(Timeout / 2)
	}
}

// check runs when the watchdog fires. It fails the batches that have exceeded their time.
func (l *lane) check() {
	if l.expire(time.Now()) {
		l.runNext()
	}
}

// expire fails the batches that have exceeded their time, sets the watchdog for the others, and reports whether the lane
// goes on with its next batch while the backend still runs the one that was in flight.
func (l *lane) expire(now time.Time) (abandoned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = l.busy
	if !l.busy {
		return false
	}
	next := now.Add(Timeout / 2)
	if b := l.inFlight; b != nil && !b.answered() {
		switch {
		case now.Before(b.deadline):
			next = earlier(next, b.deadline)
		case b.ctx.Err() == nil:
			// Most drivers return soon after their context has ended, with an error that says more than a timeout.
			b.cancel()
			b.deadline = now.Add(grace)
			next = b.deadline
		default:
			abandoned = b.end(nil, errTimeout) && !l.ordered
		}
	}
	l.queue = slices.DeleteFunc(l.queue, func(b *batch) bool {
		return !now.Before(b.created.Add(Timeout)) && b.end(nil, errTimeout)
	})
	if len(l.queue) > 0 {
		next = earlier(next, l.queue[0].created.Add(Timeout))
	}
	l.watchdog.Reset(next.Sub(now))
	return abandoned
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
