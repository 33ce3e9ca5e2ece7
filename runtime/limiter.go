package runtime

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limiter connects limits with a [Store]. Generated code wraps one; for a limit written in Go, make one directly:
//
//	limiter := runtime.NewLimiter(store)
//	d, err := limiter.Limit(&policy, runtime.KeyOf(runtime.Int64(userID))).Allow(ctx)
//
// The zero Limiter has no store, and all methods of its limits return [ErrNoStore].
type Limiter struct {
	store   Store
	waiters waitQueue
	// local decides while the store fails.
	local localMemory
	// inTx means that store is in a transaction of the caller, and base is the store outside of it.
	inTx bool
	base Store
	// settles means that requests go to base when the transaction has ended.
	settles bool
	// observer may be nil.
	observer Observer
}

// NewLimiter returns a limiter with its counts in store. The options may have it observed: see [Observe].
func NewLimiter(store Store, options ...Option) *Limiter {
	l := &Limiter{store: store}
	for _, option := range options {
		option(l)
	}
	return l
}

// WithTx returns a limiter that keeps its counts inside a transaction of the caller, which must be of the database that
// holds the counts: tokens are taken if and only if tx commits. The methods of its limits return [ErrNoTx] if the store
// does not support transactions, and [ErrNilTx] if tx is nil.
func (l *Limiter) WithTx(tx Tx) *Limiter {
	if l == nil || l.store == nil {
		return l
	}
	return &Limiter{store: InTx(l.store, tx), inTx: true, base: l.store, observer: l.observer}
}

// settler returns the limiter that settles reservations of l: for those of a transaction, one that goes on without it when
// it has ended.
func (l *Limiter) settler() *Limiter {
	if l == nil || !l.inTx || l.settles {
		return l
	}
	return &Limiter{store: l.store, inTx: true, base: l.base, settles: true, observer: l.observer}
}

// afterTx executes calls that settle reservations of a transaction, if the error of the store in it is that it has ended.
func (l *Limiter) afterTx(ctx context.Context, calls []Call, err error) ([]Answer, error) {
	if errors.Is(err, sql.ErrTxDone) && !errors.Is(err, ErrRolledBack) {
		return l.base.Do(ctx, calls)
	}
	return nil, err
}

// Limit returns one key of a limit without reservations.
func (l *Limiter) Limit(p *Policy, key Key) Limit { return Limit{limiter: l, policy: p, key: key} }

// Reservable returns one key of a limit with reservations.
func (l *Limiter) Reservable(p *Policy, key Key) ReservableLimit {
	return ReservableLimit{l.Limit(p, key)}
}

// ReserveOnly returns one key of a limit with capacity 0, whose tokens can only be reserved.
func (l *Limiter) ReserveOnly(p *Policy, key Key) ReserveOnlyLimit {
	return ReserveOnlyLimit{l.Limit(p, key)}
}

// Overrides returns the overrides of one key of a limit.
func (l *Limiter) Overrides(p *Policy, key Key) Overrides { return Overrides{l.Limit(p, key)} }

// OverridesForAll returns the overrides of all keys of a limit together.
func (l *Limiter) OverridesForAll(p *Policy) Overrides { return l.Overrides(p, Key{}) }

// do executes one call, given as a slice because that is the form of [Store.Do], within the timeouts of its limits. The
// call then has the policies in force. If the store fails, the call is decided without it, provided that each of its
// limits allows that by its OnError.
func (l *Limiter) do(ctx context.Context, calls []Call) (answer Answer, err error) {
	c := calls[0]
	if l == nil || l.store == nil {
		return Answer{Source: SourceNone}, fmt.Errorf("%s: %w", limitNames(c.Requests), ErrNoStore)
	}
	if err := ctx.Err(); err != nil {
		return Answer{Source: SourceNone}, fmt.Errorf("%s: %w", limitNames(c.Requests), err)
	}
	bounded := ctx
	// In a transaction of the caller neither timeouts nor OnError apply: a cancelled or failed statement ends it, so
	// that the caller has to roll back anyway.
	if !l.inTx {
		var cancel context.CancelFunc
		bounded, cancel = c.withTimeout(ctx)
		defer cancel()
	}
	changed, now, err := l.override(bounded, &calls[0])
	if c = calls[0]; changed && !l.inTx {
		// The plan that an override gives may have a timeout that the key's own has not.
		var cancel context.CancelFunc
		bounded, cancel = c.withTimeout(bounded)
		defer cancel()
	}
	decided, unread := false, err != nil
	if !unread {
		answer, decided = c.withoutStore(now)
	}
	if !unread && !decided {
		var answers []Answer
		if answers, err = l.store.Do(bounded, calls); err != nil && l.settles {
			answers, err = l.afterTx(bounded, calls, err)
		}
		if err == nil {
			answer = answers[0]
			l.learn(c, &answer)
		}
	}
	if err == nil {
		err = answer.Err
	} else {
		answer, err = l.withoutStore(ctx, bounded, c, err, unread)
	}
	// Here, because the modes have been applied.
	for i := range answer.Decisions {
		answer.Decisions[i].spread(&c.Requests[i], answer.At)
	}
	return answer, err
}

// withoutStore answers a call for which the store has failed with err in the context bounded, or the overrides could not be
// read, as the OnError of its limits says.
func (l *Limiter) withoutStore(ctx, bounded context.Context, c Call, err error, unread bool) (Answer, error) {
	if cause := context.Cause(bounded); !l.inTx && errors.Is(cause, errTimeout) && !errors.Is(err, errTimeout) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	gone := ended(ctx)
	if gone != nil && !errors.Is(err, gone) {
		err = fmt.Errorf("%w: %w", gone, err)
	}
	// A caller that has gone does not wait for a decision, and the store has not failed: with short deadlines, clients could
	// otherwise open the limit.
	if l.inTx || c.failsClosed() || unread && c.needsOverrides() || gone != nil {
		return Answer{}, fmt.Errorf("%s: %w", limitNames(c.Requests), err)
	}
	answer := l.decideWithout(c, err)
	return answer, answer.Err
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

// limitNames returns the names of the limits of an error, but never their keys, which may be personal.
func limitNames(requests []Request) string {
	var names []string
	for i := range requests {
		if p := requests[i].Policy; p != nil {
			names = append(names, p.Name)
		}
	}
	return "limit " + quoted(names, ", ")
}

// maxNames is how many limits a message names: a call of thousands of them must not make a message of a megabyte.
const maxNames = 5

// quoted returns names in quotes, each once, with a separator. Of many, it returns the first and how many others there are.
func quoted(names []string, separator string) string {
	seen := map[string]bool{}
	var first []string
	for _, name := range names {
		if !seen[name] && len(first) < maxNames {
			first = append(first, strconv.Quote(name))
		}
		seen[name] = true
	}
	text := strings.Join(first, separator)
	if more := len(seen) - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
