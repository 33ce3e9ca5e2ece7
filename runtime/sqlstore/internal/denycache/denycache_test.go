package denycache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/denycache"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// caching gives every policy a DenyCache, so that the suite tests the cache.
type caching struct{ *denycache.Store }

func (s caching) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	cached := make([]runtime.Call, len(calls))
	for i, c := range calls {
		for _, q := range c.Requests {
			if q.Policy != nil {
				p := *q.Policy
				p.DenyCache = time.Hour
				q.Policy = &p
			}
			cached[i].Requests = append(cached[i].Requests, q)
		}
	}
	return s.Store.Do(ctx, cached)
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
		return caching{denycache.New(&memstore.Store{Clock: clock}, clock)}
	})
}

// counting is a store that counts its calls, and can fail.
type counting struct {
	*memstore.Store
	calls int
	err   error
	// meanwhile, if not nil, runs once, after the store has decided and before Do returns.
	meanwhile func()
}

func (c *counting) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	c.calls += len(calls)
	if c.err != nil {
		return nil, c.err
	}
	answers, err := c.Store.Do(ctx, calls)
	if meanwhile := c.meanwhile; meanwhile != nil {
		c.meanwhile = nil
		meanwhile()
	}
	return answers, err
}

// world is a store whose limit has 10 tokens, one of which accrues each second, and a DenyCache of 5 seconds.
type world struct {
	*testing.T
	clock   *storetest.Clock
	backend *counting
	store   *denycache.Store
}

var ten = &runtime.Policy{
	Name: "ten", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: 10, MaxReserved: 5,
	DenyCache: 5 * time.Second,
}

func newWorld(t *testing.T) *world {
	clock := storetest.NewClock()
	backend := &counting{Store: &memstore.Store{Clock: clock.Now}}
	return &world{t, clock, backend, denycache.New(backend, clock.Now)}
}

func (w *world) limit(key string) limiter.ReservableLimit {
	return limiter.New(w.store).Reservable(ten, runtime.KeyOf(runtime.String(key)))
}

// taken returns a decision that has just taken tokens.
func (w *world) taken() runtime.Decision {
	return runtime.Decision{Allowed: true, Taken: 10, TakenAt: w.clock.Now()}
}

// step is a request that comes some time after the one before, and the expected decision.
type step struct {
	after   time.Duration
	n       int64
	allowed bool
	retry   time.Duration
	calls   int // how many have reached the backend since the first step
}

func (w *world) play(steps []step) {
	w.Helper()
	for i, s := range steps {
		w.clock.Add(s.after)
		d, err := w.limit("k").AllowN(w.Context(), s.n)
		require.NoError(w, err)
		require.Equal(w, s.allowed, d.Allowed, "step %d", i)
		require.Equal(w, s.retry, d.RetryAfter, "step %d", i)
		require.Equal(w, s.calls, w.backend.calls, "step %d", i)
	}
}

const second = time.Second

func TestDenialIsCachedUntilTokensAreDue(t *testing.T) {
	newWorld(t).play([]step{
		{0, 10, true, 0, 1},
		{0, 3, false, 3 * second, 2},
		{0, 3, false, 3 * second, 2},
		{second, 3, false, 2 * second, 2},
		{2 * second, 3, true, 0, 3}, // the tokens are due
	})
}

func TestDenialExpiresAfterDenyCache(t *testing.T) {
	newWorld(t).play([]step{
		{0, 10, true, 0, 1},
		{0, 9, false, 9 * second, 2},
		{5*second - 1, 9, false, 4*second + 1, 2},
		{1, 9, false, 4 * second, 3},
	})
}

func TestDenyCacheCountsFromTheRequest(t *testing.T) {
	w := newWorld(t)
	w.play([]step{{0, 10, true, 0, 1}})
	w.backend.meanwhile = func() { w.clock.Add(2 * second) } // the answer is slow
	w.play([]step{
		{0, 8, false, 8 * second, 2},
		{3*second - 1, 8, false, 5*second + 1, 2},
		{1, 8, false, 3 * second, 3}, // for five seconds, another process may have refunded
	})
}

func TestOnlyTheSmallestCountIsCached(t *testing.T) {
	newWorld(t).play([]step{
		{0, 10, true, 0, 1},
		{0, 4, false, 4 * second, 2},
		{0, 2, false, 2 * second, 3},
		{0, 3, false, 3 * second, 4}, // only the backend can decide when 3 are available
		{0, 2, false, 2 * second, 4},
		{second, 1, true, 0, 5},
	})
}

