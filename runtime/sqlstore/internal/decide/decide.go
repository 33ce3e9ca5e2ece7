package decide

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// Do implements [runtime.Store].
func (e *Engine) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	return e.do(ctx, calls, manner{})
}

// Across decides calls whose rows are on several shards.
type Across struct {
	*Engine
	Places *table.Places
}

// Do implements [runtime.Store].
func (a Across) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	return a.do(ctx, calls, manner{across: a.Places})
}

func (e *Engine) do(ctx context.Context, calls []runtime.Call, how manner) ([]runtime.Answer, error) {
	if !e.server.Gate.Enter() {
		return nil, runtime.ErrClosed
	}
	// The only gate of a call: those that the group has given up are still counted here.
	defer e.server.Gate.Open.Done()
	answers := make([]runtime.Answer, len(calls))
	sent, err := e.server.Circuit.Send(ctx, e.server.DB)
	if err != nil {
		return answers, err
	}
	p, err := e.plan(ctx, calls, answers, how)
	if err == nil {
		err = e.decide(ctx, p)
	}
	if err != nil {
		err = e.recoverFrom(ctx, calls, answers, how, bounds.OutdatedTries, err)
	}
	e.server.Circuit.Received(ctx, sent, err)
	if e.server.MadeRoom(ctx, err) {
		// Calls answered before the volume was full are not decided a second time.
		err = answerAt(unanswered(answers), calls, answers, func(rest []runtime.Call, answers []runtime.Answer) error {
			return e.decideAndRecover(ctx, rest, answers, how, bounds.OutdatedTries)
		})
	}
	return answers, e.server.Explain(ctx, err)
}

// plan returns the plan of calls, when the store is prepared.
func (e *Engine) plan(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, how manner) (*plan, error) {
	x, err := e.prepared.PrepareRetrying(ctx)
	if err != nil {
		return nil, err
	}
	if how.bounded = how.bounded && x.Bounded != nil; how.bounded {
		x = x.Bounded
	}
	return newPlan(x, calls, answers, how), nil
}

// decide answers the calls of a plan by the strategies that apply, in their order. On an error, calls that were decided
// before it have their answers. A lone call may be left without one.
func (e *Engine) decide(ctx context.Context, p *plan) error {
	if e.Decider == nil {
		now, err := e.server.Now(ctx, e.server.DB)
		if err != nil {
			return err
		}
		p.takes = newTakes(p.calls, now(), known{dialect: &e.server.Dialect, hints: e.hints, shards: e.shards()})
	}
	for i := range strategies {
		s := &strategies[i]
		if len(p.rest) == 0 {
			return nil
		}
		if !s.applies(e, p) {
			continue
		}
		if p.lone && s.waits {
			return nil
		}
		p.upsert = s.upsert
		for r := p.on.Retrier(); ; {
			// A loop and not a closure in retry: this is the path of most calls.
			err := s.run(e, ctx, p)
			if err != nil && (p.lone || !r.Again(ctx, &err)) {
				return err
			}
			if err == nil {
				break
			}
		}
		p.findRest()
	}
	return nil
}

func (e *Engine) decideAndRecover(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, how manner,
	tries int) error {
	p, err := e.plan(ctx, calls, answers, how)
	if err == nil {
		err = e.decide(ctx, p)
	}
	if err == nil {
		return nil
	}
	return e.recoverFrom(ctx, calls, answers, how, tries, err)
}

// recoverFrom decides the calls that err has left unanswered again if that can help: after an outdated statement, which the
// driver prepares again on each connection, and after a value that the database refuses, such as a key that
// violates a constraint. Otherwise it returns err.
func (e *Engine) recoverFrom(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, how manner, tries int,
	err error) error {
	// All that follows has one budget.
	ctx = conn.WithBudget(ctx)
	rest := unanswered(answers)
	again := func(at []int, tries int) error {
		return answerAt(at, calls, answers, func(calls []runtime.Call, answers []runtime.Answer) error {
			return e.decideAndRecover(ctx, calls, answers, how, tries)
		})
	}
	switch {
	case !fault.Undone(err):
		// The calls may have taken.
	case fault.Outdated(err) && tries > -e.server.DB.Stats().OpenConnections:
		// Each connection has its own prepared statement, and each may be outdated.
		return again(rest, tries-1)
	case fault.RefusedValue(err) && len(rest) > 1:
		// In halves, so that only the calls with such a value fail: at most two statements a call.
		first := again(rest[:len(rest)/2], bounds.OutdatedTries)
		second := again(rest[len(rest)/2:], bounds.OutdatedTries)
		if first == nil {
			return second
		}
		return first
	}
	return err
}

// Inline is a group.InlineFunc: it decides a call in the goroutine of its caller, by the strategies without a
// transaction of the store.
func (e *Engine) Inline(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error) {
	x := e.prepared.Executor.Load()
	if x == nil || !e.runsInline(x) || x.NeedsTx() || !e.server.Gate.Enter() {
		return nil, false, nil
	}
	defer e.server.Gate.Open.Done()
	sent, silent := e.server.Circuit.TrySend(e.server.DB)
	if silent != nil {
		// The batch waits.
		return nil, false, nil
	}
	if len(calls[0].Requests) > 1 && x.Bounded != nil {
		// While it waits for a row, it would keep others locked.
		x = x.Bounded
	}
	answers = make([]runtime.Answer, 1)
	err = e.decide(ctx, newPlan(x, calls, answers, manner{lone: true}))
	if ok = answers[0].Answered(); ok || err != nil {
		// Otherwise nothing may have been sent.
		e.server.Circuit.Received(ctx, sent, err)
	}
	if err == nil || ctx.Err() == nil && (fault.Retryable(err) || fault.Outdated(err) || fault.VolumeFull(err)) {
		// After these errors, which mean that nothing was done, the call is decided again.
		return answers, ok && err == nil, nil
	}
	return answers, true, e.server.Explain(ctx, err)
}

// runsInline reports whether statements may run in the goroutine of a caller: they return soon after their context has
// ended, or run in this process, for callers without a deadline. A lone call so costs nine tenths of the processor time with
// go-sql-driver, and with pgx, together with TakeRaw, three quarters.
func (e *Engine) runsInline(x *conn.Executor) bool {
	return x.HonorsContext || e.Decider != nil && e.server.Dialect.OneWriter
}
