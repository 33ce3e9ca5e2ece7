package runtime_test

import (
	"context"
	"errors"
	stack "runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// reservable returns a bucket of n tokens, which refills by one per second, with n more to reserve.
func reservable(n int64) *runtime.Policy {
	p := bucket("limit", n)
	p.MaxReserved = n
	return p
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
		{"a key that cannot be written", t.Context(), limits, limits.Reservable(reservable(5), runtime.KeyOf(runtime.Text(unwritable{}))), runtime.ErrInvalidKey, true},
		{"a key that cannot be written", t.Context(), limits, limits.Reservable(reservable(5), runtime.KeyOf(runtime.Text(unwritable{}))), errUnwritable, true},
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
	for name, call := range zero {
		d, err := call()
		require.NoError(t, err, name)
		require.True(t, d.Allowed, name)
		require.Zero(t, d.TakenAt, "%s: nothing was taken that could be refunded", name)
		require.Zero(t, store.Len(), "%s wrote a row", name)
	}
	_, err := l.ReserveN(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, -5.0, value(t, l))
	for name, call := range zero {
		d, err := call()
		require.NoError(t, err, name)
		require.True(t, d.Allowed && d.Delay == 0, "%s in debt: %+v", name, d)
		require.Equal(t, -5.0, value(t, l), name)
	}
}

func TestSettleOfAReservationOfZeroChargesTheUse(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(5), runtime.Key{})
	r, err := l.ReserveN(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, r.Settle(t.Context(), 3))
	require.Equal(t, 2.0, value(t, l))
}

func TestAllowUpToTakesWhatThereIs(t *testing.T) {
	now := epoch
	store := clocked(&now)
	l := limiter.New(store).Limit(bucket("limit", 5), runtime.Key{})
	for _, row := range []struct {
		n, taken int64
		after    time.Duration
	}{{3, 3, 0}, {3, 2, 0}, {3, 0, time.Second}, {0, 0, 0}} {
		d, err := l.AllowUpTo(t.Context(), row.n)
		require.NoError(t, err)
		require.Equal(t, row.taken, d.Taken)
		require.Equal(t, row.after, d.RetryAfter)
		require.Equal(t, row.after == 0, d.Allowed)
		require.Equal(t, row.taken == 0, d.TakenAt.IsZero())
	}
	now = now.Add(time.Hour)
	d, err := l.AllowUpTo(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, int64(5), d.Taken, "more than the capacity is no error")
	d, err = l.RefundN(t.Context(), d, d.Taken-1)
	require.NoError(t, err)
	require.Equal(t, int64(4), d.Remaining)
	_, err = l.AllowUpTo(t.Context(), -1)
	require.ErrorIs(t, err, runtime.ErrInvalidCount)

	reserveOnly := &runtime.Policy{Name: "only", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, MaxReserved: 5}
	_, err = limiter.New(store).Limit(reserveOnly, runtime.Key{}).AllowUpTo(t.Context(), 1)
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity, "with capacity 0 there is never a token to take")
}