func TestDenialIsNotUsedAfterTheClockWentBack(t *testing.T) {
	newWorld(t).play([]step{
		{0, 10, true, 0, 1},
		{0, 3, false, 3 * second, 2},
		{-time.Hour, 3, false, time.Hour + 3*second, 3},
	})
}

func TestCheckUsesTheCacheReserveDoesNot(t *testing.T) {
	w := newWorld(t)
	w.play([]step{{0, 10, true, 0, 1}, {0, 1, false, second, 2}})
	d, err := w.limit("k").Check(t.Context())
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Equal(t, 2, w.backend.calls, "a Check is denied by the cache")

	r, err := w.limit("k").Reserve(t.Context())
	require.NoError(t, err)
	require.True(t, r.Allowed, "a reservation is not denied by the cache")
	d, err = w.limit("other").Allow(t.Context())
	require.NoError(t, err)
	require.True(t, d.Allowed, "nor is another key")
}

// Whatever this process does to the row of a key, a later denial is that of the row.
func TestChangesClearTheDenial(t *testing.T) {
	ctx := t.Context()
	for name, row := range map[string]struct {
		change func(w *world) error
		retry  time.Duration // of 8 tokens, of which 5 were left
	}{
		"take":   {func(w *world) error { return w.limit("k").RequireN(ctx, 5) }, 8 * second},
		"charge": {func(w *world) error { _, err := w.limit("k").Charge(ctx, 20); return err }, 23 * second},
		"reset":  {func(w *world) error { return w.limit("k").Reset(ctx) }, 0},
		"refund": {func(w *world) error { _, err := w.limit("k").RefundN(ctx, w.taken(), 1); return err }, 2 * second},
		"up to":  {func(w *world) error { _, err := w.limit("k").AllowUpTo(ctx, 9); return err }, 8 * second},
		"reserve": {func(w *world) error {
			_, err := w.limit("k").ReserveN(ctx, 8)
			return err
		}, 11 * second},
		"settle": {func(w *world) error {
			r, err := w.limit("k").ReserveN(ctx, 4)
			if err == nil {
				err = r.Settle(ctx, 2)
			}
			return err
		}, 5 * second},
		"group": {func(w *world) error {
			l := limiter.New(w.store)
			_, err := l.All(ctx, l.Limit(ten, runtime.KeyOf(runtime.String("other"))), l.Limit(ten, runtime.KeyOf(runtime.String("k"))))
			return err
		}, 4 * second},
		"cancelled group": {func(w *world) error {
			l := limiter.New(w.store)
			k := l.Reservable(ten, runtime.KeyOf(runtime.String("k")))
			rs, err := l.ReserveAll(ctx, k.N(4))
			if err == nil {
				_, err = w.limit("k").AllowN(ctx, 8)
			}
			if err == nil {
				err = rs.Cancel(ctx)
			}
			return err
		}, 3 * second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.play([]step{{0, 5, true, 0, 1}, {0, 8, false, 3 * second, 2}, {0, 8, false, 3 * second, 2}})
			require.NoError(t, row.change(w))
			d, err := w.limit("k").AllowN(ctx, 8)
			require.NoError(t, err)
			require.Equal(t, row.retry, d.RetryAfter)
			require.Equal(t, d.Allowed, row.retry == 0)
		})
	}
}

// What changes nothing leaves the denial in the cache.
func TestReadsAndDenialsLeaveTheDenial(t *testing.T) {
	w := newWorld(t)
	w.play([]step{{0, 5, true, 0, 1}, {0, 8, false, 3 * second, 2}})
	_, err := w.limit("k").Peek(t.Context())
	require.NoError(t, err)
	_, err = w.limit("k").CheckN(t.Context(), 5)
	require.NoError(t, err)
	w.play([]step{{0, 9, false, 4 * second, 5}, {0, 8, false, 3 * second, 5}})
	require.NoError(t, w.limit("other").Require(t.Context()))
	w.play([]step{{0, 8, false, 3 * second, 6}})
}

