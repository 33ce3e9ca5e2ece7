package decide

import (
	"context"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// write is a write that may be in flight, of calls that acquire slots. If it fails and may have written, or has not returned
// when its context ends, the calls go to Unknown, and their answers must not be used any more. The zero write is none.
type write struct {
	unknown func()
	// inTime reports whether the end of the context has not called unknown, and will not do so any more. It is nil for none.
	inTime func() bool
}

// begin is called before a write of calls with these answers. The write before it, if any, has written nothing.
func (w *write) begin(ctx context.Context, e *Engine, calls []runtime.Call, answers []runtime.Answer) {
	w.end(ctx, false, nil)
	acquires := func(c runtime.Call) bool {
		return slices.ContainsFunc(c.Requests, func(q runtime.Request) bool { return q.Acquires() })
	}
	if !slices.ContainsFunc(calls, acquires) {
		return
	}
	// Whoever runs the batch again overwrites its answers.
	answers = slices.Clone(answers)
	for i := range answers {
		answers[i].Decisions = slices.Clone(answers[i].Decisions)
	}
	w.unknown = func() { e.Unknown(calls, answers) }
	w.inTime = context.AfterFunc(ctx, w.unknown)
}

// end is called after a write, and returns its error, or one if its answers must not be used although it has written.
func (w *write) end(ctx context.Context, written bool, err error) error {
	if w.inTime == nil {
		return err
	}
	switch inTime := w.inTime(); {
	case !inTime && written && err == nil:
		err = fmt.Errorf("the slots are released: %w", ctx.Err())
	case inTime && err != nil && !fault.Undone(err):
		w.unknown()
	}
	*w = write{}
	return err
}
