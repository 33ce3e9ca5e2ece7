package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// noon is when the clock of atNoon stands still.
var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func atNoon() *memstore.Store { return &memstore.Store{Clock: func() time.Time { return noon }} }

// A page of what a customer has used needs no arithmetic, also for debts, blocks and limits without a bound.
func TestUsage(t *testing.T) {
	window := runtime.Policy{
		Name: "window", Kind: runtime.FixedWindow, Rate: 100, Capacity: 100, MaxReserved: 50, Period: time.Hour,
		Start: runtime.StartOffset(30 * time.Minute), Overrides: runtime.OverrideBounds{Rate: 100, Capacity: 100, MaxReserved: 50},
	}
	bucket := runtime.Policy{Name: "bucket", Kind: runtime.TokenBucket, Rate: 1, Capacity: 10, Period: time.Minute}
	unlimited := runtime.Policy{Name: "unlimited", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited}
	only := runtime.Policy{Name: "only", Kind: runtime.TokenBucket, Rate: 1, MaxReserved: 9, Period: time.Minute}

	seen := &counting{}
	limits := limiter.New(atNoon(), limiter.Observe(seen))
	key := runtime.KeyOf(runtime.Int(7))
	for name, row := range map[string]struct {
		policy    runtime.Policy
		charged   int64
		block     bool
		used      int64
		remaining int64
		resetAt   time.Time
	}{
		"nothing used":    {policy: window, remaining: 100, resetAt: noon.Add(30 * time.Minute)},
		"some":            {policy: window, charged: 40, used: 40, remaining: 60, resetAt: noon.Add(30 * time.Minute)},
		"a debt":          {policy: window, charged: 120, used: 120, resetAt: noon.Add(30 * time.Minute)},
		"blocked":         {policy: window, charged: 40, block: true, used: 40, resetAt: noon.Add(30 * time.Minute)},
		"a bucket":        {policy: bucket, charged: 4, used: 4, remaining: 6},
		"without a bound": {policy: unlimited, charged: 4, remaining: runtime.MaxTokens},
		"reserved":        {policy: only, charged: 4, used: 4},
	} {
		t.Run(name, func(t *testing.T) {
			p := row.policy
			p.Name += " " + name
			handle := limits.Limit(&p, key)
			must(handle.Charge(t.Context(), row.charged))
			if row.block {
				must(limits.Overrides(&p, key).Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "abuse", Author: "ann"}))
			}
			before := seen.decisions
			all := must(limits.PeekAll(t.Context(), handle.N(5), limits.ReserveOnly(&only, key), handle.Checked()))
			require.Len(t, all, 3)
			one := must(handle.Peek(t.Context()))
			assert.Equal(t, before, seen.decisions, "no observer sees a page")
			assert.Equal(t, []runtime.Balance{one, one}, []runtime.Balance{all[0], all[2]})
			assert.Equal(t, "only", all[1].Limit)
			assert.Equal(t, row.used, one.Used)
			assert.Equal(t, row.remaining, one.Remaining)
			assert.True(t, row.resetAt.Equal(one.ResetAt), "%v", one.ResetAt)
			assert.Equal(t, row.block, one.BlockedFor > 0)
		})
	}
	none := must(limits.PeekAll(t.Context()))
	assert.Empty(t, none)
	_, err := limits.PeekAll(t.Context(), nil)
	require.ErrorIs(t, err, runtime.ErrInvalidCall)
	before := seen.decisions
	_, err = limits.PeekAll(t.Context(), limits.Limit(&bucket, runtime.KeyOf(runtime.String(""))))
	require.ErrorIs(t, err, runtime.ErrEmptyKey)
	assert.Equal(t, before, seen.decisions)
}

// counting counts the decisions that it sees.
type counting struct{ decisions int }

func (c *counting) Decided(context.Context, runtime.Observation) { c.decisions++ }

