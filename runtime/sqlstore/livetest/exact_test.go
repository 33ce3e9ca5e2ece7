package livetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// granting returns limits of every kind that grant their capacity and, for years, nothing more. Limits of
// different capacity have different names.
func granting(capacity int64) []*runtime.Policy {
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

// TestExact has processes race for the tokens of limits, on one key and on many: as many are admitted as
// fit, not one more or less, and no error reaches a caller.
func TestExact(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []server) {
		table, stores := shared(t, nodes, nil)
		course := course{Driver: nodes[0].driver, Dialect: nodes[0].dialect, Table: table}
		for _, s := range nodes {
			course.DSNs = append(course.DSNs, s.dsn)
		}
		processes := startRacers(t, course)
		for i, h := range heats() {
			if h.long && !*long {
				continue
			}
			start := time.Now()
			total := raceAll(t, processes, i, h.keys)
			elapsed := time.Since(start)
			h.check(t, total, runtime.NewLimiter(stores[0]))
			calls := h.calls * racers * goroutinesEach
			t.Logf("%-27s %4d keys: %4d calls, %d admitted of %d that fit, %d errors, %.0f calls/s", h.policy.Name+",", h.keys,
				calls, total.sum(), h.policy.Capacity*int64(h.keys), len(total.Errors), float64(calls)/elapsed.Seconds())
		}
	})
}

// check requires that of each key all tokens were taken, and not one more.
func (h heat) check(t *testing.T, total result, limiter *runtime.Limiter) {
	t.Helper()
	assert.Empty(t, total.Errors, h.policy.Name)
	for key, admitted := range total.Admitted {
		assert.Equal(t, h.policy.Capacity, admitted, "%s, key %d: admitted", h.policy.Name, key)
		b, err := limiter.Limit(h.policy, keyOf(key)).Peek(t.Context())
		require.NoError(t, err)
		assert.Zero(t, b.Remaining, "%s, key %d: left", h.policy.Name, key)
	}
}

// TestFirstUse has many callers each use a key of their own for the first time, all at once: they do not
// stand in each other's way.
func TestFirstUse(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []server) {
		_, stores := shared(t, nodes, nil)
		for _, p := range granting(8) {
			admitted := useAtOnce(t, stores, p)
			assert.Equal(t, firstUses, admitted, p.Name)
		}
		t.Logf("%d first uses at once, of each of %d limits", firstUses, len(granting(8)))
	})
}

// firstUses is how many keys are used at once.
const firstUses = 64

// useAtOnce takes a token of each of the keys, at once, and returns how many were admitted.
func useAtOnce(t *testing.T, stores []runtime.Store, p *runtime.Policy) int {
	decisions := make([]runtime.Decision, firstUses)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range firstUses {
		all.Go(func() {
			<-start
			d, err := runtime.NewLimiter(stores[i%len(stores)]).Limit(p, keyOf(i)).Allow(context.Background())
			assert.NoError(t, err, p.Name)
			decisions[i] = d
		})
	}
	close(start)
	all.Wait()
	admitted := 0
	for _, d := range decisions {
		if d.Allowed {
			admitted++
		}
	}
	return admitted
}

func keyOf(i int) runtime.Key { return runtime.KeyOf(runtime.Int(i)) }
