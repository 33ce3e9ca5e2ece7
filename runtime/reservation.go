package runtime

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// Reservation is a number of tokens taken, maybe ahead of their time. If it was not Allowed, nothing was
// taken, nor if it FailedOpen: then Settle charges all that was used. A Reservation may be used by several
// goroutines.
type Reservation struct {
	Decision
	handle handle
	count  int64

	mu   sync.Mutex
	open bool
}

// reserve takes n tokens, ahead of their time if need be.
func (h Handle) reserve(ctx context.Context, n int64) (*Reservation, error) {
	d, err := h.ask(ctx, Request{Op: Take, Count: n, Reserve: true})
	if err != nil {
		return nil, err
	}
	if d.FailedOpen != nil {
		n = 0
	}
	return &Reservation{Decision: d, handle: h, count: n, open: d.Allowed}, nil
}

// Never is the delay of a reservation that was refused: the longest duration there is.
const Never time.Duration = math.MaxInt64

// Delay says how long after the reservation was made its tokens can be used; [Never] if it was refused. It
// is counted once and for all when the reservation is made.
func (r *Reservation) Delay() time.Duration {
	if !r.Allowed {
		return Never
	}
	return r.Decision.Delay
}

// Cancel gives all of the tokens back, even if ctx has ended: that is when it is needed. It can be called
// once, and not after Settle: the error is [ErrNotReserved] otherwise. After any other error the
// reservation still stands.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Settle(ctx, 0) }

// Settle says how many tokens were really used: the rest is given back, or what was used beyond the
// reservation is charged, if need be beyond MaxReserved, so that the callers to come wait for it. What is given back
// are the tokens that the key would have more by now if only used had been taken: less than the rest if the key
// would have been full since, and too many by at most what others have given back meanwhile. It does so even if ctx has ended. It can be called once, and not after Cancel: the error is [ErrNotReserved] otherwise, and [ErrInvalidCount] if
// used is negative. After any other error the reservation still stands.
func (r *Reservation) Settle(ctx context.Context, used int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		return r.handle.wrap(ErrNotReserved)
	}
	if used < 0 {
		return r.handle.wrap(fmt.Errorf("%w: %d is less than 0", ErrInvalidCount, used))
	}
	if err := r.settle(ctx, r.count-used); err != nil {
		return err
	}
	r.open = false
	return nil
}

// settle gives rest tokens back, or charges them if they are negative.
func (r *Reservation) settle(ctx context.Context, rest int64) error {
	switch {
	case rest > 0:
		return r.handle.giveBack(ctx, r.Decision, rest)
	case rest < 0:
		_, err := r.handle.askAnyway(ctx, Request{Op: Charge, Count: -rest})
		return err
	}
	return nil
}
