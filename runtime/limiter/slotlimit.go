package limiter

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// SlotLimit is one key of a limit of the kind [runtime.InFlight]: of how many may run at once. It is a small value, like a
// [Limit].
type SlotLimit struct{ of Limit }

// Slots returns one key of a limit of the kind [runtime.InFlight].
func (l *Limiter) Slots(p *runtime.Policy, key runtime.Key) SlotLimit {
	return SlotLimit{l.Limit(p, key)}
}

// Acquire acquires a slot if one is free; see AcquireN.
func (l SlotLimit) Acquire(ctx context.Context) (*Slot, error) { return l.AcquireN(ctx, 1) }

// AcquireN acquires n slots for one holder if that many are free, and otherwise none.
func (l SlotLimit) AcquireN(ctx context.Context, n int64) (*Slot, error) { panic("unfinished") }

// WaitAcquire acquires a slot as soon as one is free; see WaitAcquireN.
func (l SlotLimit) WaitAcquire(ctx context.Context) (*Slot, error) { return l.WaitAcquireN(ctx, 1) }

// WaitAcquireN acquires n slots for one holder as soon as that many are free.
func (l SlotLimit) WaitAcquireN(ctx context.Context, n int64) (*Slot, error) { panic("unfinished") }

// Do acquires a slot, and calls fn while it is held; see [Slot.Do].
func (l SlotLimit) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	panic("unfinished")
}

// Check reports whether Acquire would acquire a slot now, and acquires none.
func (l SlotLimit) Check(ctx context.Context) (runtime.Decision, error) { return l.of.CheckN(ctx, 1) }

// CheckN reports whether AcquireN would acquire n slots now, and acquires none.
func (l SlotLimit) CheckN(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.of.CheckN(ctx, n)
}

// Peek returns how many slots are free, and acquires none; see [Limit.Peek].
func (l SlotLimit) Peek(ctx context.Context) (runtime.Balance, error) { return l.of.Peek(ctx) }

// Reset frees all slots of the key.
func (l SlotLimit) Reset(ctx context.Context) error { return l.of.Reset(ctx) }

// Erase deletes the slots of the key, and replaces the key in the log; see [Limit.Erase].
func (l SlotLimit) Erase(ctx context.Context) error { return l.of.Erase(ctx) }

// Item returns l as an [Item] that acquires a slot. l itself is the same one.
func (l SlotLimit) Item() Item { return l.of.N(1) }

// ItemN returns l as an [Item] that acquires n slots for one holder.
func (l SlotLimit) ItemN(n int64) Item { return l.of.N(n) }

// Checked returns l as an [Item] that must have a free slot, and acquires none.
func (l SlotLimit) Checked() Item { return l.of.CheckedN(1) }

// CheckedN returns l as an [Item] that must have n free slots, and acquires none.
func (l SlotLimit) CheckedN(n int64) Item { return l.of.CheckedN(n) }

func (l SlotLimit) request(of *Limiter) (runtime.Request, error) { return l.of.request(of) }

func (SlotLimit) plain() {}

// Slot returns the slots that an item has acquired, counted from 0. It is false if the item acquired none, because the
// request was denied, or the item was only checked or is not of a [SlotLimit].
func (ds Decisions) Slot(i int) (*Slot, bool) { panic("unfinished") }
