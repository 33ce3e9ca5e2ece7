package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
)

// Wait takes a token and returns when it can be used. See WaitN.
func (l Limit) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN takes n tokens and returns when they can be used. On a limit with reservations it reserves, so that callers are
// served in the order of their requests. Otherwise it retries when the tokens may have accrued; of the callers in this
// process that wait for one key of the limiter, one at a time retries.
//
// It returns at once, without taking tokens, if the context's deadline is before the tokens are available: the error is
// both a [*runtime.LimitedError] and [context.DeadlineExceeded]. The jitter of the policy is added if it ends before the deadline.
// If the policy's Mode is [runtime.ModeBlock], or an operator has blocked the key, it returns a [*runtime.LimitedError] at once, even if the
// block has an end. While it retries, it also does so when an override of the key begins or ends; tokens that are
// reserved already keep their delay. If the context ends while WaitN waits, the tokens are refunded, and the error is the context's.
func (l Limit) WaitN(ctx context.Context, n int64) error {
	// The first try is outside the queue, so that a call that does not have to wait takes no lock.
	l.held = l.limiter.hold()
	d, err := l.tryWait(ctx, n)
	if err == nil && !d.Allowed {
		d, err = l.waitInQueue(ctx, n)
	}
	l.limiter.release(ctx, l.held, err)
	l.held = nil
	if err != nil {
		return err
	}
	if uncounted(&d) {
		n = 0
	}
	return l.sleepOrRefund(ctx, d, n)
}

// tryWait takes n tokens if they can be used before the context's deadline. After a denial without an error, a retry may
// pass.
func (l Limit) tryWait(ctx context.Context, n int64) (runtime.Decision, error) {
	left, limited := timeLeft(ctx)
	d, err := l.do(ctx, runtime.Request{Op: runtime.Take, Count: n, Reserve: l.policy.MayReserve(), MaxDelay: left})
	switch {
	case err != nil || d.Allowed:
	case d.RetryAfter == runtime.Never || blocks(&d):
		// Also a block with an end: the operator has denied the request, and may prolong it.
		err = d.Err()
	case limited && max(d.Delay, d.RetryAfter) >= left:
		err = fmt.Errorf("%w: %w", d.Err(), context.DeadlineExceeded)
	}
	return d, err
}

// timeLeft returns the time until the context's deadline, or false if it has none.
func timeLeft(ctx context.Context) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0, false
	}
	// At least a nanosecond, because a MaxDelay of 0 means no bound.
	return max(1, time.Until(deadline)), true
}

// waitInQueue takes n tokens when they are available, or can be reserved.
func (l Limit) waitInQueue(ctx context.Context, n int64) (d runtime.Decision, err error) {
	requests := []runtime.Request{{Policy: l.policy, Key: l.key.String()}}
	err = l.limiter.retry(ctx, requests, func() (decisions []runtime.Decision, err error) {
		d, err = l.tryWait(ctx, n)
		return []runtime.Decision{d}, err
	})
	return d, err
}

// retry repeats a request, given as the requests of its limits, until all of them are allowed. Of the callers that wait for the same
// limits and keys, one at a time retries.
func (l *Limiter) retry(ctx context.Context, requests []runtime.Request, try func() ([]runtime.Decision, error)) error {
	leave, err := l.waiters.join(ctx, queueOf(requests))
	if err != nil {
		return fmt.Errorf("%v: %w", runtime.Call{Requests: requests}, err)
	}
	defer leave()
	for {
		decisions, err := try()
		if err != nil || !slices.ContainsFunc(decisions, func(d runtime.Decision) bool { return !d.Allowed }) {
			return err
		}
		longest := time.Duration(0)
		for _, d := range decisions {
			if !d.Allowed {
				longest = max(longest, jittered(ctx, d.RetryAfter, d.Jitter))
			}
		}
		if err := sleepForRetry(ctx, l.store, longest, requests, decisions); err != nil {
			return fmt.Errorf("%v: %w", runtime.Call{Requests: requests}, err)
		}
	}
}

// queueOf identifies the callers that wait for the same keys. Those of several limits do not share the queue of a single one:
// waiting in it for another limit would keep callers from tokens that are available.
func queueOf(requests []runtime.Request) (row runtime.Row) {
	for i, q := range requests {
		if i > 0 {
			// Neither names nor stored keys contain the separator.
			row.Name, row.Key = row.Name+"\x00", row.Key+"\x00"
		}
		row.Name, row.Key = row.Name+q.Policy.Name, row.Key+q.Key
	}
	return row
}

// uncounted reports whether the store has not counted the tokens of an allowed request.
func uncounted(d *runtime.Decision) bool { return d.FailedOpen != nil || d.FailedLocal != nil }

// blocks reports whether it is a denial because of [runtime.ModeBlock].
func blocks(d *runtime.Decision) bool {
	return !d.Allowed && d.Policy != nil && d.Policy.Mode == runtime.ModeBlock
}

// sleepOrRefund waits until n tokens that were taken can be used, or refunds them if the context ends first.
func (l Limit) sleepOrRefund(ctx context.Context, d runtime.Decision, n int64) error {
	err := sleep(ctx, jittered(ctx, d.Delay, d.Jitter), nil)
	switch {
	case err == nil:
		return nil
	case n == 0:
		return l.wrap(err)
	}
	if refundErr := l.refund(ctx, d, n); refundErr != nil {
		return fmt.Errorf("%w, and the tokens could not be refunded: %w", l.wrap(err), refundErr)
	}
	return l.wrap(err)
}

// jittered returns a wait with its jitter, or without it if the context would end first.
func jittered(ctx context.Context, wait, jitter time.Duration) time.Duration {
	longer := time.Duration(arith.Add(int64(wait), int64(jitter)))
	if left, limited := timeLeft(ctx); limited && longer >= left {
		return wait
	}
	return longer
}

// sleepForRetry waits until a denied request may pass: for the given time, or until another policy is in force for one of
// the keys than the one by which it was denied.
func sleepForRetry(ctx context.Context, store runtime.Store, wait time.Duration, requests []runtime.Request, denied []runtime.Decision) error {
	s, ok := store.(override.Store)
	if !ok || !s.OverrideView().InUse() {
		return sleep(ctx, wait, nil)
	}
	view, begin := s.OverrideView(), time.Now()
	for {
		snapshot := view.Snapshot()
		next := min(wait-time.Since(begin), snapshot.Lasts(requests, denied, view.Now))
		if err := sleep(ctx, next, snapshot.Changed()); err != nil || next <= 0 {
			return err
		}
	}
}
