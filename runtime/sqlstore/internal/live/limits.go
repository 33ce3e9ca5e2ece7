package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/stretchr/testify/require"
)

// Must returns the result of a call, whose error ends the test: must(f())(t).
func Must[T any](result T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return result
	}
}

// Granting returns limits of every kind whose tokens do not accrue for years. Limits of different capacity have
// different names.
func Granting(capacity int64) []*runtime.Policy {
	bucket := runtime.Policy{Name: "bucket", Kind: runtime.TokenBucket, Rate: 4}
	window := runtime.Policy{Name: "window", Kind: runtime.FixedWindow, Rate: capacity,
		Start: runtime.StartAt(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))}
	sliding := window
	sliding.Name, sliding.Kind = "sliding", runtime.SlidingWindow
	firstUse := window
	firstUse.Name, firstUse.Start = "first use", runtime.StartFirstUse()

	var all []*runtime.Policy
	for _, p := range []runtime.Policy{bucket, window, sliding, firstUse} {
		p.Name = fmt.Sprintf("%s of %d", p.Name, capacity)
		p.Period, p.Capacity = runtime.MaxPeriod, capacity
		all = append(all, &p)
		if !p.Start.FirstUse() {
			split := p
			split.Name, split.Shards = p.Name+" in 4 shards", 4
			all = append(all, &split)
		}
	}
	return all
}

// KeyOf returns the ith key.
func KeyOf(i int) runtime.Key { return runtime.KeyOf(runtime.Int(i)) }

// Once returns a limit of capacity tokens that accrue over ten years.
func Once(name string, capacity int64) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: runtime.MaxPeriod, Capacity: capacity}
}

// Left returns how many tokens of a limit are left, as another transaction sees it.
func Left(t *testing.T, store *sqlstore.Store, p *runtime.Policy) int64 {
	t.Helper()
	b := Must(limiter.New(store).Limit(p, runtime.Key{}).Peek(t.Context()))(t)
	return b.Remaining
}

// Overridable grants 10 tokens in ten years, or as many as an override says.
func Overridable() *runtime.Policy {
	return &runtime.Policy{
		Name: "overridable", Kind: runtime.TokenBucket, Rate: 10, Period: runtime.MaxPeriod, Capacity: 10,
		Overrides: runtime.OverrideBounds{Rate: 100, Capacity: 100, Unlimited: true},
	}
}
