package group

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// lane is a queue with one batch under way at a time.
type lane struct {
	mu   sync.Mutex
	busy bool
	// waiting are the batches to come, in their order. Calls join the last one.
	waiting []*batch
	// under is the batch under way, nil if there is none or the calls under way are alone.
	under *batch
	// watchdog fires when something may have waited for too long. It is left running from one batch to the next, since to
	// stop and start it costs more than to have it fire in vain now and then.
	watchdog *time.Timer
	watched  bool
	// ordered: a batch does not begin before the store has returned from the one before, even if that was given up.
	ordered bool
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
// wait for a goroutine of the lane, so that their caller can leave; in an ordered lane, one who cannot leave anyhow and
// finds the lane idle is alone. A batch has at most most calls, unless one caller has more.
func (l *lane) enter(ctx context.Context, calls []runtime.Call, most int) (how entry, b *batch, i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.idle != nil:
		return outside, nil, 0
	case !l.busy && l.ordered && ctx.Done() == nil:
		l.busy = true
		l.watchLocked()
		return alone, nil, 0
	case !l.busy:
		l.busy = true
		l.watchLocked()
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
	case b.ctx != nil && b.staying == 0 && l.ordered:
		b.cancel()
	case b.ctx != nil && b.staying == 0:
		b.deadline = earlier(b.deadline, time.Now().Add(linger))
		l.watched = true
		l.watchdog.Reset(time.Until(b.deadline))
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
		if l.usual = len(b.calls); b.begin(time.Now()) {
			l.under = b
			return b
		}
	}
	l.under, l.busy = nil, false
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

// linger is how long a batch that all callers have left may still go on. Most answers that are late are a little late, and
// drivers end a statement by closing its connection: new ones would then be opened again and again, and a timeout shorter
// than it takes to open one would never let the store begin.
const linger = 250 * time.Millisecond

// grace is how long the store behind has to return after the context of a batch has ended.
const grace = 50 * time.Millisecond

// watchLocked has the watchdog fire in time for whatever begins now.
func (l *lane) watchLocked() {
	if !l.watched {
		l.watched = true
		l.watchdog.Reset(Timeout / 2)
	}
}

// check ends the context of the batch under way if its time is over, or gives the batch up if the store has not returned
// after that either. It fails the batches that have waited for too long. It reports whether the lane is to go on with the
// next batch.
func (l *lane) check(now time.Time) (next bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = l.busy
	if !l.busy {
		return false
	}
	later := now.Add(Timeout / 2)
	if b := l.under; b != nil && !b.answered() {
		switch {
		case now.Before(b.deadline):
			later = earlier(later, b.deadline)
		case b.ctx.Err() == nil:
			b.cancel()
			b.deadline = now.Add(grace)
			later = b.deadline
		default:
			next = b.end(nil, errTimeout) && !l.ordered
		}
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(b *batch) bool {
		return !now.Before(b.created.Add(Timeout)) && b.end(nil, errTimeout)
	})
	if len(l.waiting) > 0 {
		later = earlier(later, l.waiting[0].created.Add(Timeout))
	}
	l.watchdog.Reset(later.Sub(now))
	return next
}

// earlier returns the earlier of two instants.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
