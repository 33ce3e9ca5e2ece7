package sqlite_test

import (
	"math"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
)

// FuzzTake compares the store, which takes by one statement where it can, with the pure step.
func FuzzTake(f *testing.F) {
	s := newRig(f).subject()
	f.Add(uint8(0), int64(10), int64(60e9), int64(20), int64(0), 3.7, int64(-1e9), int64(1), false)
	f.Add(uint8(1), int64(7), int64(3600e9), int64(7), int64(3), -1.5, int64(5e9), int64(2), true)
	f.Add(uint8(2), int64(7), int64(3600e9), int64(7), int64(0), 1.0, int64(5e12), int64(2), false)
	f.Fuzz(func(t *testing.T, kind uint8, rate, period, capacity, maxReserved int64, value float64, age, count int64, reserve bool) {
		p := &runtime.Policy{
			Name: "fuzz", Kind: runtime.TokenBucket + runtime.Kind(kind%3), Rate: rate,
			Period: time.Duration(period), Capacity: capacity, MaxReserved: maxReserved,
		}
		if p.Validate() != nil || math.IsNaN(value) || math.Abs(value) > 4*runtime.MaxTokens {
			t.Skip()
		}
		now := s.Clock.Now().UnixNano()
		before := runtime.State{Value: value, TS: now - age%1e17, Seen: age != 0}
		if !before.Seen {
			before = runtime.State{}
		}
		s.One(t, p, before, runtime.Ask{Count: count, Reserve: reserve})
	})
}

// TestTakeAgrees is FuzzTake in batches, over values that people use, and the edges of what fits.
func TestTakeAgrees(t *testing.T) { agree.Test(t, newRig(t).subject(), 200) }
