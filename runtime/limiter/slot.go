package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// SlotLimit is one key of a limit of the kind [runtime.InFlight]: of how many may run at once. It is a small value,
// like a [Limit].
type SlotLimit struct{ of Limit }

// Slots returns one key of a limit of the kind [runtime.InFlight].
func (l *Limiter) Slots(p *runtime.Policy, key runtime.Key) SlotLimit {
	return SlotLimit{l.Limit(p, key)}
}

// Acquire acquires a slot if one is free; see AcquireN.
func (l SlotLimit) Acquire(ctx context.Context) (*Slot, error) { return l.AcquireN(ctx, 1) }

// AcquireN acquires n slots for one holder if that many are free, and otherwise none: that is no error, but a slot that
// is not Allowed. They are held until [Slot.Release], or until the hold of the policy ends without a renewal: then the
// holder is presumed dead. If n is 0, it is allowed and acquires nothing.
//
// After an error nothing is held: slots that the store acquires although ctx has ended, or the answer was lost, are
// released in the background. If the process ends before the answer arrives, they are free after the hold. The error is
// [runtime.ErrExceedsCapacity] if n is more than the capacity, [runtime.ErrInvalidCount] if it is less than 0,
// [runtime.ErrInvalidKey], [runtime.ErrInvalidPolicy], or the store's.
func (l SlotLimit) AcquireN(ctx context.Context, n int64) (*Slot, error) {
	return l.acquire(ctx, n, false, nil)
}

func (l SlotLimit) acquire(ctx context.Context, n int64, retry bool, h *held) (*Slot, error) {
	sent := time.Now()
	d, err := l.of.do(ctx, runtime.Request{Op: runtime.Take, Count: n, Retry: retry}, h)
	if err != nil {
		return nil, err
	}
	return newSlot(l.of, d, n, sent), nil
}

// WaitAcquire acquires a slot as soon as one is free; see WaitAcquireN.
func (l SlotLimit) WaitAcquire(ctx context.Context) (*Slot, error) { return l.WaitAcquireN(ctx, 1) }

