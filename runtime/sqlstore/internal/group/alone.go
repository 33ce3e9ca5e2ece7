package group

import (
	"context"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// InlineFunc calls the backend in the goroutine of a lone caller. If ok is false, it has done nothing, and the calls must
// go to the backend. It must return soon after ctx has ended, except with one writer.
type InlineFunc func(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error)

// mayWait reports whether a caller may wait until the InlineFunc returns. With one writer, the database is in this process
// and cannot be interrupted while it waits for its disk, so a caller with a deadline may not.
func (q *queue) mayWait(ctx context.Context) bool {
	if !q.oneWriter {
		return true
	}
	_, bounded := ctx.Deadline()
	return !bounded
}

// beginAlone begins the flight of a lone caller. It returns nil if others may call too.
func (q *queue) beginAlone(ctx context.Context, calls []runtime.Call, key uint64) *flight {
	if q.inline == nil || len(calls) != 1 || !q.mayWait(ctx) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle != nil || !q.wasAlone || len(q.flights) > 0 {
		return nil
	}
	f := q.lone
	if f == nil || f.ctx.Err() != nil {
		f = new(flight)
		f.ctx, f.cancel = context.WithCancel(context.Background())
		q.lone = f
	}
	f.lone, f.late, f.lost = ctx, false, false
	if !q.oneWriter {
		if f.keys == nil {
			f.keys = new(keySet)
		}
		*f.keys = keySet{}
		f.keys.add(key)
	}
	now := time.Now()
	f.began, f.deadline = now, now.Add(Timeout/2)
	f.patience = now.Add(linger)
	q.flights = append(q.flights, f)
	if ctx.Done() == nil {
		q.watchLocked(f.deadline)
	} else {
		q.watchLocked(now.Add(glance))
	}
	return f
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
			return answers, ok, fmt.Errorf("%s: %w: %v", phaseInFlight, ctx.Err(), err)
		}
		return answers, ok, fmt.Errorf("%w: %w", errTimeout, err)
	}
	return answers, ok, err
}

// loneContext is the context of a lone caller's statement. It ends when the watchdog cancels it, and not with the caller's
// context, whose values it has. All lone callers share one that can be canceled, so that a call makes none.
type loneContext struct {
	context.Context
	values context.Context
}

// Value implements [context.Context].
func (c loneContext) Value(key any) any {
	// First, because package context looks up the enclosing cancelable context by a private key.
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
