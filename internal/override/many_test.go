package override_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// manyEntries returns a page of a log of n entries, each for a key of its own. Nothing shares memory, as in what a
// driver reads.
func manyEntries(n int) func(context.Context, int64) ([]runtime.OverrideEntry, error) {
	return func(_ context.Context, id int64) (page []runtime.OverrideEntry, err error) {
		for ; id <= int64(n) && len(page) < override.Page; id++ {
			page = append(page, manyEntry(id))
		}
		return page, nil
	}
}

func manyEntry(id int64) runtime.OverrideEntry {
	text := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	return runtime.OverrideEntry{
		ID: id, Limit: text("sendMessage"), Key: text("customer-%d", id), What: text(runtime.OverrideNumbers), Rate: 100, Capacity: 200,
		Most:  runtime.OverrideBounds{Rate: 1000, Capacity: 1000},
		Until: arith.Time(2e18 + id), Reason: text("contract %d", id), Author: text("ops@example.com"), At: arith.Time(1e18 + id),
	}
}

// inUse returns how many bytes are reachable.
func inUse() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What 100,000 overrides in force cost: in memory, to write one more, and to find the policy of a key.
func BenchmarkManyOverrides(b *testing.B) {
	const n = 100_000
	length := n
	ctx, begin := context.Background(), time.Unix(0, 15e17)
	view := override.New(override.Source{
		Since: func(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
			return manyEntries(length)(ctx, id)
		},
		Now: func() int64 { return begin.UnixNano() },
	})
	before := inUse()
	require.NoError(b, view.Refresh(ctx))
	held := inUse() - before
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			length++
			if err := view.Refresh(ctx); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(held)/1e6, "MB-held")
	})
	b.Run("policy", func(b *testing.B) {
		b.ReportAllocs()
		p := overridable()
		p.Name = "sendMessage"
		keys := make([]string, 1024)
		for i := range keys {
			keys[i] = manyEntry(int64(i * 97)).Key
		}
		for i := 0; b.Loop(); i++ {
			if _, err := view.PolicyOf(p, keys[i%len(keys)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	goruntime.KeepAlive(view)
}

// A process must be able to hold very many overrides.
func TestEntryInForceIsSmall(t *testing.T) {
	const n = 20_000
	view := override.New(override.Source{Since: manyEntries(n), Now: func() int64 { return 15e17 }})
	before := inUse()
	require.NoError(t, view.Refresh(t.Context()))
	require.Less(t, (inUse()-before)/n, int64(180), "bytes of an entry, its key and its reason")
	goruntime.KeepAlive(view)
}

// Whatever is written in which order, and read in how many steps, the newest block and override of each key are in
// force, with all of their fields.
func TestNewestEntriesAreInForce(t *testing.T) {
	const seed, now = 1, 15e17
	random := rand.New(rand.NewPCG(seed, seed))
	length, log := 0, make([]runtime.OverrideEntry, 3000)
	view := override.New(override.Source{
		Since: func(_ context.Context, id int64) ([]runtime.OverrideEntry, error) {
			return log[id-1 : min(length, int(id)-1+override.Page)], nil
		},
		Now: func() int64 { return now },
	})
	type class struct {
		limit, key string
		block      bool
	}
	want := map[class]runtime.OverrideEntry{}
	words := []string{
		runtime.OverrideNumbers, runtime.OverridePlan, runtime.OverrideOff, runtime.OverrideBlock, runtime.OverrideBlock,
		runtime.OverrideUnblock, runtime.OverrideNone, runtime.OverrideGranted, "a later word",
	}
	for i := range log {
		e := manyEntry(int64(i + 1))
		e.Limit, e.Key, e.What = fmt.Sprint(random.IntN(3)), fmt.Sprint(random.IntN(400)), words[random.IntN(len(words))]
		e.MaxReserved, e.Most.MaxReserved, e.Most.Unlimited = random.Int64N(5), random.Int64N(5), random.IntN(2) == 0
		if random.IntN(10) == 0 {
			e.Key = ""
		}
		switch random.IntN(4) {
		case 0:
			e.Until = runtime.ForGood()
		case 1:
			e.Until = arith.Time(now - random.Int64N(2))
		}
		log[i] = e
		block, override := e.Replaces()
		for _, c := range []class{{e.Limit, e.Key, true}, {e.Limit, e.Key, false}} {
			if c.block && !block || !c.block && !override {
				continue
			}
			if delete(want, c); !e.Ends() && (e.Until.Equal(runtime.ForGood()) || e.Until.UnixNano() > now) {
				want[c] = e
			}
		}
		if random.IntN(20) > 0 && i < len(log)-1 {
			continue
		}
		length = i + 1
		require.NoError(t, view.Refresh(t.Context()))
		byID := func(a, b runtime.OverrideEntry) int { return cmp.Compare(a.ID, b.ID) }
		require.True(t, slices.Equal(slices.SortedFunc(maps.Values(want), byID), view.InForce()), "after %d entries", length)
		limit, key := fmt.Sprint(random.IntN(3)), fmt.Sprint(random.IntN(400))
		_, block = want[class{limit, key, true}]
		_, override = want[class{limit, key, false}]
		gotBlock, gotOverride := view.Snapshot().Has(limit, key, now)
		require.Equal(t, []bool{block, override}, []bool{gotBlock, gotOverride}, "of %s of %s", key, limit)
	}
}
