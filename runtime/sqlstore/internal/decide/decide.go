package decide

import (
	"context"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Do implements [runtime.Store].
func (e *Engine) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if !e.Enter() {
		return nil, runtime.ErrClosed
	}
	// The only gate of a call: those that the group has given up are still counted here.
	defer e.Open.Done()
	answers := make([]runtime.Answer, len(calls))
	sent, err := e.Circuit.Send(ctx, e.DB)
	if err != nil {
		return answers, err
	}
	err = e.decide(ctx, calls, answers, manner{})
	if err != nil {
		err = e.recoverFrom(ctx, calls, answers, manner{}, outdatedTries, err)
	}
	e.Circuit.Received(ctx, sent, err)
	if e.MadeRoom(ctx, err) {
		// Calls answered before the volume was full are not decided a second time.
		err = answerAt(unanswered(answers), calls, answers, func(rest []runtime.Call, answers []runtime.Answer) error {
			return e.decideAndRecover(ctx, rest, answers, manner{}, outdatedTries)
		})
	}
	return answers, e.Explain(ctx, err)
}

// manner is how calls are decided.
type manner struct {
	// bounded: no statement waits for locks of other transactions for more than a moment.
	bounded bool
}

// decide decides calls by the strategies of strategies.go and sets their answers. On an error, calls that were decided
// before it have their answers.
func (e *Engine) decide(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, how manner) error {
	x, err := e.PrepareRetrying(ctx)
	if err != nil {
		return err
	}
	bounded := how.bounded && x.Bounded != nil
	if bounded {
		x = x.Bounded
	}
	if e.SetsSync(durabilityOf(calls)) {
		// The setting belongs to a session, which only a transaction holds on to.
		return e.locked(ctx, x, calls, answers)
	}
	if e.Decider != nil {
		b := batch.NewInTurn(calls, &e.turns)
		err := conn.Retry(ctx, func() error { return e.byDriver(ctx, b) })
		if err == nil {
			copy(answers, b.Answers())
		}
		return err
	}
	now, err := e.Now(ctx, e.DB)
	if err != nil {
		return err
	}
	p := newPlan(calls, now(), &e.Dialect, e.hints, e.shards())
	if upsert := e.upsertStrategyOf(p, bounded); upsert != nil {
		for from := 0; from < len(p.rows); from = p.statementEnd(from) {
			part := p.part(from)
			for r := x.Retrier(); ; {
				// A loop and not a closure in retry: this is the path of most calls.
				part.reset()
				if x.NeedsTx() {
					err = e.InTx(ctx, x, part.policy.Durability, func(in conn.Session) error { return upsert(ctx, in, part) })
				} else {
					err = upsert(ctx, x, part)
				}
				if !r.Again(ctx, &err) {
					break
				}
			}
			if err != nil {
				// A failed statement took nothing, whatever it has returned. The parts before it have committed.
				part.reset()
				p.answer(answers)
				return err
			}
		}
		e.learnTakes(p.rows, p.requests)
	}
	// These include calls that an upsert has denied: only a read shows when their tokens are due.
	rest, denied := p.answer(answers)
	if len(rest) == 0 {
		return nil
	}
	return e.decideRest(ctx, x, rest, denied, calls, answers)
}

// decideRest decides the calls at these indexes without an upsert. Those that one has denied are marked.
func (e *Engine) decideRest(ctx context.Context, x *conn.Executor, rest []int, denied []bool, calls []runtime.Call, answers []runtime.Answer) error {
	swapped := false
	err := answerAt(rest, calls, answers, func(calls []runtime.Call, answers []runtime.Answer) (err error) {
		swapped, err = e.compareAndSwap(ctx, x, calls, answers)
		return err
	})
	if swapped || err != nil {
		return err
	}
	if err := e.unlocked(ctx, x, rest, denied, calls, answers); err != nil {
		return err
	}
	for _, strategy := range [...]func(context.Context, *conn.Executor, []runtime.Call, []runtime.Answer) error{e.takeAll, e.locked} {
		rest = slices.DeleteFunc(rest, func(i int) bool { return answers[i].Answered() })
		if err != nil || len(rest) == 0 {
			return err
		}
		err = answerAt(rest, calls, answers, func(calls []runtime.Call, answers []runtime.Answer) error {
			return strategy(ctx, x, calls, answers)
		})
	}
	return err
}

// upsertStrategyOf returns the strategy for the rows of a plan, or nil.
func (e *Engine) upsertStrategyOf(p *plan, bounded bool) upsertStrategy {
	if single := p.single(); single && bounded && e.Dialect.BoundWaits != "" && !e.hints.expect(head(p.rows[0].Row)) {
		// TakeOne has no source of rows, which would bound it.
		return upsertReturning
	} else if single {
		return e.upsertStrategy(p.requests[0].policy, &p.rows[0].Row)
	}
	return e.upsertStrategy(nil, nil)
}

// upsertStrategy returns the strategy for a batch, or nil if the dialect has none or the statement would probably take
// nothing. If the batch is about a single row, that is the row, and its policy.
func (e *Engine) upsertStrategy(p *runtime.Policy, single *runtime.Row) upsertStrategy {
	switch {
	case single != nil && e.hints.expect(head(*single)):
		// compareAndSwap would have to read the row anyway, to find out when the tokens are due.
		return nil
	case single != nil && e.Dialect.TakeOne != "" && (p.Durability == runtime.DurabilityDefault || !e.takeDurably):
		return upsertOneReturning
	case single != nil && e.Dialect.TakeInsertID != "":
		return upsertInsertID
	case e.thenSelect != nil && e.thenSelect.lost.Load():
		return nil
	case e.thenSelect != nil:
		return e.thenSelect.upsert
	case e.Dialect.Take != "":
		return upsertReturning
	}
	return nil
}

