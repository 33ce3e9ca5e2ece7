package sqlstore

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// inline is a [group.InlineFunc]: it decides a call in the goroutine of its caller, by the strategies that have one
// statement.
func (b backend) inline(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error) {
	s := b.store
	x := s.executor.Load()
	if x == nil || !x.inline || x.needsTx() || s.setsSync(durabilityOf(calls)) || !s.enter() {
		return nil, false, nil
	}
	defer s.open.Done()
	sent, silent := s.circuit.trySend(s.db)
	if silent != nil {
		// The batch waits.
		return nil, false, nil
	}
	answers, ok, err = s.decideInline(ctx, x, calls)
	if ok || err != nil {
		// Otherwise nothing may have been sent.
		s.circuit.received(ctx, sent, err)
	}
	if err == nil || ctx.Err() == nil && (retryable(err) || outdated(err) || volumeFull(err)) {
		// After these errors, which mean that nothing was done, the call is decided again.
		return answers, ok && err == nil, nil
	}
	return answers, true, s.explain(ctx, err)
}

func (s *Store) decideInline(ctx context.Context, x *executor, calls []runtime.Call) (answers []runtime.Answer, ok bool, err error) {
	now, err := s.now(ctx, s.db)
	if err != nil {
		return nil, false, err
	}
	if t := newOneTake(calls, now()); t != nil && !s.dialect.losesTotal(t.all[0]) {
		if ok, err = s.takeOne(ctx, x, t); ok || err != nil {
			return t.answers[:], ok, err
		}
	}
	answers = make([]runtime.Answer, 1)
	ok, err = s.compareAndSwap(ctx, x, calls, answers)
	return answers, ok, err
}

// oneTake is a single take from one row, as [plan] is for several calls: it needs no lists, and one allocation.
type oneTake struct {
	now      int64
	of       rowRequests
	all      [1]request
	rows     [1]RowUpsert
	decision [1]runtime.Decision
	answers  [1]runtime.Answer
}

// newOneTake returns nil if calls are not a single take that an upsert can decide.
func newOneTake(calls []runtime.Call, now int64) *oneTake {
	if len(calls) != 1 || len(calls[0].Requests) != 1 || calls[0].Requests[0].Policy == nil {
		return nil
	}
	q := &calls[0].Requests[0]
	t := &oneTake{now: now, all: [1]request{{q, 0, true}}}
	t.of = rowRequests{policy: q.Policy, all: t.all[:]}
	upsert, ok := t.of.upsert(now)
	if !ok {
		return nil
	}
	t.rows[0] = RowUpsert{Row: runtime.Row{Name: q.Policy.Name, Key: q.Key}, Upsert: upsert}
	return t
}

// takeOne runs a take, and returns false if it has taken nothing, or probably would not.
func (s *Store) takeOne(ctx context.Context, x *executor, t *oneTake) (taken bool, err error) {
	row := &t.rows[0]
	upsert := s.upsertStrategy(t.of.policy, &row.Row)
	if upsert == nil {
		return false, nil
	}
	row.After = runtime.State{}
	if err := upsert(ctx, x, part{t.of.policy, t.rows[:]}); err != nil || !row.After.Exists {
		return false, err
	}
	if s.upserter == nil {
		s.hints.allowed(row.Row)
	}
	t.decision[0] = t.of.taken(row.After, t.now, t.all[0])
	t.answers[0] = runtime.Answer{Decisions: t.decision[:], At: t.now}
	return true, nil
}
