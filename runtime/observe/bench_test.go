package observe_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/stretchr/testify/require"
)

// ignorant is an observer that does nothing: its cost is that of the hook.
type ignorant struct{}

func (ignorant) Decided(context.Context, runtime.Observation) {}

// BenchmarkLeasedTake compares takes of leased tokens, the fastest decisions, with and without observers in one run, so that
// the ratios do not depend on the machine: the median of the ratios of neighbouring turns.
func BenchmarkLeasedTake(b *testing.B) {
	store, err := sqlite.Open(filepath.Join(b.TempDir(), "limits.db"))
	require.NoError(b, err)
	defer store.Close()
	p := &runtime.Policy{
		Name: "gateway", Kind: runtime.TokenBucket, Rate: runtime.MaxTokens, Period: time.Second, Capacity: runtime.MaxTokens,
		Lease: runtime.Lease{Tokens: 1_000_000_000_000, For: time.Minute},
	}
	contenders := []struct {
		name    string
		options []runtime.Option
		ratios  []float64
	}{
		{name: "none"},
		{name: "hook", options: []runtime.Option{runtime.Observe(ignorant{})}},
		{name: "counters", options: []runtime.Option{runtime.Observe(observe.NewCounters(observe.Options{Policies: []*runtime.Policy{p}}))}},
	}
	const turn = 2_000
	key, ctx := runtime.KeyOf(runtime.String("partner")), context.Background()
	var base time.Duration
	for b.Loop() {
		for i := range contenders {
			c := &contenders[i]
			l := runtime.NewLimiter(store, c.options...).Limit(p, key)
			start := time.Now()
			for range turn {
				if d, err := l.Allow(ctx); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			}
			took := time.Since(start)
			if i == 0 {
				base = took
			}
			c.ratios = append(c.ratios, float64(took)/float64(base))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(base)/turn, "ns/take")
	for _, c := range contenders[1:] {
		slices.Sort(c.ratios)
		b.ReportMetric(c.ratios[len(c.ratios)/2], c.name+"/none")
	}
}
