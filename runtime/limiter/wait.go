package limiter

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Wait takes a token and returns when it can be used. See WaitN.
func (l Limit) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN takes n tokens and returns when they can be used. On a limit with reservations it reserves, so that callers are
// served in the order of their requests. Otherwise it retries when the tokens may have accrued; of the callers in this
// process that wait for one key of the limiter, one at a time retries.
//
// It returns at once, without taking tokens, if the context's deadline is before the tokens are available: the error is
// both a [*runtime.LimitedError] and [context.DeadlineExceeded]. The jitter of the policy is added if it ends before
// the deadline. If the policy's Mode is [runtime.ModeBlock], or an operator has blocked the key, it returns a
// [*runtime.LimitedError] at once, even if the block has an end. Only the first denial starts a [runtime.Penalty],
// which it waits for. While it retries, it also does so when an override of the key begins or ends; tokens that are
// reserved already keep their delay. If the context ends while WaitN waits, the tokens are refunded, and the error is
// the context's.
func (l Limit) WaitN(ctx context.Context, n int64) error { return l.limiter.Group(l.N(n)).Wait(ctx) }

// waitReserve is WaitReserveN of limits with reservations.
func (l Limit) waitReserve(ctx context.Context, n int64) (*Reservation, error) {
	rs, err := l.limiter.Group(l.N(n)).WaitReserve(ctx)
	if err != nil {
		return nil, err
	}
	return rs.At(0), nil
}

// Wait takes the tokens of all items and returns when all of them can be used. It reserves from the limits that have
// reservations, and retries while another limit or a check denies; of the callers in this process that wait for the
// same items of the limiter, one at a time retries.
//
// It returns at once, without taking tokens, if the context's deadline is before all tokens are available: the error is
// both a [*runtime.LimitedError] and [context.DeadlineExceeded]. If the Mode of a policy is [runtime.ModeBlock], or an
// operator has blocked a key, it returns a [*runtime.LimitedError] at once, even if the block has an end. If the
// context ends while Wait waits, the tokens are refunded, and the error is the context's. It is
// [runtime.ErrInvalidCall] if an item acquires slots, which could not be released then.
func (g Group) Wait(ctx context.Context) error {
	_, err := g.WaitReserve(ctx)
	return err
}

// WaitReserve is Wait, and returns the tokens as reservations, to settle them when the use is known. The errors are those of
// Wait, with which there is nothing to settle.
func (g Group) WaitReserve(ctx context.Context) (*Reservations, error) {
	requests, err := g.withoutSlots(ctx)
	if err != nil {
		return nil, err
	}
	watch := g.limiter.observing()
	h := watch.hold(anyWarns(requests))
	// The first try is outside the queue, so that a call that does not have to wait takes no lock.
	rs, err := g.limiter.tryWithin(ctx, requests, false, h)
	if err == nil && !rs.Allowed {
		rs, err = g.limiter.retry(ctx, requests, h)
	}
	watch.release(ctx, h, err)
	if err == nil {
		err = rs.Wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	return rs, nil
}

// tryWithin takes the tokens if they can be used before the context's deadline. After a denial without an error, a
// retry may pass.
func (l *Limiter) tryWithin(ctx context.Context, of []runtime.Request, retry bool, h *held) (*Reservations, error) {
	left, limited := timeLeft(ctx)
	// The store may still be using the requests of the last try.
	requests := slices.Clone(of)
	for i := range requests {
		requests[i].Retry = retry
	}
	rs, err := l.reserve(ctx, requests, left, h)
	if err != nil || rs.Allowed {
		return rs, err
	}
	for _, d := range rs.Each {
		switch {
		case d.Allowed:
		case d.RetryAfter == runtime.Never, d.Policy != nil && d.Policy.Mode == runtime.ModeBlock:
			// Also a block with an end: the operator has denied the request, and may prolong it.
			return rs, rs.Err()
		case limited && max(d.UsableAfter, d.RetryAfter) >= left && err == nil:
			err = fmt.Errorf("%w: %w", d.Err(), context.DeadlineExceeded)
		}
	}
	return rs, err
}

// retry repeats a request until all of its limits allow it. Of the callers that wait for the same limits and keys, one
// at a time retries.
func (l *Limiter) retry(ctx context.Context, of []runtime.Request, h *held) (*Reservations, error) {
	_, leave, err := l.waiters.join(ctx, queueOf(of))
	if err != nil {
		return nil, fmt.Errorf("%v: %w", runtime.Call{Requests: of}, err)
	}
	defer leave()
	for {
		rs, err := l.tryWithin(ctx, of, true, h)
		if err != nil || rs.Allowed {
			return rs, err
		}
		longest := time.Duration(0)
		for _, d := range rs.Each {
			if !d.Allowed {
				longest = max(longest, jittered(ctx, d.RetryAfter, d.Jitter))
			}
		}
		if err := l.sleepForRetry(ctx, longest, of, rs.Each); err != nil {
			return nil, fmt.Errorf("%v: %w", runtime.Call{Requests: of}, err)
		}
	}
}

// queueOf identifies the callers that wait for the same keys in the same class: one that leaves tokens to others does not
// hold up these. Those of several limits do not share the queue of a single one: waiting in it for another limit would keep
// callers from tokens that are available.
func queueOf(requests []runtime.Request) (row runtime.Row) {
	for i, q := range requests {
		if i > 0 {
			// Neither names nor stored keys contain the separator.
			row.Name, row.Key = row.Name+"\x00", row.Key+"\x00"
		}
		row.Name, row.Key = row.Name+q.Policy.Name, row.Key+q.Key
		if leaves := q.Policy.Priority.Leaves; leaves > 0 {
			row.Name += "\x00" + strconv.Itoa(leaves)
		}
	}
	return row
}

// sleepForRetry waits until a denied request may pass: for the given time, or until another policy is in force for one
// of the keys than the one by which it was denied.
func (l *Limiter) sleepForRetry(ctx context.Context, wait time.Duration, requests []runtime.Request,
	denied []runtime.Decision) error {
	if l.log == nil || !l.log.OverrideView().InUse() {
		return sleep(ctx, wait, nil)
	}
	view, begin := l.log.OverrideView(), time.Now()
	for {
		snapshot := view.Snapshot()
		next := min(wait-time.Since(begin), snapshot.Lasts(requests, denied, view.Now))
		if err := sleep(ctx, next, snapshot.Changed()); err != nil || next <= 0 {
			return err
		}
	}
}
