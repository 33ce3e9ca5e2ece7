package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
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
			require.True(t, d.Allowed && d.Delay == 0, "%s with %v tokens: %+v", name, tokens, d)
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

// A key can begin with fewer tokens than a full one, or with the rest of a window: what it must lack is charged when it
// is made. A sweep of its row when that is full changes nothing.
func TestNewKeyBeginsWithLessByACharge(t *testing.T) {
	for _, p := range []runtime.Policy{
		{Kind: runtime.TokenBucket},
		{Kind: runtime.FixedWindow, Start: runtime.StartOffset(0)},
		{Kind: runtime.SlidingWindow, Start: runtime.StartOffset(0)},
		{Kind: runtime.SlidingWindow, Precise: true},
	} {
		t.Run(fmt.Sprint(p.Kind, p.Precise), func(t *testing.T) {
			p.Name, p.Rate, p.Period, p.Capacity = "calls", 60, time.Hour, 60
			now := epoch.Truncate(time.Hour).Add(45 * time.Minute)
			store := &memstore.Store{Clock: func() time.Time { return now }}
			l := limiter.New(store).Limit(&p, runtime.KeyOf(runtime.String("signed up now")))
			must(l.Charge(t.Context(), 45))
			require.False(t, must(l.AllowN(t.Context(), 16)).Allowed)
			require.NoError(t, l.RequireN(t.Context(), 15))
			require.False(t, must(l.Allow(t.Context())).Allowed)
			now = now.Add(15 * time.Minute)
			if p.Kind == runtime.FixedWindow {
				require.EqualValues(t, 60, must(l.Peek(t.Context())).Remaining, "the first whole window")
			}
			for now = now.Add(2 * time.Hour); must(store.Sweep(t.Context(), &p)) == 0; now = now.Add(time.Minute) {
				require.EqualValues(t, 60, must(l.Peek(t.Context())).Remaining)
			}
			require.NoError(t, l.RequireN(t.Context(), 60))
		})
	}
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

// ResetAfter is the end of the window that the decision belongs to.
func TestResetAfterIsTheEndOfTheWindow(t *testing.T) {
	window := func(kind runtime.Kind, start runtime.Start) *runtime.Policy {
		return &runtime.Policy{Name: "limit", Kind: kind, Rate: 10, Period: time.Hour, Capacity: 10, Start: start}
	}
	hourly := runtime.StartOffset(10 * time.Minute)
	sharded := window(runtime.FixedWindow, hourly)
	sharded.Shards = 3
	for name, row := range map[string]struct {
		policy *runtime.Policy
		at     time.Duration // of a take and, later, a denial and a peek
		later  time.Duration
		want   [2]time.Duration
	}{
		"token bucket":        {bucket("limit", 10), 0, time.Minute, [2]time.Duration{}},
		"fixed window":        {window(runtime.FixedWindow, hourly), 0, 9 * time.Minute, [2]time.Duration{10 * time.Minute, time.Minute}},
		"the next window":     {window(runtime.FixedWindow, hourly), 0, 10 * time.Minute, [2]time.Duration{10 * time.Minute, time.Hour}},
		"sliding window":      {window(runtime.SlidingWindow, hourly), 0, 15 * time.Minute, [2]time.Duration{10 * time.Minute, 55 * time.Minute}},
		"the clock goes back": {window(runtime.FixedWindow, hourly), 0, -time.Minute, [2]time.Duration{10 * time.Minute, 11 * time.Minute}},
		"back over a start":   {window(runtime.FixedWindow, hourly), 10 * time.Minute, -time.Minute, [2]time.Duration{time.Hour, 61 * time.Minute}},
		"first use":           {window(runtime.FixedWindow, runtime.StartFirstUse()), 0, 15 * time.Minute, [2]time.Duration{time.Hour, 45 * time.Minute}},
		"first use, ended":    {window(runtime.FixedWindow, runtime.StartFirstUse()), 0, time.Hour, [2]time.Duration{time.Hour, 0}},
		"shards":              {sharded, 0, 9 * time.Minute, [2]time.Duration{10 * time.Minute, time.Minute}},
	} {
		now := epoch.Add(row.at)
		l := limiter.New(clocked(&now)).Limit(row.policy, runtime.Key{})
		d := must(l.AllowN(t.Context(), 10))
		require.Same(t, row.policy, d.Policy, name)
		require.Equal(t, row.want[0], d.ResetAfter, name)
		now = now.Add(row.later)
		require.Equal(t, row.want[1], must(l.CheckN(t.Context(), 10)).ResetAfter, name)
		require.Equal(t, row.want[1], must(l.Peek(t.Context())).ResetAfter, name)
	}
}

// berlin returns an instant by the clock of Berlin.
func berlin(t *testing.T, clock string) time.Time {
	t.Helper()
	zone := must(time.LoadLocation("Europe/Berlin"))
	return must(time.ParseInLocation(time.DateTime, clock, zone))
}

// Each key has its own billing day, which the 31st of a short month is moved from and back to.
func TestAnniversary(t *testing.T) {
	now := berlin(t, "2026-01-31 12:00:00")
	limits := limiter.New(clocked(&now))
	p := runtimetest.Once(runtime.Calendar{Unit: runtime.Month, Zone: "Europe/Berlin", Anniversary: true})
	// 23:30 UTC on the 30th is the 31st in Berlin.
	limit := limits.Limit(&p, runtime.KeyOf(runtime.Int64(1)).Since(time.Date(2024, 10, 30, 23, 30, 0, 0, time.UTC)))
	for _, next := range []string{"2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"} {
		require.NoError(t, limit.Require(t.Context()))
		d := must(limit.Allow(t.Context()))
		require.Equal(t, berlin(t, next+" 00:00:00").Sub(now), d.RetryAfter)
		now = now.Add(d.RetryAfter)
	}
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
		"no zone":            {runtime.Key{}.Since(since), noZone},
		"a nil zone":         {runtime.Key{}.Since(since).In(nil), noZone},
		"no anniversary":     {runtime.Key{}.In(time.UTC), noDate},
		"a zero anniversary": {runtime.Key{}.In(time.UTC).Since(time.Time{}), noDate},
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
