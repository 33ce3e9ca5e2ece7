package sqlstore

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Taker takes tokens by a single statement, where a driver has a faster way than a transaction. See
// [Options].
type Taker interface {
	// Take decides u for a row. It returns the state in which it has left the row, or false if it has
	// not taken.
	Take(ctx context.Context, row runtime.Row, u runtime.Upsert) (runtime.State, bool, error)
}

// take takes by a single statement. It returns false if the store or the request has no such form, or if
// the statement has not taken.
func (s *Store) take(ctx context.Context, calls []runtime.Call) (runtime.Decision, bool, error) {
	q, ok := only(calls)
	if !ok || s.taker == nil {
		return runtime.Decision{}, false, nil
	}
	clock, err := s.now(ctx, s.db)
	if err != nil {
		return runtime.Decision{}, false, err
	}
	now, rule := clock(), q.Policy.Rule(q.Key)
	u, ok := rule.Upsert(now, q.Ask)
	if !ok {
		return runtime.Decision{}, false, nil
	}
	after, ok, err := s.taker.Take(ctx, runtime.Row{Name: q.Policy.Name, Key: q.Key}, u)
	if !ok || err != nil {
		return runtime.Decision{}, false, err
	}
	d := rule.Taken(after, now, q.Ask)
	d.Limit = q.Policy.Name
	return d, true, nil
}

// only returns the request of calls if there is but one, of a limit without shards.
func only(calls []runtime.Call) (runtime.Request, bool) {
	if len(calls) != 1 || len(calls[0].Requests) != 1 {
		return runtime.Request{}, false
	}
	q := calls[0].Requests[0]
	return q, q.Policy.Validate() == nil && q.Policy.Shards <= 1
}
