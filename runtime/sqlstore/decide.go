package sqlstore

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Do implements [runtime.Store].
func (e *engine) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if !e.enter() {
		return nil, ErrClosed
	}
	// The only gate of a call: those that the group has given up are still counted here.
	defer e.open.Done()
	answers := make([]runtime.Answer, len(calls))
	sent, err := e.circuit.send(ctx, e.db)
	if err != nil {
		return answers, err
	}
	err = e.decide(ctx, calls, answers)
	if err != nil {
		err = e.recoverFrom(ctx, calls, answers, outdatedTries, err)
	}
	e.circuit.received(ctx, sent, err)
	if e.madeRoom(ctx, err) {
		// Calls answered before the volume was full are not decided a second time.
		err = answerAt(unanswered(answers), calls, answers, func(rest []runtime.Call, answers []runtime.Answer) error {
			return e.decideAndRecover(ctx, rest, answers, outdatedTries)
		})
	}
	return answers, e.explain(ctx, err)
}

// decide decides calls by the strategies of strategies.go and sets their answers. On an error, calls that were decided
// before it have their answers.
func (e *engine) decide(ctx context.Context, calls []runtime.Call, answers []runtime.Answer) error {
	x, err := e.prepareRetrying(ctx)
	if err != nil {
		return err
	}
	if e.setsSync(durabilityOf(calls)) {
		// The setting belongs to a session, which only a transaction holds on to.
		return e.locked(ctx, x, calls, answers)
	}
	now, err := e.now(ctx, e.db)
	if err != nil {
		return err
	}
	p := newPlan(calls, now(), &e.dialect)
	if upsert := e.upsertStrategyOf(p); upsert != nil {
		for from := 0; from < len(p.rows); from = p.statementEnd(from) {
			part := p.part(from)
			for r := (retrier{}); ; {
				// A loop and not a closure in retry: this is the path of most calls.
				part.reset()
				if e.byDriver == nil && x.needsTx() {
					err = e.inTx(ctx, x, part.policy.Durability, func(in session) error { return upsert(ctx, in, part) })
				} else {
					err = upsert(ctx, x, part)
				}
				if !r.again(ctx, &err) {
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
		e.forgetDenials(p)
	}
	// These include calls that an upsert has denied: only a read shows when their tokens are due.
	rest := p.answer(answers)
	if len(rest) == 0 {
		return nil
	}
	return e.decideRest(ctx, x, rest, calls, answers)
}

// decideRest decides the calls at these indexes without an upsert.
func (e *engine) decideRest(ctx context.Context, x *executor, rest []int, calls []runtime.Call, answers []runtime.Answer) error {
	return answerAt(rest, calls, answers, func(calls []runtime.Call, answers []runtime.Answer) error {
		if done, err := e.compareAndSwap(ctx, x, calls, answers); done || err != nil {
			return err
		}
		return e.locked(ctx, x, calls, answers)
	})
}

// upsertStrategyOf returns the strategy for the rows of a plan, or nil.
func (e *engine) upsertStrategyOf(p *plan) upsertStrategy {
	if p.single() {
		return e.upsertStrategy(p.requests[0].policy, &p.rows[0].Row)
	}
	return e.upsertStrategy(nil, nil)
}

// upsertStrategy returns the strategy for a batch, or nil if the dialect has none or the statement would probably take
// nothing. If the batch is about a single row, that is the row, and its policy.
func (e *engine) upsertStrategy(p *runtime.Policy, single *runtime.Row) upsertStrategy {
	switch {
	case e.byDriver != nil:
		return e.byDriver
	case single != nil && e.hints.expect(*single):
		// compareAndSwap would have to read the row anyway, to find out when the tokens are due.
		return nil
	case single != nil && e.dialect.TakeOne != "" && (p.Durability == runtime.DurabilityDefault || !e.takeDurably):
		return upsertOneReturning
	case single != nil && e.dialect.TakeInsertID != "":
		return upsertInsertID
	case e.thenSelect != nil && e.thenSelect.lost.Load():
		return nil
	case e.thenSelect != nil:
		return e.thenSelect.upsert
	case e.dialect.Take != "":
		return upsertReturning
	}
	return nil
}

// forgetDenials removes the row's denial hint if an upsert has taken from it.
func (e *engine) forgetDenials(p *plan) {
	if e.byDriver == nil && len(p.rows) == 1 && p.rows[0].After.Exists {
		e.hints.allowed(p.rows[0].Row)
	}
}

// outdatedTries is how often calls are decided again after an outdated statement, in addition to once for each open
// connection.
const outdatedTries = 3

func (e *engine) decideAndRecover(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, tries int) error {
	err := e.decide(ctx, calls, answers)
	if err == nil {
		return nil
	}
	return e.recoverFrom(ctx, calls, answers, tries, err)
}

// recoverFrom decides the calls that err has left unanswered again if that can help: after an outdated statement, which the
// driver prepares again on each connection, and after a value that the database refuses, such as a key that
// violates a constraint. Otherwise it returns err.
func (e *engine) recoverFrom(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, tries int, err error) error {
	rest := unanswered(answers)
	again := func(at []int, tries int) error {
		return answerAt(at, calls, answers, func(calls []runtime.Call, answers []runtime.Answer) error {
			return e.decideAndRecover(ctx, calls, answers, tries)
		})
	}
	switch {
	case outdated(err) && tries > -e.db.Stats().OpenConnections:
		// Each connection has its own prepared statement, and each may be outdated.
		return again(rest, tries-1)
	case refusedValue(err) && len(rest) > 1:
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

// inline is a [group.InlineFunc]: it decides a call in the goroutine of its caller, by the strategies that have one
// statement.
func (e *engine) inline(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error) {
	x := e.executor.Load()
	if x == nil || !e.runsInline(x) || x.needsTx() || e.setsSync(durabilityOf(calls)) || !e.enter() {
		return nil, false, nil
	}
	defer e.open.Done()
	sent, silent := e.circuit.trySend(e.db)
	if silent != nil {
		// The batch waits.
		return nil, false, nil
	}
	answers, ok, err = e.decideInline(ctx, x, calls)
	if ok || err != nil {
		// Otherwise nothing may have been sent.
		e.circuit.received(ctx, sent, err)
	}
	if err == nil || ctx.Err() == nil && (retryable(err) || outdated(err) || volumeFull(err)) {
		// After these errors, which mean that nothing was done, the call is decided again.
		return answers, ok && err == nil, nil
	}
	return answers, true, e.explain(ctx, err)
}

// runsInline reports whether statements may run in the goroutine of a caller: they return soon after their context has ended,
// or run in this process, for callers without a deadline. A lone call so costs nine tenths of the processor time with
// go-sql-driver, and with pgx, together with takeRaw, three quarters.
func (e *engine) runsInline(x *executor) bool {
	return x.honorsContext || e.byDriver != nil && e.dialect.OneWriter
}

func (e *engine) decideInline(ctx context.Context, x *executor, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error) {
	now, err := e.now(ctx, e.db)
	if err != nil {
		return nil, false, err
	}
	if t := newOneTake(calls, now()); t != nil && !e.dialect.losesTotal(t.all[0]) {
		if ok, err = e.takeOne(ctx, x, t); ok || err != nil {
			return t.answers[:], ok, err
		}
	}
	answers = make([]runtime.Answer, 1)
	ok, err = e.compareAndSwap(ctx, x, calls, answers)
	return answers, ok, err
}

// takeOne runs a take, and returns false if it has taken nothing, or probably would not.
func (e *engine) takeOne(ctx context.Context, x *executor, t *oneTake) (taken bool, err error) {
	row := &t.rows[0]
	upsert := e.upsertStrategy(t.of.policy, &row.Row)
	if upsert == nil {
		return false, nil
	}
	row.After = runtime.State{}
	if err := upsert(ctx, x, part{t.of.policy, t.rows[:]}); err != nil || !row.After.Exists {
		return false, err
	}
	if e.byDriver == nil {
		e.hints.allowed(row.Row)
	}
	t.decision[0] = t.of.taken(row.After, t.now, t.all[0])
	t.answers[0] = runtime.Answer{Decisions: t.decision[:], At: t.now}
	return true, nil
}