func TestChargeTakesWhetherAvailableOrNot(t *testing.T) {
	now := epoch
	limits := limiter.New(clocked(&now))
	l := limits.Limit(bucket("limit", 5), runtime.Key{})
	d, err := l.Charge(t.Context(), 8)
	require.NoError(t, err)
	require.Equal(t, runtime.Decision{
		Limit: "limit", Policy: bucket("limit", 5), Allowed: true, Taken: 8, TakenAt: now, Value: -3, FullAfter: 8 * time.Second,
	}, withoutReceipt(d))
	denied, err := l.Allow(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4*time.Second, denied.RetryAfter)
	d, err = l.RefundN(t.Context(), d, d.Taken)
	require.NoError(t, err)
	require.Equal(t, 5.0, d.Value)

	only := limits.ReserveOnly(&runtime.Policy{Name: "only", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, MaxReserved: 5}, runtime.Key{})
	_, err = only.Charge(t.Context(), 7)
	require.NoError(t, err)
	r, err := only.Reserve(t.Context())
	require.NoError(t, err)
	require.False(t, r.Allowed)
	require.Equal(t, 3*time.Second, r.RetryAfter, "the debt of 7 must fall to 4 before one more token fits into 5")

	_, err = l.Charge(t.Context(), 2*runtime.MaxTokens)
	require.NoError(t, err)
	_, err = l.Charge(t.Context(), 2*runtime.MaxTokens+1)
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

func TestAllTakesFromAllOrNone(t *testing.T) {
	limits := limiter.New(still())
	small := limits.Limit(bucket("small", 2), runtime.Key{})
	large := limits.Limit(bucket("large", 10), runtime.Key{})
	ds, err := limits.All(t.Context(), large.N(5), small)
	require.NoError(t, err)
	require.True(t, ds.Allowed)
	ds, err = limits.All(t.Context(), large.N(8), small.N(2))
	require.NoError(t, err)
	require.False(t, ds.Allowed)
	require.Equal(t, 3*time.Second, ds.RetryAfter, "the largest of 3s and 1s")
	require.Equal(t, []string{"large", "small"}, []string{ds.Each[0].Limit, ds.Each[1].Limit})
	_, err = limits.All(t.Context(), large.N(8), small.N(3))
	require.EqualError(t, err, `limit "small": count exceeds capacity: 3 is more than the capacity, 2`)
	b, err := large.Peek(t.Context())
	require.NoError(t, err)
	require.Equal(t, runtime.Balance{Limit: "large", Capacity: 10, Remaining: 5, Value: 5, Used: 5, FullAfter: 5 * time.Second}, b)
}

func TestAllRefusesNoItemsAndOtherLimiters(t *testing.T) {
	limits := limiter.New(still())
	l := limits.Limit(bucket("limit", 2), runtime.Key{})
	others := limiter.New(still()).Limit(bucket("limit", 2), runtime.Key{})
	for _, items := range [][]limiter.Item{nil, {nil}, {l, nil}, {others}, {l, others.N(2)}} {
		ds, err := limits.All(t.Context(), items...)
		require.ErrorIs(t, err, runtime.ErrInvalidCall)
		require.False(t, ds.Allowed)
	}
}

func TestDeniedAllReportsTheTokensLeft(t *testing.T) {
	limits := limiter.New(still())
	large := limits.Limit(bucket("large", 10), runtime.Key{})
	small := limits.Limit(bucket("small", 2), runtime.Key{})
	require.NoError(t, small.Require(t.Context()))
	ds, err := limits.All(t.Context(), large.N(4), large.N(5), small.N(2))
	require.NoError(t, err)
	require.False(t, ds.Allowed)
	for i, left := range []int64{10, 10, 1} {
		require.Equal(t, left, ds.Each[i].Remaining, "item %d: nothing was taken", i)
	}
}

// broken is a store that cannot be reached.
type broken struct{}

var errBroken = errors.New("connection refused")

func (broken) Do(context.Context, []runtime.Call) ([]runtime.Answer, error) { return nil, errBroken }

func TestStoreErrorIsNeverAnAllowance(t *testing.T) {
	limits := limiter.New(broken{})
	l := limits.Reservable(reservable(5), runtime.KeyOf(runtime.String("secret")))
	for _, v := range verbs(limits) {
		require.EqualError(t, v.call(t.Context(), l), `limit "limit": connection refused`, v.name)
	}
	d, err := l.Allow(t.Context())
	require.Error(t, err)
	require.False(t, d.Allowed)
	ds, err := limits.All(t.Context(), l)
	require.Error(t, err)
	require.False(t, ds.Allowed)
}

func TestZeroValuesDeny(t *testing.T) {
	require.Equal(t, "denied", runtime.Decision{}.String())
	require.Equal(t, "denied", limiter.Decisions{}.String())
	require.False(t, limiter.Decisions{}.Allowed)
	require.False(t, runtime.Answer{}.Allowed())
	require.Equal(t, "Kind(0)", runtime.Kind(0).String())
	require.ErrorIs(t, (&runtime.Policy{}).Validate(), runtime.ErrInvalidPolicy)
	require.ErrorIs(t, (*runtime.Policy)(nil).Validate(), runtime.ErrInvalidPolicy)
	require.ErrorIs(t, (&limiter.Reservation{}).Cancel(t.Context()), runtime.ErrNotReserved)
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
		d, err := l.AllowN(t.Context(), 10)
		require.NoError(t, err)
		require.Same(t, row.policy, d.Policy, name)
		require.Equal(t, row.want[0], d.ResetAfter, name)
		now = now.Add(row.later)
		d, err = l.CheckN(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, row.want[1], d.ResetAfter, name)
		b, err := l.Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, row.want[1], b.ResetAfter, name)
	}
}