// WaitAcquireN acquires n slots for one holder as soon as that many are free. Callers of this process that wait for one
// key of the limiter are served in the order in which they came; between processes there is no order. The first of a
// process retries when this process has released a slot of the key, when a hold must have ended, and after a time of up
// to a second, which is random, so that processes do not retry together.
//
// If the policy's Mode is [runtime.ModeBlock], or an operator has blocked the key, it returns a [*runtime.LimitedError]
// at once, even if the block has an end. If the context ends before the slots are free, the error is the context's. The
// other errors are the same as for AcquireN.
func (l SlotLimit) WaitAcquireN(ctx context.Context, n int64) (*Slot, error) {
	if l.of.limiter == nil || contextErr(ctx) != nil {
		return l.AcquireN(ctx, n)
	}
	watch := l.of.limiter.observing()
	h := watch.hold(warns(l.of.policy))
	s, err := l.acquireInTurn(ctx, n, h)
	watch.release(ctx, h, err)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Between two retries passes at least half of a time that doubles from the first of these to the second one.
const shortestPoll, longestPoll = 50 * time.Millisecond, time.Second

// acquireInTurn is WaitAcquireN, and keeps the observations in h.
func (l SlotLimit) acquireInTurn(ctx context.Context, n int64, h *held) (*Slot, error) {
	waiters, row := &l.of.limiter.waiters, l.row()
	try := func(retry bool) (*Slot, error) {
		s, err := l.acquire(ctx, n, retry, h)
		if err == nil && !s.Allowed && (s.RetryAfter == runtime.Never || s.Policy.Mode == runtime.ModeBlock) {
			return nil, s.Err()
		}
		return s, err
	}
	// Before those that wait already, a new caller must not try, unless it does not depend on the slots. Without them, it
	// takes no turn.
	if !waiters.waiting(row) || l.of.mode() != runtime.ModeEnforce {
		if s, err := try(false); err != nil || s.Allowed {
			return s, err
		}
	}
	freed, leave, err := waiters.join(ctx, row)
	if err != nil {
		return nil, l.of.wrap(err)
	}
	defer leave()
	for poll := shortestPoll; ; poll = min(2*poll, longestPoll) {
		s, err := try(true)
		if err != nil || s.Allowed {
			return s, err
		}
		if err := sleep(ctx, min(s.RetryIn(), poll/2+rand.N(poll/2)), freed); err != nil {
			return nil, l.of.wrap(err)
		}
	}
}

// row identifies the queue of the key.
func (l SlotLimit) row() runtime.Row {
	row := runtime.Row{Key: l.of.key.String()}
	if l.of.policy != nil {
		row.Name = l.of.policy.Name
	}
	return row
}

// Check reports whether Acquire would acquire a slot now, and acquires none.
func (l SlotLimit) Check(ctx context.Context) (runtime.Decision, error) { return l.of.CheckN(ctx, 1) }

// CheckN reports whether AcquireN would acquire n slots now, and acquires none.
func (l SlotLimit) CheckN(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.of.CheckN(ctx, n)
}

// Peek returns how many slots are free, and acquires none. [runtime.Balance.Used] is how many are held, which is more
// than the Capacity if that was lowered meanwhile, and FullAfter how long it takes until all holds have ended, unless
// they are renewed.
func (l SlotLimit) Peek(ctx context.Context) (runtime.Balance, error) { return l.of.Peek(ctx) }

// Reset frees all slots of the key. Those that held them have lost them: see [runtime.ErrSlotLost].
func (l SlotLimit) Reset(ctx context.Context) error { return l.of.Reset(ctx) }

// Erase deletes the slots of the key, as Reset does, and replaces the key in the log of overrides; see [Limit.Erase]. A slot
// that is acquired within a millisecond after it may have a smaller Fence than one that was acquired as shortly before.
func (l SlotLimit) Erase(ctx context.Context) error { return l.of.Erase(ctx) }

// Item returns l as an [Item] that acquires a slot, as l itself does. [Decisions.Slot] returns the slot.
func (l SlotLimit) Item() Item { return l.of.N(1) }

// ItemN returns l as an [Item] that acquires n slots for one holder. [Decisions.Slot] returns them. A call can have one
// such item for each key.
func (l SlotLimit) ItemN(n int64) Item { return l.of.N(n) }

// Checked returns l as an [Item] that must have a free slot, and acquires none.
func (l SlotLimit) Checked() Item { return l.of.CheckedN(1) }

// CheckedN returns l as an [Item] that must have n free slots, and acquires none.
func (l SlotLimit) CheckedN(n int64) Item { return l.of.CheckedN(n) }

func (SlotLimit) plain() {}

func (l SlotLimit) request(of *Limiter) (runtime.Request, error) { return l.of.request(of) }

// Slot is the slots of one holder of a [SlotLimit]. If it is not Allowed, none were free. It may be used by several
// goroutines.
//
// A slot that is Allowed holds nothing if none was needed: in [runtime.ModeShadow] after a denial, in
// [runtime.ModeOff], or if it FailedOpen or FailedLocal. Its Fence is 0, and Renew and Release do nothing.
//
// The Fence of the Decision is larger than those of all slots that were acquired before for the key. A store that the
// holder writes to can keep the largest one that it has seen and refuse a write with a smaller one: then a holder that
// was frozen for longer than its hold cannot overwrite what the next one has written, although it has not noticed yet.
type Slot struct {
	runtime.Decision
	of Limit
	n  int64

	mu sync.Mutex
	// hold is how long the slot is held after each renewal, and end when the hold may end, by the clock of this
	// process: never later than by that of the store.
	hold time.Duration
	end  time.Time
	// released means that a Release has succeeded, and uncertain that one has failed, and may have freed the slot
	// nonetheless.
	released, uncertain bool
}

// newSlot returns the slot of a request for n slots that was sent at an instant.
func newSlot(of Limit, d runtime.Decision, n int64, sent time.Time) *Slot {
	of.limiter = of.limiter.settler()
	s := &Slot{Decision: d, of: of, n: n}
	if s.holds() {
		s.hold = d.Policy.Hold
		s.end = sent.Add(s.hold)
	}
	return s
}

// Slot returns the slots that an item has acquired, counted from 0. It is false if the item acquired none, because the
// request was denied, or the item was only checked or is not one of a [SlotLimit], or if middleware around holds them, or if
// there is no item i. The result of one call should be kept: the results of several calls are the same slots. The Cancel of
// [Reservations] frees them, too.
func (ds Decisions) Slot(i int) (*Slot, bool) {
	if ds.limiter == nil || !ds.Allowed || !ds.has(i) || i < len(ds.around) && ds.around[i] {
		return nil, false
	}
	q := &ds.requests[i]
	if q.Op != runtime.Take || q.Policy.Kind != runtime.InFlight {
		return nil, false
	}
	return newSlot(ds.limiter.Limit(q.Policy, q.AsKey()), ds.Each[i], q.Count, ds.sent), true
}

// holds reports whether the slot was acquired.
func (s *Slot) holds() bool { return s != nil && s.Allowed && s.Fence != 0 }

// Renew holds the slot for another hold from now on. The hold is taken from the policy now in force for the key.
//
// The error is [runtime.ErrSlotLost] if the slot is not held any more: stop what runs, because another holder may have
// it. After an error of the store, the slot is held as before or as renewed, so that Renew can be tried again.
func (s *Slot) Renew(ctx context.Context) error {
	if !s.holds() {
		return s.nothingHeld()
	}
	sent := time.Now()
	d, err := s.of.do(ctx, runtime.Request{Op: runtime.Renew, Fence: s.Fence, Count: s.n}, nil)
	if err != nil {
		return s.unlessShadow(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Without numbers, an unlimited plan has no hold: it stays as it was.
	if d.Policy.Hold > 0 {
		s.hold = d.Policy.Hold
	}
	s.end = sent.Add(s.hold)
	return nil
}

// Release frees the slot, even if ctx has ended, because that is when it is needed.
//
// The error is [runtime.ErrSlotLost] if the slot was not held any more, also because of an earlier Release: then
// another holder may have had it while this one ran. No other slot is freed. After an error of the store, the slot may
// be free already, because the connection was lost while the request was executed: Release can be tried again, and is
// then no error if the slot is gone although its hold cannot have ended. Without a retry, the slot is free when its
// hold ends.
func (s *Slot) Release(ctx context.Context) error {
	if !s.holds() {
		return s.nothingHeld()
	}
	s.mu.Lock()
	released := s.released
	q := runtime.Request{Op: runtime.Release, Fence: s.Fence, Count: s.n}
	if s.uncertain && time.Now().Before(s.end) {
		q.TakenAt = s.TakenAt.UnixNano() // the earlier Release may have freed it
	}
	s.mu.Unlock()
	if released {
		return s.unlessShadow(s.of.wrap(runtime.ErrSlotLost))
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := s.of.do(ctx, q, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released, s.uncertain = err == nil, err != nil && !errors.Is(err, runtime.ErrSlotLost)
	if err == nil {
		s.of.limiter.waiters.wake(SlotLimit{s.of}.row())
	}
	return s.unlessShadow(err)
}

// nothingHeld returns the result of Renew and Release for a slot that was not acquired.
func (s *Slot) nothingHeld() error {
	if s == nil || !s.Allowed {
		return fmt.Errorf("%w: it was not acquired", runtime.ErrSlotLost)
	}
	return nil
}

// inShadow reports whether the limit is in shadow mode, now that the slot may be lost.
func (s *Slot) inShadow() bool {
	return s.of.mode() == runtime.ModeShadow
}

// unlessShadow returns an error, but not the loss of a slot of a limit in shadow mode, which must not stop anything.
func (s *Slot) unlessShadow(err error) error {
	if errors.Is(err, runtime.ErrSlotLost) && s.inShadow() {
		return nil
	}
	return err
}

// Do calls fn while the slot is held: it renews the slot every third of the hold, and releases it when fn returns or
// panics.
//
// The context of fn ends with the cause [runtime.ErrSlotLost] when the slot is lost, or when it could not be renewed
// until its hold may have ended by the clock of this process. fn should then return soon; Do waits for it, and its
// error is ErrSlotLost, joined with the error of fn. If ctx ends, the slot is held until fn has returned. A process
// that is frozen, or a machine that sleeps, for longer than the hold notices the loss only afterwards: see Fence.
//
// If the slot is not Allowed, fn is not called, and the error is a [*runtime.LimitedError]. If it holds nothing, fn is
// only called. Otherwise the error is the one that fn returns, joined with the error of Release.
func (s *Slot) Do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	switch {
	case s == nil:
		return s.nothingHeld()
	case ctx == nil:
		return s.of.wrap(errNilContext)
	case fn == nil:
		return s.of.wrap(errNilFunction)
	case !s.Allowed:
		return s.Err()
	case !s.holds():
		return fn(ctx)
	}
	held, lose := context.WithCancelCause(ctx)
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.renewUntil(renewing, lose)
	}()
	defer func() {
		stop()
		<-stopped
		cause := context.Cause(held)
		lose(nil)
		released := s.Release(ctx)
		if errors.Is(cause, runtime.ErrSlotLost) {
			released = cause
		}
		if released != nil && !errors.Is(err, runtime.ErrSlotLost) {
			err = errors.Join(err, released)
		}
	}()
	return fn(held)
}

var errNilFunction = fmt.Errorf("%w: the function is nil", runtime.ErrInvalidCall)

// renewUntil renews the slot until ctx ends, or until it is lost.
func (s *Slot) renewUntil(ctx context.Context, lose context.CancelCauseFunc) {
	var failed error
	for {
		s.mu.Lock()
		hold, end := s.hold, s.end
		s.mu.Unlock()
		pause := hold / 3
		if failed != nil {
			// Several tries in the rest of the hold.
			left := time.Until(end)
			pause = min(pause, max(left/4, min(left, 10*time.Millisecond)))
		}
		if sleep(ctx, pause, nil) != nil {
			return
		}
		bounded, cancel := context.WithDeadline(ctx, end)
		err := s.Renew(bounded)
		cancel()
		switch {
		case err == nil:
			failed = nil
		case ctx.Err() != nil:
			return
		case errors.Is(err, runtime.ErrSlotLost):
			lose(err)
			return
		case failed == nil || !errors.Is(err, context.DeadlineExceeded):
			failed = err // not that no time was left to try again
		}
		if failed != nil && !time.Now().Before(end) {
			if !s.inShadow() {
				lose(fmt.Errorf("%w: it could not be renewed: %w", s.of.wrap(runtime.ErrSlotLost), failed))
			}
			return
		}
	}
}

// Do calls fn while the slots of all items are held, and releases them when it returns: see [Slot.Do]. If ds is not
// Allowed, fn is not called, and the error is the result of Err. Without slots, fn is only called.
func (ds Decisions) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	switch {
	case ctx == nil:
		return errNilContext
	case fn == nil:
		return errNilFunction
	case !ds.Allowed:
		return ds.Err()
	}
	for i := range ds.Each {
		if s, ok := ds.Slot(i); ok {
			inner := fn
			fn = func(ctx context.Context) error { return s.Do(ctx, inner) }
		}
	}
	return fn(ctx)
}