// learnTakes removes the denial hints of the keys from whose rows upserts have taken, and keeps the states of shards.
func (e *Engine) learnTakes(rows []meter.RowUpsert, of []rowRequests) {
	for i := range rows {
		r := &rows[i]
		if !r.After.Exists {
			continue
		}
		e.hints.allowed(head(r.Row))
		if of[i].whole != nil {
			e.seen.keep(r.Row, r.After, false)
		}
	}
}

// outdatedTries is how often calls are decided again after an outdated statement, in addition to once for each open
// connection.
const outdatedTries = 3

func (e *Engine) decideAndRecover(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, how manner, tries int) error {
	err := e.decide(ctx, calls, answers, how)
	if err == nil {
		return nil
	}
	return e.recoverFrom(ctx, calls, answers, how, tries, err)
}

// recoverFrom decides the calls that err has left unanswered again if that can help: after an outdated statement, which the
// driver prepares again on each connection, and after a value that the database refuses, such as a key that
// violates a constraint. Otherwise it returns err.
func (e *Engine) recoverFrom(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, how manner, tries int, err error) error {
	rest := unanswered(answers)
	again := func(at []int, tries int) error {
		return answerAt(at, calls, answers, func(calls []runtime.Call, answers []runtime.Answer) error {
			return e.decideAndRecover(ctx, calls, answers, how, tries)
		})
	}
	switch {
	case fault.Outdated(err) && tries > -e.DB.Stats().OpenConnections:
		// Each connection has its own prepared statement, and each may be outdated.
		return again(rest, tries-1)
	case fault.RefusedValue(err) && len(rest) > 1:
		// In halves, so that only the calls with such a value fail: at most two statements a call.
		first := again(rest[:len(rest)/2], outdatedTries)
		second := again(rest[len(rest)/2:], outdatedTries)
		if first == nil {
			return second
		}
		return first
	}
	return err
}

// answerAt runs decide on the calls at these indexes and stores their answers.
func answerAt(at []int, calls []runtime.Call, answers []runtime.Answer, decide func([]runtime.Call, []runtime.Answer) error) error {
	some, got := make([]runtime.Call, len(at)), make([]runtime.Answer, len(at))
	for i, index := range at {
		some[i] = calls[index]
	}
	err := decide(some, got)
	for i, a := range got {
		answers[at[i]] = a
	}
	return err
}

// unanswered returns the indexes of the calls that have no answer.
func unanswered(answers []runtime.Answer) (at []int) {
	for i, a := range answers {
		if !a.Answered() {
			at = append(at, i)
		}
	}
	return at
}

// Inline is a group.InlineFunc: it decides a call in the goroutine of its caller, by the strategies that have one
// statement.
func (e *Engine) Inline(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error) {
	x := e.Executor.Load()
	if x == nil || !e.runsInline(x) || x.NeedsTx() || e.SetsSync(durabilityOf(calls)) || !e.Enter() {
		return nil, false, nil
	}
	defer e.Open.Done()
	sent, silent := e.Circuit.TrySend(e.DB)
	if silent != nil {
		// The batch waits.
		return nil, false, nil
	}
	answers, ok, err = e.decideInline(ctx, x, calls)
	if ok || err != nil {
		// Otherwise nothing may have been sent.
		e.Circuit.Received(ctx, sent, err)
	}
	if err == nil || ctx.Err() == nil && (fault.Retryable(err) || fault.Outdated(err) || fault.VolumeFull(err)) {
		// After these errors, which mean that nothing was done, the call is decided again.
		return answers, ok && err == nil, nil
	}
	return answers, true, e.Explain(ctx, err)
}

// runsInline reports whether statements may run in the goroutine of a caller: they return soon after their context has ended,
// or run in this process, for callers without a deadline. A lone call so costs nine tenths of the processor time with
// go-sql-driver, and with pgx, together with TakeRaw, three quarters.
func (e *Engine) runsInline(x *conn.Executor) bool {
	return x.HonorsContext || e.Decider != nil && e.Dialect.OneWriter
}

func (e *Engine) decideInline(ctx context.Context, x *conn.Executor, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error) {
	if e.Decider != nil {
		b := batch.NewInTurn(calls, &e.turns)
		err := e.byDriver(ctx, b)
		return b.Answers(), err == nil, err
	}
	now, err := e.Now(ctx, e.DB)
	if err != nil {
		return nil, false, err
	}
	answers = make([]runtime.Answer, 1)
	if p := newPlan(calls, now(), &e.Dialect, e.hints, e.shards()); p.single() {
		if ok, err = e.takeOne(ctx, x, p, answers); ok || err != nil {
			return answers, ok, err
		}
	}
	// While it waits for a row, it would keep others locked.
	bounded := x
	if x.Bounded != nil {
		bounded = x.Bounded
	}
	if ok, err = e.takeTogether(ctx, bounded, calls, answers, now()); ok || err != nil {
		return answers, ok, err
	}
	ok, err = e.compareAndSwap(ctx, x, calls, answers)
	return answers, ok, err
}

// takeOne takes from the row of a plan that has one, and returns false if it has taken nothing, or probably would not.
func (e *Engine) takeOne(ctx context.Context, x *conn.Executor, p *plan, answers []runtime.Answer) (taken bool, err error) {
	upsert := e.upsertStrategyOf(p, false)
	if upsert == nil {
		return false, nil
	}
	part := p.part(0)
	part.reset()
	if err := upsert(ctx, x, part); err != nil {
		return false, err
	}
	e.learnTakes(p.rows, p.requests)
	rest, _ := p.answer(answers)
	return len(rest) == 0, nil
}
