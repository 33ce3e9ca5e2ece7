package limiter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/trait"
)

// doRequests is do for requests that are valid.
func (l *Limiter) doRequests(ctx context.Context, requests []runtime.Request) (runtime.Answer, error) {
	return l.do(ctx, []runtime.Call{{Requests: requests}}, traitsOf(requests))
}

// traitsOf returns the traits of the policies of some requests together.
func traitsOf(requests []runtime.Request) (all trait.Set) {
	for i := range requests {
		traits, _ := requests[i].Policy.Inside().Traits()
		all |= traits
	}
	return all
}

// do executes one valid call, given as a slice because that is the form of [runtime.Store.Do], and given the traits of its
// policies. A call without a trait skips the stage that is about it. Afterwards, the call has the policies in force.
func (l *Limiter) do(ctx context.Context, calls []runtime.Call, traits trait.Set) (answer runtime.Answer, err error) {
	if err := l.ready(ctx); err != nil {
		return runtime.Answer{Source: runtime.SourceNone}, fmt.Errorf("%v: %w", calls[0], err)
	}
	bounded := ctx
	if traits.Have(trait.Timeout) {
		within, cancel := l.withTimeout(bounded, calls[0])
		defer cancel()
		bounded = within
	}
	now, unread := int64(0), false
	if traits.Have(trait.Overrides) {
		var changed bool
		changed, now, err = l.override(bounded, &calls[0])
		if unread = err != nil; changed {
			traits |= traitsOf(calls[0].Requests)
			// The plan that an override gives may have a timeout that the key's own has not.
			within, cancel := l.withTimeout(bounded, calls[0])
			defer cancel()
			bounded = within
		}
	}
	switch {
	case unread:
	case traits.Have(trait.Mode) && !usesRows(calls[0]):
		answer = withoutRows(calls[0], now)
	default:
		answers, failed := l.store.Do(bounded, calls)
		if failed != nil {
			answers, failed = l.afterTx(bounded, calls, answers, failed)
		}
		if traits.Have(trait.Local) || calls[0].Requests[0].Op == runtime.Reset {
			l.learnFrom(calls, answers)
		}
		if err = failed; err == nil {
			answer = answers[0]
		}
	}
	if err != nil {
		answer = l.withoutStore(ctx, bounded, calls[0], err, unread)
	}
	if traits.Have(trait.Jitter) {
		// The last stage, because the modes have been applied.
		for i := range answer.Decisions {
			spread(&answer.Decisions[i], &calls[0].Requests[i], answer.At)
		}
	}
	return answer, answer.Err
}

// ready returns why no request can be made with a context, or nil.
func (l *Limiter) ready(ctx context.Context) error {
	if l == nil || l.store == nil {
		return runtime.ErrNoStore
	}
	return contextErr(ctx)
}

// errNilContext: the standard library panics, but a limit may be asked before anything else has used the context.
var errNilContext = fmt.Errorf("%w: the context is nil: pass context.Background() if there is no other",
	runtime.ErrInvalidCall)

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
	if err != nil {
		answers, err = l.afterTx(ctx, calls, answers, err)
	}
	l.learnFrom(calls, answers)
	return answers, err
}

// afterTx returns the result of calls that have failed. Calls that settle reservations of a transaction of the caller are
// executed without it when it has ended.
func (l *Limiter) afterTx(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, err error) ([]runtime.Answer, error) {
	if l.settles && errors.Is(err, sql.ErrTxDone) && !errors.Is(err, runtime.ErrRolledBack) {
		return l.base.Do(ctx, calls)
	}
	return answers, err
}

// learnFrom keeps the counts that the store has reported, for the limits with FailLocal.
func (l *Limiter) learnFrom(calls []runtime.Call, answers []runtime.Answer) {
	if l.inTx {
		return
	}
	for i := range answers {
		if answers[i].Answered() {
			l.local.learnFrom(calls[i], &answers[i])
		}
	}
}

// usesRows reports whether a request of a call uses rows.
func usesRows(c runtime.Call) bool {
	return slices.ContainsFunc(c.Requests, func(q runtime.Request) bool { return q.UsesRows() })
}

// withoutRows returns the answer at the instant now to a call of which no request uses rows.
func withoutRows(c runtime.Call, now int64) runtime.Answer {
	b := batch.New([]runtime.Call{c})
	b.Run(now, nil)
	answer := b.Answers()[0]
	answer.Source = runtime.SourceNone
	return answer
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
	jitter := d.Policy.Inside().Counted().Jitter
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

// zoneOf returns the time zone of the windows of a request: UTC if they have none.
func zoneOf(q *runtime.Request) *time.Location {
	if q.Zone != nil {
		return q.Zone
	}
	if c := q.Policy.Calendar; c.Unit > 0 {
		// The data of the zone is there: a window of it has been decided.
		if zone, err := c.Location(); err == nil {
			return zone
		}
	}
	return time.UTC
}
