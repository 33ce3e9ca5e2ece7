package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
)

// errTimeout is the cause with which the context of withTimeout ends.
var errTimeout = errors.New("the store did not answer within the limit's timeout")

// withTimeout returns a context that ends after the shortest timeout of the limits of a call. The cause distinguishes
// the timeout from the caller's deadline. In a transaction of the caller neither timeouts nor OnError apply: a cancelled or
// failed statement ends it, so that the caller has to roll back anyway.
func (l *Limiter) withTimeout(ctx context.Context, c runtime.Call) (context.Context, context.CancelFunc) {
	shortest := time.Duration(0)
	for i := range c.Requests {
		q := &c.Requests[i]
		needed := q.UsesRows() || l.unread(q.Policy)
		if t := q.Policy.Inside().Counted().Timeout; q.Decides() && needed && t > 0 && (shortest == 0 || t < shortest) {
			shortest = t
		}
	}
	if shortest == 0 || l.inTx {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, shortest, fmt.Errorf("%w of %v", errTimeout, shortest))
}

// failsClosed reports whether a call needs the store: one of its limits has FailClosed, or a request does not decide.
func failsClosed(c runtime.Call) bool {
	return slices.ContainsFunc(c.Requests,
		func(q runtime.Request) bool { return !q.Decides() || q.UsesRows() && closed(q.Policy) })
}

// closed reports whether requests fail with the store. In shadow mode they pass whatever is decided.
func closed(p *runtime.Policy) bool {
	return p.OnError == runtime.FailClosed && p.Mode != runtime.ModeShadow
}

// failOpen returns an answer to a call for which the store has failed with err. It allows the requests that need the
// store.
func failOpen(c runtime.Call, err error) runtime.Answer {
	// A mistake in the call itself, such as a count beyond the capacity, remains an error: executing the call on empty
	// rows finds it.
	empty := batch.New([]runtime.Call{c})
	for !empty.Run(0, make([]runtime.State, len(empty.Rows()))) {
	}
	answer := empty.Answers()[0]
	for i, q := range c.Requests[:len(answer.Decisions)] {
		if !q.UsesRows() {
			continue
		}
		taken := answer.Decisions[i].Taken
		if q.Op == runtime.Take {
			taken = q.Count // also if it is a reservation that would have been due too late
		}
		answer.Decisions[i] = runtime.Decision{Limit: q.Policy.Name, Policy: q.Policy, Allowed: true,
			Taken: taken, FailedOpen: err}
	}
	return answer
}

// learnFrom keeps the counts that the store has reported in the decisions on a call, for the limits with FailLocal.
func (m *localMemory) learnFrom(c runtime.Call, answer *runtime.Answer) {
	if answer.Source != runtime.SourceStore || answer.Err != nil {
		return
	}
	// In the order in which they were decided: see [runtime.Call].
	for _, checks := range [...]bool{true, false} {
		for i := range c.Requests {
			switch q := &c.Requests[i]; {
			case (q.Op == runtime.Check) != checks:
			case q.Op == runtime.Reset:
				m.forget(q) // whatever the plan
			case q.Policy.OnError == runtime.FailLocal && q.UsesRows() && !q.Policy.Inside().Numberless():
				m.learn(q, &answer.Decisions[i], answer.At)
			}
		}
	}
}

// decideWithout answers a call for which the store has failed with err. Requests of limits with FailOpen pass, and
// those of limits with FailLocal are decided from memory, all or none of them.
func (m *localMemory) decideWithout(c runtime.Call, err error) runtime.Answer {
	// Validates the whole call, too.
	answer := failOpen(c, err)
	if answer.Err != nil {
		return answer
	}
	var local runtime.Call
	var at []int
	for i, q := range c.Requests {
		// Those that need no store decide too: a blocked limit must not take tokens of the others.
		if q.UsesRows() && (q.Policy.OnError != runtime.FailLocal || q.Policy.Mode == runtime.ModeShadow) {
			continue
		}
		local.Requests, at = append(local.Requests, q), append(at, i)
	}
	var decided runtime.Answer
	if len(at) > 0 {
		decided = m.decide(local, time.Now().UnixNano())
	}
	if decided.Err != nil {
		return decided
	}
	for i, d := range decided.Decisions {
		if local.Requests[i].UsesRows() {
			// The store has taken nothing, and a refund must not give it tokens.
			d.TakenAt, d.Fence, d.Crossed, d.FailedLocal = time.Time{}, 0, 0, err
		}
		d.Policy = c.Requests[at[i]].Policy
		answer.Decisions[at[i]] = d
	}
	answer.At = decided.At
	if !answer.Allowed() {
		for i := range answer.Decisions {
			answer.Decisions[i].Taken = 0
		}
	}
	return answer
}

// withoutStore answers a call for which the store has failed with err in the context bounded, or the overrides could
// not be read, as the OnError of its limits says.
func (l *Limiter) withoutStore(ctx, bounded context.Context, c runtime.Call, err error, unread bool) runtime.Answer {
	if runtime.OriginOf(err) != runtime.OriginStore {
		// The store has not failed: each such request would pass for as long as the program runs.
		return runtime.Answer{Err: fmt.Errorf("%v: %w", c, err)}
	}
	if cause := context.Cause(bounded); !l.inTx && errors.Is(cause, errTimeout) && !errors.Is(err, errTimeout) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	gone := ended(ctx)
	if gone != nil && !errors.Is(err, gone) {
		err = fmt.Errorf("%w: %w", gone, err)
	}
	// A caller that has gone does not wait for a decision, and the store has not failed: with short deadlines, clients
	// could otherwise open the limit.
	if l.inTx || failsClosed(c) || unread && needsOverrides(&c) || gone != nil {
		return runtime.Answer{Err: fmt.Errorf("%v: %w", c, err)}
	}
	return l.local.decideWithout(c, err)
}

// ended returns the error of a caller's context that has ended.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// A driver's own clock may be a moment ahead of the context's.
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// needsOverrides reports whether a call fails if the overrides cannot be read: whatever its mode, a key may be blocked.
func needsOverrides(c *runtime.Call) bool {
	return slices.ContainsFunc(c.Requests,
		func(q runtime.Request) bool { return q.Policy.Overridable() && closed(q.Policy.Inside().Counted()) })
}
