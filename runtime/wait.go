package runtime

import (
	"context"
	"fmt"
	"time"
)

// Wait takes a token and returns when it can be used. See WaitN.
func (h Handle) Wait(ctx context.Context) error { return h.WaitN(ctx, 1) }

// WaitN takes n tokens and returns when they can be used. If the limit can be reserved ahead it does that,
// so that callers go in the order in which they came; otherwise it tries again when the tokens may be
// there, and of those that wait in this process for one key of it, one at a time does.
//
// It returns at once, with nothing taken, if the context's deadline is nearer than the tokens are: the
// error is both a [*LimitedError] and [context.DeadlineExceeded]. If the context ends while WaitN waits,
// the tokens are given back, and the error is the context's.
func (h Handle) WaitN(ctx context.Context, n int64) error {
	d, err := h.tryWait(ctx, n)
	if err == nil && !d.Allowed {
		d, err = h.waitInLine(ctx, n)
	}
	if err != nil || d.FailedOpen != nil {
		return err
	}
	return h.sleepOrRefund(ctx, d, n)
}

// waitInLine takes n tokens when they are there, or can be reserved.
func (h Handle) waitInLine(ctx context.Context, n int64) (Decision, error) {
	leave, err := h.limiter.line.join(ctx, h.row())
	if err != nil {
		return Decision{}, h.wrap(err)
	}
	defer leave()
	for {
		d, err := h.tryWait(ctx, n)
		if err != nil || d.Allowed {
			return d, err
		}
		if err := sleep(ctx, d.RetryAfter); err != nil {
			return Decision{}, h.wrap(err)
		}
	}
}

// tryWait takes n tokens if they can be used before the context's deadline. The error says if they never
// can; after a denial, they may be when it is tried again.
func (h Handle) tryWait(ctx context.Context, n int64) (Decision, error) {
	left, limited := timeLeft(ctx)
	d, err := h.ask(ctx, Request{Op: Take, Count: n, Reserve: h.policy.Reserves(), MaxDelay: left})
	if err == nil && !d.Allowed && limited && max(d.Delay, d.RetryAfter) >= left {
		err = fmt.Errorf("%w: %w", &LimitedError{d}, context.DeadlineExceeded)
	}
	return d, err
}

// timeLeft returns the time until the context's deadline, at least a nanosecond, or false if it has none.
func timeLeft(ctx context.Context) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0, false
	}
	return max(1, time.Until(deadline)), true
}

// sleepOrRefund waits until n tokens that were taken can be used. If the context ends first, they are
// given back.
func (h Handle) sleepOrRefund(ctx context.Context, d Decision, n int64) error {
	err := sleep(ctx, d.Delay)
	if err == nil {
		return nil
	}
	if refund := h.giveBack(ctx, d, n); refund != nil {
		return fmt.Errorf("%w, and its tokens could not be given back: %w", h.wrap(err), refund)
	}
	return h.wrap(err)
}

// sleep waits for d, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
