package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

var (
	epoch                           = runtimetest.Epoch
	bucket, reservable, overridable = runtimetest.Bucket, runtimetest.Reservable, runtimetest.Overridable
)

// clocked returns a store with a clock that shows *now.
func clocked(now *time.Time) *memstore.Store {
	return &memstore.Store{Clock: func() time.Time { return *now }}
}

// still returns a store whose clock stands still.
func still() *memstore.Store { return clocked(&epoch) }

// must returns the result of a call that is not an error.
func must[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

// must2 is must for two results.
func must2[A, B any](a A, b B, err error) (A, B) {
	if err != nil {
		panic(err)
	}
	return a, b
}

// verb is a method of a limit, reduced to its error.
type verb struct {
	name string
	call func(context.Context, limiter.ReservableLimit) error
}

// verbs returns all verbs of the limits of a limiter.
func verbs(limits *limiter.Limiter) []verb {
	taken := runtime.Decision{Allowed: true, Taken: 1, TakenAt: epoch}
	return []verb{
		{"Allow", func(ctx context.Context, l limiter.ReservableLimit) error { _, err := l.Allow(ctx); return err }},
		{"AllowUpTo", func(ctx context.Context, l limiter.ReservableLimit) error { _, err := l.AllowUpTo(ctx, 1); return err }},
		{"Check", func(ctx context.Context, l limiter.ReservableLimit) error { _, err := l.Check(ctx); return err }},
		{"Require", func(ctx context.Context, l limiter.ReservableLimit) error { return l.Require(ctx) }},
		{"Reserve", func(ctx context.Context, l limiter.ReservableLimit) error { _, err := l.Reserve(ctx); return err }},
		{"Wait", func(ctx context.Context, l limiter.ReservableLimit) error { return l.Wait(ctx) }},
		{"Refund", func(ctx context.Context, l limiter.ReservableLimit) error { _, err := l.Refund(ctx, taken); return err }},
		{"Charge", func(ctx context.Context, l limiter.ReservableLimit) error { _, err := l.Charge(ctx, 1); return err }},
		{"Peek", func(ctx context.Context, l limiter.ReservableLimit) error { _, err := l.Peek(ctx); return err }},
		{"Reset", func(ctx context.Context, l limiter.ReservableLimit) error { return l.Reset(ctx) }},
		{"All", func(ctx context.Context, l limiter.ReservableLimit) error { _, err := limits.All(ctx, l); return err }},
	}
}

func TestEveryVerbReturnsTheError(t *testing.T) {
	store := still()
	limits, none, unstored := limiter.New(store), &limiter.Limiter{}, limiter.New(nil)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	key := runtime.KeyOf(runtime.String("secret"))
	for _, row := range []struct {
		name    string
		ctx     context.Context
		limiter *limiter.Limiter
		limit   limiter.ReservableLimit
		want    error
		names   bool
	}{
		{"the zero limit", t.Context(), limits, limiter.ReservableLimit{}, runtime.ErrInvalidPolicy, false},
		{"no policy", t.Context(), limits, limits.Reservable(nil, key), runtime.ErrInvalidPolicy, false},
		{"the zero policy", t.Context(), limits, limits.Reservable(&runtime.Policy{}, key), runtime.ErrInvalidPolicy, false},
		{"a policy with only a name", t.Context(), limits, limits.Reservable(&runtime.Policy{Name: "limit"}, key), runtime.ErrInvalidPolicy, true},
		{"the zero limiter", t.Context(), none, none.Reservable(reservable(5), key), runtime.ErrNoStore, false},
		{"no limiter", t.Context(), nil, (*limiter.Limiter)(nil).Reservable(reservable(5), key), runtime.ErrNoStore, false},
		{"a limiter with a nil store", t.Context(), unstored, unstored.Reservable(reservable(5), key), runtime.ErrNoStore, false},
		{"an ended context", ended, limits, limits.Reservable(reservable(5), key), context.Canceled, true},
		{"a key that cannot be written", t.Context(), limits, limits.Reservable(reservable(5), runtime.KeyOf(runtime.Text(secretive{}))), runtime.ErrInvalidKey, true},
		{"a key without a value", t.Context(), limits, limits.Reservable(reservable(5), runtime.KeyOf(runtime.String(""))), runtime.ErrEmptyKey, true},
	} {
		for _, v := range verbs(row.limiter) {
			t.Run(row.name+"/"+v.name, func(t *testing.T) {
				err := v.call(row.ctx, row.limit)
				require.ErrorIs(t, err, row.want)
				require.NotContains(t, err.Error(), "secret", "a key may be personal")
				if row.names {
					require.ErrorContains(t, err, `"limit"`)
				}
			})
		}
	}
	require.Zero(t, store.Len(), "an error takes nothing")
}

func TestErrorsReturnTheZeroDecision(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(5), runtime.Key{})
	d, err := l.AllowN(t.Context(), 6)
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
	require.EqualError(t, err, `limit "limit": count exceeds capacity: 6 is more than the capacity, 5`)
	require.Zero(t, d)
	_, err = l.CheckN(t.Context(), -1)
	require.EqualError(t, err, `limit "limit": invalid count: -1 is less than 0`)
	r, err := l.ReserveN(t.Context(), 11)
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
	require.Nil(t, r)
	require.ErrorIs(t, l.RequireN(t.Context(), 6), runtime.ErrExceedsCapacity)
	require.ErrorIs(t, l.WaitN(t.Context(), 11), runtime.ErrExceedsCapacity)
	_, err = l.RefundN(t.Context(), runtime.Decision{}, -1)
	require.ErrorIs(t, err, runtime.ErrInvalidCount)
}