// Limits of two limiters with one store are taken together, such as those of generated code and one made in Go; in a
// transaction of the caller, only those of the same WithTx.
func TestLimitersShareACall(t *testing.T) {
	p := runtime.Policy{Name: "a", Kind: runtime.TokenBucket, Rate: 1, Capacity: 1, Period: time.Minute}
	q := p
	q.Name = "b"
	store := atNoon()
	first, second := limiter.New(store), limiter.New(store, limiter.HashKeys([]byte("0123456789abcdef")))
	email := runtime.KeyOf(runtime.Hashed("ada@example.com"))
	a, b := first.Limit(&p, email), second.Limit(&q, email)
	ds := must(first.All(t.Context(), a, b))
	assert.True(t, ds.Allowed)
	assert.Equal(t, email.String(), ds.Key(0).String())
	assert.NotEqual(t, email.String(), ds.Key(1).String(), "each limit has the keys of its limiter")
	ds = must(second.All(t.Context(), a, b))
	assert.Equal(t, []string{"a", "b"}, ds.DeniedBy())

	tx := store.Begin()
	defer tx.Rollback()
	inTx := first.WithTx(tx)
	for name, of := range map[string]*limiter.Limiter{
		"another store": limiter.New(atNoon()), "a transaction": inTx, "another handle of it": first.WithTx(tx),
		"a store of a type that cannot be compared": limiter.New(odd{store, nil}), "no store": limiter.New(nil),
	} {
		_, err := first.All(t.Context(), a, of.Limit(&q, email))
		require.ErrorIs(t, err, runtime.ErrInvalidCall, name)
		_, err = of.All(t.Context(), a)
		require.ErrorIs(t, err, runtime.ErrInvalidCall, name)
	}
	ds = must(inTx.All(t.Context(), inTx.Limit(&p, email), inTx.Limit(&q, runtime.KeyOf(runtime.String("x")))))
	assert.Equal(t, []string{"a"}, ds.DeniedBy())
}

// odd is a store that cannot be compared with ==.
type odd struct {
	runtime.Store
	_ []int
}

// The end of a window is shown to people: it is in the zone of the limit, of the key, or in UTC.
func TestResetAtIsInTheZoneOfTheWindow(t *testing.T) {
	tokyo := must(time.LoadLocation("Asia/Tokyo"))
	month := runtime.Calendar{Unit: runtime.Month, Zone: "Europe/Berlin"}
	own := runtime.Calendar{Unit: runtime.Month, ZonePerKey: true}
	of := func(name string, c runtime.Calendar) *runtime.Policy {
		return &runtime.Policy{Name: name, Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: c.Period(), Calendar: c}
	}
	hourly := &runtime.Policy{Name: "hourly", Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: time.Hour,
		Start: runtime.StartOffset(0)}
	now := time.Date(2026, time.March, 12, 12, 30, 0, 0, time.UTC)
	limits := limiter.New(clocked(&now))
	items := map[string]limiter.Limit{
		"2026-04-01T00:00:00+02:00": limits.Limit(of("limit", month), runtime.Key{}),
		"2026-04-01T00:00:00+09:00": limits.Limit(of("key", own), runtime.KeyOf(runtime.Int(7)).In(tokyo)),
		"2026-03-12T13:00:00Z":      limits.Limit(hourly, runtime.Key{}),
	}
	for want, item := range items {
		b := must(item.Peek(t.Context()))
		assert.Equal(t, want, b.ResetAt.Format(time.RFC3339), b.Limit)
		ds := must(limits.All(t.Context(), item))
		assert.Equal(t, want, ds.ResetAt(0).Format(time.RFC3339), b.Limit)
	}
	bucket := must(limits.All(t.Context(), limits.Limit(bucket("bucket", 10), runtime.Key{})))
	assert.Zero(t, bucket.ResetAt(0))
}

// undated is a store that does not say when it has decided, as for leased tokens.
type undated struct{ runtime.Store }

func (u undated) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers, err := u.Store.Do(ctx, calls)
	for i := range answers {
		answers[i].At = 0
	}
	return answers, err
}

func TestResetAtOfAnAnswerWithoutATime(t *testing.T) {
	hourly := &runtime.Policy{Name: "hourly", Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: time.Hour}
	limits := limiter.New(undated{&memstore.Store{}})
	ds := must(limits.All(t.Context(), limits.Limit(hourly, runtime.Key{})))
	assert.Positive(t, ds.Each[0].ResetAfter)
	assert.Zero(t, ds.ResetAt(0))
}