// A transaction takes effect when it commits, at a time that is not known here.
func TestDenialsAreNotCachedDuringATransaction(t *testing.T) {
	w := newWorld(t)
	w.play([]step{{0, 5, true, 0, 1}, {0, 8, false, 3 * second, 2}, {0, 8, false, 3 * second, 2}})
	calls := []runtime.Call{{Requests: []runtime.Request{{Policy: ten, Key: "k", Count: 5}}}}
	w.store.InTx(calls, []runtime.Answer{{Decisions: []runtime.Decision{{Allowed: true}}}})
	w.play([]step{{0, 8, false, 3 * second, 3}, {0, 8, false, 3 * second, 4}})
	_, err := w.limit("k").Charge(t.Context(), 15)
	require.NoError(t, err)
	w.play([]step{{bounds.TxLasts - 1, 8, false, 8*second + 1, 6}, {1, 8, false, 8 * second, 7}, {0, 8, false, 8 * second, 7}})
}

func TestDenialFromBeforeAChangeIsNotCached(t *testing.T) {
	w := newWorld(t)
	w.play([]step{{0, 10, true, 0, 1}})
	w.backend.meanwhile = func() { require.NoError(t, w.limit("k").Reset(t.Context())) }
	w.play([]step{{0, 1, false, second, 3}, {0, 1, true, 0, 4}})
	w.backend.meanwhile = func() { require.NoError(t, w.limit("k").RequireN(t.Context(), 9)) }
	w.play([]step{{0, 10, false, second, 6}, {0, 10, false, 10 * second, 7}})
}

func TestFailedRefundClearsTheDenial(t *testing.T) {
	w := newWorld(t)
	w.play([]step{{0, 10, true, 0, 1}, {0, 1, false, second, 2}})
	w.backend.err = errDown
	_, err := w.limit("k").Refund(t.Context(), w.taken())
	require.ErrorIs(t, err, w.backend.err)
	w.backend.err = nil
	w.play([]step{{0, 1, false, second, 4}})
}

var errDown = errors.New("the connection broke")

// half answers the first half of the calls.
type half struct{ *counting }

func (h half) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers, err := h.counting.Do(ctx, calls[:len(calls)/2])
	return append(answers, make([]runtime.Answer, len(calls)-len(answers))...), errors.Join(err, errDown)
}

func TestAnswersAreCachedWhenOtherCallsFail(t *testing.T) {
	policy := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1, DenyCache: time.Minute}
	backend := &counting{Store: &memstore.Store{}}
	s := denycache.New(half{backend}, nil)
	call := runtime.Call{Requests: []runtime.Request{{Policy: policy, Count: 1}}}
	other := runtime.Call{Requests: []runtime.Request{{Policy: policy, Key: "other", Count: 1}}}
	answers, err := s.Do(t.Context(), []runtime.Call{call, call, other, other})
	require.ErrorIs(t, err, errDown)
	require.True(t, answers[0].Allowed())
	require.True(t, answers[1].Answered())
	require.False(t, answers[2].Answered())
	_, err = s.Do(t.Context(), []runtime.Call{call})
	require.NoError(t, err, "the cache denies it")
	require.Equal(t, 2, backend.calls)
}

func TestTransactionsAreNotCached(t *testing.T) {
	w := newWorld(t)
	_, err := limiter.New(w.store).WithTx(nil).Limit(ten, runtime.Key{}).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrNoTx, "a transaction does not pass the cache")
}