// A count of 0 passes even in debt: the caller wants nothing that it would have to wait for.
func TestCountOfZeroIsAllowedAndTakesNothing(t *testing.T) {
	store := still()
	limits := limiter.New(store)
	l := limits.Reservable(reservable(5), runtime.Key{})
	zero := map[string]func() (runtime.Decision, error){
		"AllowN":   func() (runtime.Decision, error) { return l.AllowN(t.Context(), 0) },
		"CheckN":   func() (runtime.Decision, error) { return l.CheckN(t.Context(), 0) },
		"RefundN":  func() (runtime.Decision, error) { return l.RefundN(t.Context(), runtime.Decision{}, 0) },
		"ReserveN": func() (runtime.Decision, error) { r, err := l.ReserveN(t.Context(), 0); return r.Decision, err },
		"RequireN": func() (runtime.Decision, error) { return runtime.Decision{Allowed: true}, l.RequireN(t.Context(), 0) },
		"WaitN":    func() (runtime.Decision, error) { return runtime.Decision{Allowed: true}, l.WaitN(t.Context(), 0) },
		"All": func() (runtime.Decision, error) {
			ds, err := limits.All(t.Context(), l.N(0), l.N(0))
			require.True(t, ds.Allowed)
			return ds.Each[1], err
		},
	}
	for rows, tokens := range []float64{5, -5} {
		for name, call := range zero {
			d, err := call()
			require.NoError(t, err, name)
			require.True(t, d.Allowed && d.UsableAfter == 0, "%s with %v tokens: %+v", name, tokens, d)
			require.Zero(t, d.TakenAt, "%s: nothing was taken that could be refunded", name)
			require.Equal(t, rows, store.Len(), "%s wrote a row", name)
			require.Equal(t, tokens, value(t, l), name)
		}
		must(l.ReserveN(t.Context(), 10))
	}
}

func TestAllowUpToTakesWhatThereIs(t *testing.T) {
	now := epoch
	store := clocked(&now)
	l := limiter.New(store).Limit(bucket("limit", 5), runtime.Key{})
	for _, row := range []struct {
		n, taken int64
		after    time.Duration
	}{{3, 3, 0}, {3, 2, 0}, {3, 0, time.Second}, {0, 0, 0}} {
		d := must(l.AllowUpTo(t.Context(), row.n))
		require.Equal(t, row.taken, d.Taken)
		require.Equal(t, row.after, d.RetryAfter)
		require.Equal(t, row.after == 0, d.Allowed)
		require.Equal(t, row.taken == 0, d.TakenAt.IsZero())
	}
	now = now.Add(time.Hour)
	d := must(l.AllowUpTo(t.Context(), 1000))
	require.Equal(t, int64(5), d.Taken, "more than the capacity is no error")
	require.Equal(t, int64(4), must(l.RefundN(t.Context(), d, d.Taken-1)).Remaining)
	_, err := l.AllowUpTo(t.Context(), -1)
	require.ErrorIs(t, err, runtime.ErrInvalidCount)

	reserveOnly := &runtime.Policy{Name: "only", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, MaxReserved: 5}
	_, err = limiter.New(store).Limit(reserveOnly, runtime.Key{}).AllowUpTo(t.Context(), 1)
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity, "with capacity 0 there is never a token to take")
}

func TestChargeTakesWhetherAvailableOrNot(t *testing.T) {
	now := epoch
	limits := limiter.New(clocked(&now))
	l := limits.Limit(bucket("limit", 5), runtime.Key{})
	d := must(l.Charge(t.Context(), 8))
	require.Equal(t, runtime.Decision{
		Limit: "limit", Policy: bucket("limit", 5), Allowed: true, Taken: 8, TakenAt: now, Value: -3, FullAfter: 8 * time.Second,
	}, runtimetest.WithoutReceipt(d))
	require.Equal(t, 4*time.Second, must(l.Allow(t.Context())).RetryAfter)
	d = must(l.RefundN(t.Context(), d, d.Taken))
	require.Equal(t, 5.0, d.Value)

	only := limits.ReserveOnly(&runtime.Policy{Name: "only", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, MaxReserved: 5}, runtime.Key{})
	must(only.Charge(t.Context(), 7))
	r := must(only.Reserve(t.Context()))
	require.False(t, r.Allowed)
	require.Equal(t, 3*time.Second, r.RetryAfter, "the debt of 7 must fall to 4 before one more token fits into 5")

	must(l.Charge(t.Context(), 2*runtime.MaxTokens))
	_, err := l.Charge(t.Context(), 2*runtime.MaxTokens+1)
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
	_, err = l.Charge(t.Context(), -1)
	require.ErrorIs(t, err, runtime.ErrInvalidCount)
}

