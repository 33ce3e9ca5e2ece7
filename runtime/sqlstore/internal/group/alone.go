package group

import (
	"context"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// mayRunInline reports whether a caller may wait until the InlineFunc returns. With one writer, the database is in this
// process and cannot be interrupted while it waits for its disk, so a caller with a deadline may not.
func (q *queue) mayRunInline(ctx context.Context) bool {
	if !q.oneWriter {
		return true
	}
	_, bounded := ctx.Deadline()
	return !bounded
}

// beginAlone begins the flight of a lone caller. It returns nil if others may call too.
func (q *queue) beginAlone(ctx context.Context, calls []runtime.Call, key uint64) *flight {
	if q.inline == nil || len(calls) != 1 || !q.mayRunInline(ctx) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle != nil || !q.wasAlone || len(q.flights) > 0 {
		return nil
	}
	f, now := q.lone, time.Now()
	if f == nil || f.ctx.Err() != nil {
		f = new(flight)
		f.ctx, f.cancel = context.WithCancel(context.Background())
		q.lone = f
	}
	*f = flight{
		ctx: f.ctx, cancel: f.cancel, keys: f.keys, lone: ctx,
		began: now, deadline: now.Add(bounds.Timeout / 2), patience: now.Add(bounds.Linger),
	}
	if !q.oneWriter {
		f.claim(&calls[0], key)
		f.mayWait = q.wait != nil && f.row != 0
	}
	q.flights = append(q.flights, f)
	if ctx.Done() == nil {
		q.watchLocked(f.deadline)
	} else {
		q.watchLocked(now.Add(bounds.Glance))
	}
	return f
}

// claim makes the calls for the row of a call wait for its flight. key is the hash of the first of its rows.
func (f *flight) claim(c *runtime.Call, key uint64) {
	if f.keys == nil {
		f.keys = new(keySet)
	}
	*f.keys = keySet{}
	f.keys.add(key)
	if len(c.Requests) == 1 && !severalRows(&c.Requests[0]) {
		f.row, f.need = key, rowOf(&c.Requests[0])
	}
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
