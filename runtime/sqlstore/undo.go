package sqlstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
)

// undoer releases slots and cancels reservations of callers that have got an error, or have gone, together with all that the
// same call has taken: the slots would be held until their hold ends, and the reservations be a debt. Plain tokens stay
// taken: most callers that have gone are clients that have given up in an overload, which must not cause more writes.
type undoer struct {
	store runtime.Store

	mu      sync.Mutex
	pending []undo
	// idle is nil unless a goroutine executes the pending calls. It is closed when that ends.
	idle chan struct{}
	// stopped ends the goroutine.
	stopped context.Context
	stop    context.CancelFunc
}

// undo is a call that gives back. It is tried until it was executed, or until that time.
type undo struct {
	call  runtime.Call
	until time.Time
}

const (
	// mostUndone bounds the pending calls while the database fails. The slots of older ones are free after their hold.
	mostUndone = 10_000
)

func newUndoer(store runtime.Store) *undoer {
	u := &undoer{store: store}
	u.stopped, u.stop = context.WithCancel(context.Background())
	return u
}

// undelivered undoes calls whose answers no caller has got.
func (u *undoer) undelivered(calls []runtime.Call, answers []runtime.Answer) {
	u.add(calls, answers, func(q *runtime.Request) bool { return q.Reserve || q.Acquires() }, true)
}

// unknown frees the slots that calls may have acquired: these would be the answers, but whether they were written is not
// known. A Release cannot free the slots of others, while a refund without a take would give back tokens of others.
func (u *undoer) unknown(calls []runtime.Call, answers []runtime.Answer) {
	u.add(calls, answers, (*runtime.Request).Acquires, false)
}

// add gives back what the calls have taken that have a request which holds something. Tokens are refunded only if it is
// certain that they were taken.
func (u *undoer) add(calls []runtime.Call, answers []runtime.Answer, holds func(*runtime.Request) bool, certain bool) {
	var all []undo
	for i, a := range answers {
		requests := calls[i].Requests
		if !a.Allowed() || !slices.ContainsFunc(requests, func(q runtime.Request) bool { return holds(&q) }) {
			continue
		}
		for j := range requests {
			if q := &requests[j]; q.Op == runtime.Take && !a.Decisions[j].TakenAt.IsZero() && (certain || q.Acquires()) {
				all = append(all, undoOf(q, &a.Decisions[j]))
			}
		}
	}
	if len(all) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pending = append(u.pending, all...)
	u.pending = u.pending[max(0, len(u.pending)-mostUndone):]
	if u.idle == nil && u.stopped.Err() == nil {
		u.idle = make(chan struct{})
		go u.run()
	}
}

// undoOf returns what gives back what a request has taken.
func undoOf(q *runtime.Request, d *runtime.Decision) undo {
	// Once, because a second refund could be one of tokens of others.
	r, until := d.RefundRequest(d.Taken), time.Time{}
	if q.Acquires() {
		// Even if the answer was certain: a try of this may be executed although it fails.
		r.Op, until = runtime.Release, time.Now().Add(q.Policy.Hold)
	}
	r.Policy, r.Key, r.Zone, r.Anniversary = q.Policy, q.Key, q.Zone, q.Anniversary
	return undo{runtime.Call{Requests: []runtime.Request{r}}, until}
}

// run executes the pending calls, until there are none.
func (u *undoer) run() {
	for pause := bounds.ShortestUndoPause; ; {
		u.mu.Lock()
		tried := u.pending
		u.pending = nil
		if len(tried) == 0 || u.stopped.Err() != nil {
			close(u.idle)
			u.idle = nil
			u.mu.Unlock()
			return
		}
		u.mu.Unlock()
		failed := u.try(tried)
		if len(failed) == 0 {
			pause = bounds.ShortestUndoPause
			continue
		}
		u.mu.Lock()
		u.pending = append(failed, u.pending...)
		u.mu.Unlock()
		if conn.Sleep(u.stopped, pause) == nil {
			pause = min(2*pause, bounds.LongestUndoPause)
		}
	}
}

// try executes calls, and returns those that are to be tried again.
func (u *undoer) try(all []undo) (failed []undo) {
	ctx, cancel := context.WithTimeout(u.stopped, bounds.Timeout)
	defer cancel()
	calls := make([]runtime.Call, len(all))
	for i := range all {
		calls[i] = all[i].call
	}
	answers, err := u.store.Do(ctx, calls)
	if err == nil || errors.Is(err, ErrClosed) {
		return nil
	}
	for i := range all {
		if (i >= len(answers) || !answers[i].Answered()) && time.Now().Before(all[i].until) {
			failed = append(failed, all[i])
		}
	}
	return failed
}

// shutdown waits until no call is pending, or ctx ends, and gives up the rest.
func (u *undoer) shutdown(ctx context.Context) error {
	defer u.stop()
	u.mu.Lock()
	idle := u.idle
	u.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return errors.New("slots of calls that have failed could not be released, and are free after their hold")
	}
}