func TestRequireReturnsADenialAsAnError(t *testing.T) {
	l := limiter.New(still()).Limit(bucket("limit", 2), runtime.KeyOf(runtime.String("secret")))
	require.NoError(t, l.RequireN(t.Context(), 2))
	err := l.Require(t.Context())
	var limited *runtime.LimitedError
	require.ErrorAs(t, err, &limited)
	require.ErrorIs(t, err, runtime.ErrLimited)
	require.EqualError(t, err, `limit "limit": rate limited, retry after 1s`)
	require.Equal(t, runtime.Decision{
		Limit: "limit", Policy: bucket("limit", 2), RetryAfter: time.Second, FullAfter: 2 * time.Second,
	}, limited.Decision)
}

// berlin returns an instant by the clock of Berlin.
func berlin(t *testing.T, clock string) time.Time {
	t.Helper()
	zone := must(time.LoadLocation("Europe/Berlin"))
	return must(time.ParseInLocation(time.DateTime, clock, zone))
}

func TestCalendarOfAKeyIsRequired(t *testing.T) {
	ctx := t.Context()
	limits := limiter.New(still())
	p := runtimetest.Once(runtime.Calendar{Unit: runtime.Month, ZonePerKey: true, Anniversary: true})
	since := time.Date(2024, 1, 31, 0, 0, 0, 0, time.UTC)
	const noZone, noDate = "the time zone of the key is missing or nil: pass a *time.Location",
		"the anniversary of the key is missing, zero, or not in the years 1 to 9999: pass a time.Time"
	for name, row := range map[string]struct {
		key  runtime.Key
		want string
	}{
		"no zone":             {runtime.Key{}.Since(since), noZone},
		"a nil zone":          {runtime.Key{}.Since(since).In(nil), noZone},
		"a zone too far":      {runtime.Key{}.Since(since).In(time.FixedZone("", 57_601)), "the time zone of the key is 16h0m1s from UTC, and zones are at most 16h0m0s"},
		"a zone too far west": {runtime.Key{}.Since(since).In(time.FixedZone("", -48*60*60)), "the time zone of the key is -48h0m0s from UTC"},
		"a zone too far in summer": {runtime.Key{}.Since(since).In(runtimetest.ZoneWith(t, "AAA-10BBB-30,M3.2.0,M11.1.0")),
			"the time zone of the key is 30h0m0s from UTC"},
		"a zone too far in winter": {runtime.Key{}.Since(since).In(runtimetest.ZoneWith(t, "AAA20BBB10,M3.2.0,M11.1.0")),
			"the time zone of the key is -20h0m0s from UTC"},
		"no anniversary":             {runtime.Key{}.In(time.UTC), noDate},
		"a zero anniversary":         {runtime.Key{}.In(time.UTC).Since(time.Time{}), noDate},
		"an anniversary too far":     {runtime.Key{}.In(time.UTC).Since(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)), noDate},
		"an anniversary too early":   {runtime.Key{}.In(time.UTC).Since(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), noDate},
		"an instant beyond an int64": {runtime.Key{}.In(time.UTC).Since(time.Unix(1<<62, 0)), noDate},
	} {
		_, err := limits.Limit(&p, row.key).Allow(ctx)
		require.ErrorIs(t, err, runtime.ErrInvalidKey, name)
		require.ErrorContains(t, err, row.want, name)
	}
	require.NoError(t, limits.Limit(&p, runtime.Key{}.In(time.UTC).Since(since)).Require(ctx))
	zone := func() *time.Location { return berlin(t, "2026-01-01 00:00:00").Location() }
	of := func(zone *time.Location) limiter.Limit {
		return limits.Limit(&p, runtime.KeyOf(runtime.Int64(1)).Since(since).In(zone))
	}
	_, err := limits.All(ctx, of(time.UTC), of(zone()))
	require.ErrorIs(t, err, runtime.ErrInvalidCall)
	p.Rate, p.Capacity = 2, 2
	require.True(t, must(limits.All(ctx, of(zone()), of(zone()))).Allowed, "two pointers to one zone")
}

// busy returns a limit that has tokens for a whole benchmark.
func busy() *runtime.Policy {
	p := bucket("limit", 1_000_000_000)
	p.Rate = p.Capacity
	return p
}

func BenchmarkMemStoreAllow(b *testing.B) {
	l := limiter.New(&memstore.Store{}).Limit(busy(), runtime.KeyOf(runtime.String("key")))
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Allow(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