func TestNumberOfCachedKeysIsBounded(t *testing.T) {
	const keys = 100_000
	w := newWorld(t)
	for i := range keys {
		l := w.limit(fmt.Sprint(i))
		for _, n := range []int64{10, 1} {
			_, err := l.AllowN(t.Context(), n)
			require.NoError(t, err)
		}
	}
	w.backend.calls = 0
	for i := range keys {
		d, err := w.limit(fmt.Sprint(i)).Check(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
	}
	require.Greater(t, w.backend.calls, keys-20_000)
}

// A denial by the numbers of one request is not used for a request with others, and is used again for the same.
func TestDenialIsOfTheNumbersOfItsCaller(t *testing.T) {
	w := newWorld(t)
	p := *ten
	p.Rate, p.Capacity, p.MaxReserved, p.AtMost = 100, 100, 0, runtime.Numbers{Rate: 100, Capacity: 100}
	allow := func(n int64, calls int) bool {
		of, key := runtime.Numbers{Rate: n, Capacity: n}.For(&p, runtime.KeyOf(runtime.String("k")))
		d, err := limiter.New(w.store).Limit(of, key).Allow(t.Context())
		require.NoError(t, err)
		require.Equal(t, calls, w.backend.calls)
		return d.Allowed
	}
	require.True(t, allow(1, 1))
	require.False(t, allow(1, 2))
	require.False(t, allow(1, 2), "from memory")
	require.True(t, allow(100, 3), "other numbers are decided by the backend")
	require.False(t, allow(2, 4))
	require.False(t, allow(2, 4), "from memory")
	require.False(t, allow(1, 5))
}

// An override ends before the tokens are due, and the limit's own capacity is less than the count.
func TestDenialForGoodStaysOne(t *testing.T) {
	w, base := newWorld(t), *ten
	base.Overrides = runtime.OverrideBounds{Rate: 1, Capacity: 20, MaxReserved: 5}
	e := runtime.OverrideEntry{ID: 1, What: runtime.OverrideNumbers, Capacity: 20, Until: w.clock.Now().Add(10 * time.Second)}
	p, err := e.Apply(&base, &base)
	require.NoError(t, err)
	take := func(n int64) runtime.Decision {
		answers, err := w.store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Policy: p, Key: "k", Count: n}}}})
		require.NoError(t, err)
		require.NoError(t, answers[0].Err)
		return answers[0].Decisions[0]
	}
	require.True(t, take(20).Allowed)
	require.Equal(t, runtime.Never, take(15).RetryAfter)
	w.clock.Add(time.Second)
	require.Equal(t, runtime.Never, take(15).RetryAfter)
	require.Equal(t, 2, w.backend.calls, "the last one is from the cache")
}

// A cached denial has the tokens of the moment at which it is returned, by a policy for which that can be known, and
// otherwise at most as many.
func TestCachedDenialHasTheTokensOfTheMoment(t *testing.T) {
	bucket := runtime.Policy{Name: "p", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: 10, MaxReserved: 20}
	window := runtime.Policy{Name: "p", Kind: runtime.FixedWindow, Rate: 10, Period: time.Minute, Capacity: 30, MaxReserved: 20}
	first, punished, sliding, shards := window, bucket, runtime.Policy{Name: "p", Kind: runtime.SlidingWindow, Rate: 10, Period: time.Minute, Capacity: 10}, bucket
	first.Start = runtime.StartFirstUse()
	punished.MaxReserved, punished.Penalty = 0, runtime.PenaltyOf(0, 5*time.Second)
	precise := sliding
	precise.Precise = true
	shards.Rate, shards.Shards = 2, 2
	for _, row := range []struct {
		name   string
		policy runtime.Policy
		exact  bool
		// used is charged before, and n then denied.
		used, n int64
	}{
		{"bucket", bucket, true, 10, 10},
		{"bucket in debt", bucket, true, 25, 10},
		{"window", window, true, 28, 5},
		{"window in debt", window, true, 45, 25},
		{"window from the first use", first, true, 28, 30},
		{"window from the first use, in debt", first, true, 45, 25},
		{"penalty", punished, true, 10, 10},
		{"sliding", sliding, false, 10, 10},
		{"precise", precise, false, 10, 10},
		{"shards", shards, false, 10, 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			p := row.policy
			p.DenyCache = 24 * time.Hour
			key := runtime.KeyOf(runtime.String("k"))
			limit, behind := limiter.New(w.store).Limit(&p, key), limiter.New(w.backend.Store).Limit(&p, key)
			_, err := limit.Charge(t.Context(), row.used)
			require.NoError(t, err)
			cached := 0
			for range 200 {
				calls := w.backend.calls
				d, err := limit.AllowN(t.Context(), row.n)
				require.NoError(t, err)
				if d.Allowed {
					break
				}
				want, err := behind.Peek(t.Context())
				require.NoError(t, err)
				if w.backend.calls == calls {
					cached++
				}
				require.LessOrEqual(t, d.Value, want.Value+1e-6)
				require.LessOrEqual(t, d.Remaining, want.Remaining)
				if row.exact {
					require.InDelta(t, want.Value, d.Value, 1e-6)
					require.Equal(t, want.Remaining, d.Remaining, "of %v", want.Value)
				}
				w.clock.Add(700 * time.Millisecond)
			}
			require.Positive(t, cached)
		})
	}
}
