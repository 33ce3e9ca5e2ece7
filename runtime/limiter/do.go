package limiter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
)

// do executes one call, given as a slice because that is the form of [runtime.Store.Do], within the timeouts of its
// limits. The call then has the policies in force. If the store fails, the call is decided without it, provided that
// each of its limits allows that by its OnError.
func (l *Limiter) do(ctx context.Context, calls []runtime.Call) (answer runtime.Answer, err error) {
	c := calls[0]
	if l == nil || l.store == nil {
		return runtime.Answer{Source: runtime.SourceNone}, fmt.Errorf("%v: %w", c, runtime.ErrNoStore)
	}
	if ctx == nil || ctx.Err() != nil {
		return runtime.Answer{Source: runtime.SourceNone}, fmt.Errorf("%v: %w", c, contextErr(ctx))
	}
	bounded, cancel := l.withTimeout(ctx, c)
	defer cancel()
	changed, now, err := l.override(bounded, &calls[0])
	if c = calls[0]; changed {
		// The plan that an override gives may have a timeout that the key's own has not.
		bounded, cancel = l.withTimeout(bounded, c)
		defer cancel()
	}
	decided, unread := false, err != nil
	if !unread {
		answer, decided = withoutRows(c, now)
	}
	if !unread && !decided {
		answers, failed := l.store.Do(bounded, calls)
		if answers, err = l.answered(bounded, calls, answers, failed); err == nil {
			answer = answers[0]
		}
	}
	if err == nil {
		err = answer.Err
	} else {
		answer, err = l.withoutStore(ctx, bounded, c, err, unread)
	}
	// Here, because the modes have been applied.
	for i := range answer.Decisions {
		spread(&answer.Decisions[i], &c.Requests[i], answer.At)
	}
	return answer, err
}

// errNilContext: the standard library panics, but a limit may be asked before anything else has used the context.
var errNilContext = fmt.Errorf("%w: the context is nil: pass context.Background() if there is no other", runtime.ErrInvalidCall)

// contextErr returns why no request can be made with a context, or nil.
func contextErr(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return ctx.Err()
}

// detachedTimeout bounds requests that are made after the caller's context has ended.
const detachedTimeout = 10 * time.Second

// detached returns a context for what must be done even if ctx has ended.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
}

// doAll executes calls that belong to reservations, without the timeouts and the OnError of their limits.
func (l *Limiter) doAll(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	for i := range calls {
		if _, _, err := l.override(ctx, &calls[i]); err != nil {
			return nil, err
		}
	}
	answers, err := l.store.Do(ctx, calls)
	return l.answered(ctx, calls, answers, err)
}

// answered returns the result of calls, given what the store has returned, and lets the memory of this process learn
// from it. Calls that settle reservations of a transaction of the caller are executed without it when it has ended.
func (l *Limiter) answered(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, err error) ([]runtime.Answer, error) {
	if l.settles && errors.Is(err, sql.ErrTxDone) && !errors.Is(err, runtime.ErrRolledBack) {
		answers, err = l.base.Do(ctx, calls)
	}
	if !l.inTx {
		for i := range answers {
			if answers[i].Answered() {
				l.local.learnFrom(calls[i], &answers[i])
			}
		}
	}
	return answers, err
}

// withoutRows returns the answer at the instant now to a call of which no request uses rows.
func withoutRows(c runtime.Call, now int64) (runtime.Answer, bool) {
	for i := range c.Requests {
		if c.Requests[i].UsesRows() {
			return runtime.Answer{}, false
		}
	}
	b := batch.New([]runtime.Call{c})
	b.Run(now, nil)
	answer := b.Answers()[0]
	answer.Source = runtime.SourceNone
	return answer, true
}

// spread sets the jitter of the decision on a request at the instant now, if it has to wait.
func spread(d *runtime.Decision, q *runtime.Request, now int64) {
	// RetryAfter is 0 if the request is allowed, and Delay is only the one that it would have had if it is denied.
	due := max(d.RetryAfter, d.BlockedFor)
	if d.Allowed {
		due = max(d.UsableAfter, d.BlockedFor)
	}
	if d.Policy == nil || due == 0 || due == runtime.Never {
		return
	}
	// Also a plan without a limit waits for the end of a block.
	jitter := d.Policy.Counted().Jitter
	if jitter == 0 {
		return
	}
	// In whole milliseconds, because roundings move the instant by nanoseconds from one request to the next, and the same
	// request must get the same jitter.
	const unit = int64(time.Millisecond)
	at := arith.Add(arith.Add(now, int64(due)), unit/2) / unit
	seed := arith.Hash(d.Policy.Name, q.Key)
	d.Jitter = time.Duration(arith.Mix(seed^arith.Mix(uint64(at))) % uint64(jitter+1))
}
