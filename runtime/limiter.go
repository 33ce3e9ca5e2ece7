package runtime

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limiter asks a [Store]. Generated code wraps one; a limit written in Go is made from one directly:
//
//	limiter := runtime.NewLimiter(store)
//	d, err := limiter.Limit(&policy, runtime.KeyOf(runtime.Int64(userID))).Allow(ctx)
//
// The zero Limiter has no store: it answers every question with [ErrNoStore].
type Limiter struct {
	store Store
	line  line
	// inTx says that store is in a transaction of the caller.
	inTx bool
}

// NewLimiter returns a limiter whose counts are in store.
func NewLimiter(store Store) *Limiter { return &Limiter{store: store} }

// Limit returns one key of a limit, to be asked without reserving.
func (l *Limiter) Limit(p *Policy, key Key) Limit { return Limit{handle{l, p, key}} }

// Reservable returns one key of a limit, to be asked with or without reserving.
func (l *Limiter) Reservable(p *Policy, key Key) ReservableLimit {
	return ReservableLimit{taking{handle{l, p, key}}}
}

// ReserveOnly returns one key of a limit with capacity 0, of which nothing can be taken at once.
func (l *Limiter) ReserveOnly(p *Policy, key Key) ReserveOnlyLimit {
	return ReserveOnlyLimit{handle{l, p, key}}
}

// All takes from several limits at once: from all of them or, if one denies, from none. Requests for the
// same key of the same limit add up. The error is [ErrInvalidCall] if there are no items, or one is nil or
// another limiter's, and otherwise one of those of [Limit.AllowN].
func (l *Limiter) All(ctx context.Context, items ...Item) (Decisions, error) {
	if len(items) == 0 || slices.Contains(items, nil) {
		return Decisions{}, fmt.Errorf("%w: there is no limit to take from", ErrInvalidCall)
	}
	requests := make([]Request, len(items))
	for i, item := range items {
		q, err := item.request(l)
		if err != nil {
			return Decisions{}, err
		}
		requests[i] = q
	}
	each, err := l.do(ctx, []Call{{Requests: requests}})
	if err != nil {
		return Decisions{}, err
	}
	all := Decisions{Allowed: true, Each: each}
	for _, d := range each {
		all.Allowed = all.Allowed && d.Allowed
		all.RetryAfter = max(all.RetryAfter, d.RetryAfter)
	}
	return all, nil
}

// do has the store answer a call, as a list of one.
func (l *Limiter) do(ctx context.Context, call []Call) ([]Decision, error) {
	requests := call[0].Requests
	if l == nil || l.store == nil {
		return nil, fmt.Errorf("%s: %w", names(requests), ErrNoStore)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", names(requests), err)
	}
	answer, err := l.answerOrFail(ctx, call)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names(requests), err)
	}
	return answer.Decisions, answer.Err
}

// single is a call of one request, in one piece of memory.
type single struct {
	call    [1]Call
	request [1]Request
}

// callOf returns the call of one request, as a list.
func callOf(q Request) []Call {
	s := &single{request: [1]Request{q}}
	s.call[0].Requests = s.request[:]
	return s.call[:]
}

// names returns the limits that an error is about, never their keys.
func names(requests []Request) string {
	var b strings.Builder
	b.WriteString("limit ")
	for i, q := range requests {
		if i > 0 {
			b.WriteString(", ")
		}
		if q.Policy != nil {
			b.WriteString(strconv.Quote(q.Policy.Name))
		}
	}
	return b.String()
}
