package limiter

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Slot is the slots of one holder of a [SlotLimit], or the denial of them.
type Slot struct {
	runtime.Decision
	of Limit
}

// Fence returns a number that is larger than all earlier ones of the key.
func (s *Slot) Fence() int64 { return s.Decision.Fence }

// Renew holds the slot for another hold from now on.
func (s *Slot) Renew(ctx context.Context) error { panic("unfinished") }

// Release frees the slot.
func (s *Slot) Release(ctx context.Context) error { panic("unfinished") }

// Do calls fn while the slot is held.
func (s *Slot) Do(ctx context.Context, fn func(ctx context.Context) error) error { panic("unfinished") }
