package observe_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// ignorant is an observer that does nothing: its cost is that of the hook.
type ignorant struct{}

func (ignorant) Decided(context.Context, runtime.Observation) {}

// BenchmarkObservers compares takes with and without observers in one run, so that the ratios do not depend on the machine:
// the median of the ratios of neighbouring turns. Leased takes are the fastest decisions, and stored ones execute a
// statement in SQLite.
func BenchmarkObservers(b *testing.B) {
	store, err := sqlite.Open(filepath.Join(b.TempDir(), "limits.db"))
	require.NoError(b, err)
	defer store.Close()
	stored := &runtime.Policy{Name: "stored", Kind: runtime.TokenBucket, Rate: runtime.MaxTokens, Period: time.Second, Capacity: runtime.MaxTokens}
	leased := *stored
	leased.Name, leased.Lease = "leased", runtime.Lease{Tokens: 1_000_000_000_000, For: time.Minute}
	for _, of := range []struct {
		policy *runtime.Policy
		turn   int
	}{{&leased, 2000}, {stored, 20}} {
		b.Run(of.policy.Name, func(b *testing.B) { compare(b, store, of.policy, of.turn) })
	}
}

func compare(b *testing.B, store runtime.Store, p *runtime.Policy, turn int) {
	contenders := []struct {
		name    string
		options []limiter.Option
		ratios  []float64
	}{
		{name: "none"},
		{name: "hook", options: []limiter.Option{limiter.Observe(ignorant{})}},
		{name: "counters", options: []limiter.Option{limiter.Observe(observe.NewCounters(observe.Options{Policies: []*runtime.Policy{p}}))}},
	}
	key, ctx := runtime.KeyOf(runtime.String("partner")), context.Background()
	fastest := time.Duration(0)
	for b.Loop() {
		var base time.Duration
		for i := range contenders {
			c := &contenders[i]
			l := limiter.New(store, c.options...).Limit(p, key)
			start := time.Now()
			for range turn {
				if d, err := l.Allow(ctx); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			}
			took := time.Since(start)
			if i == 0 {
				base = took
				if fastest == 0 || took < fastest {
					fastest = took
				}
			}
			c.ratios = append(c.ratios, float64(took)/float64(base))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(fastest)/float64(turn), "ns/take")
	for _, c := range contenders[1:] {
		slices.Sort(c.ratios)
		b.ReportMetric(c.ratios[len(c.ratios)/2], c.name+"/none")
	}
}
