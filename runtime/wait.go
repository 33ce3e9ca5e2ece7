package runtime

import (
	"context"
	"fmt"
	"time"
)

// Wait takes a token and returns when it can be used. See WaitN.
func (h handle) Wait(ctx context.Context) error { return h.WaitN(ctx, 1) }

// WaitN takes n tokens and returns when they can be used. If the limit can be reserved ahead it does that,
// so that callers go in the order in which they came; otherwise it tries again whenever the tokens may be
// there.
//
// It returns at once, with nothing taken, if the context's deadline is nearer than the tokens are: the
// error is both a [*LimitedError] and [context.DeadlineExceeded]. If the context ends while WaitN waits,
// the tokens are given back, and the error is the context's.
func (h handle) WaitN(ctx context.Context, n int64) error {
	for {
		left, limited := timeLeft(ctx)
		q := Ask{Op: Take, Count: n, Reserve: h.policy.Reserves(), MaxDelay: left}
		d, err := h.ask(ctx, q)
		switch {
		case err != nil:
			return err
		case d.Allowed:
			return h.sleepOrRefund(ctx, d.Delay, n)
		case limited && max(d.Delay, d.RetryAfter) >= left:
			return fmt.Errorf("%w: %w", &LimitedError{d}, context.DeadlineExceeded)
		}
		if err := sleep(ctx, d.RetryAfter); err != nil {
			return h.wrap(err)
		}
	}
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
// given back, in a context that has not ended.
func (h handle) sleepOrRefund(ctx context.Context, delay time.Duration, n int64) error {
	err := sleep(ctx, delay)
	if err == nil {
		return nil
	}
	if _, refund := h.RefundN(context.WithoutCancel(ctx), n); refund != nil {
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