func TestDecisionInWords(t *testing.T) {
	require.Equal(t, "allowed, 19 left", runtime.Decision{Allowed: true, Remaining: 19}.String())
	require.Equal(t, "reserved, use after 6s", runtime.Decision{Allowed: true, Delay: 6 * time.Second}.String())
	for wait, text := range map[time.Duration]string{
		1:                             "1ms",
		1234567:                       "2ms",
		333333334:                     "334ms",
		5999999999:                    "6s",
		6 * time.Second:               "6s",
		6*time.Second + 1:             "7s",
		599 * time.Second:             "9m59s",
		1163 * time.Second:            "19m23s",
		42_780 * time.Second:          "11h53m",
		3601 * time.Second:            "1h1m",
		65*time.Second + 1:            "1m6s",
		1 * time.Hour:                 "1h",
		3900 * time.Second:            "1h5m",
		6001 * time.Second:            "1h41m",
		2763000 * time.Second:         "768h",
		2764799800 * time.Millisecond: "768h",
		runtime.Never - 1:             "2562048h",
	} {
		require.Equal(t, "denied, retry after "+text, runtime.Decision{RetryAfter: wait}.String())
	}
}

func TestDecisionsInWords(t *testing.T) {
	limits := limiter.New(still())
	requests, tokens := limits.Limit(bucket("requests", 2), runtime.Key{}), limits.Limit(bucket("tokens", 10), runtime.Key{})
	for _, want := range []string{"allowed", `denied by "tokens", retry after 6s`} {
		ds, err := limits.All(t.Context(), requests, tokens.N(8))
		require.NoError(t, err)
		require.Equal(t, want, ds.String())
	}
	ds, err := limits.All(t.Context(), requests.N(2), tokens.N(8))
	require.NoError(t, err)
	require.Equal(t, `denied by "requests" and "tokens", retry after 6s`, ds.String())
}

func TestBalanceInWords(t *testing.T) {
	limit := limiter.New(still()).Limit(bucket("limit", 10), runtime.Key{})
	for _, row := range []struct {
		taken int64
		want  string
	}{
		{1, "9 of 10 left, full after 1s"},
		{9, "0 of 10 left, full after 10s"},
	} {
		_, err := limit.AllowN(t.Context(), row.taken)
		require.NoError(t, err)
		b, err := limit.Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, row.want, b.String())
	}
	require.NoError(t, limit.Reset(t.Context()))
	b, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.Equal(t, "10 of 10 left", b.String())
}

// traced is a store that notes the functions of this package through which it was called.
type traced struct {
	memstore.Store
	frames []string
}

func (s *traced) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	callers := make([]uintptr, 32)
	frames := stack.CallersFrames(callers[:stack.Callers(2, callers)])
	for more := true; more; {
		var f stack.Frame
		f, more = frames.Next()
		if name, ok := strings.CutPrefix(f.Function, module+"/runtime/limiter."); ok {
			s.frames = append(s.frames, name)
		}
	}
	return s.Store.Do(ctx, calls)
}

// The path of a call is drawn in the documentation, and is the first thing that a reader of the code follows.
func TestAllowReachesTheStoreInThreeFrames(t *testing.T) {
	store := &traced{}
	_, err := limiter.New(store).Limit(bucket("limit", 1), runtime.Key{}).Allow(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"(*Limiter).do", "Limit.do", "Limit.Allow"}, store.frames)
}
