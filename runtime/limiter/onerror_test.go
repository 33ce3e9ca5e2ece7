package limiter_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// faulty is a store that can fail or be slow, in a transaction too.
type faulty struct {
	*memstore.Store
	err  error
	slow time.Duration
}

func (f *faulty) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	select {
	case <-time.After(f.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.Do(ctx, calls)
}

func (f *faulty) WithTx(runtime.Tx) runtime.Store  { return f }
func (f *faulty) WithConn(*sql.Conn) runtime.Store { return f }

var errDown = errors.New("the server is down")

// onError returns a reservable limit of 3 tokens with the given OnError and a timeout of a second.
func onError(o runtime.OnError) *runtime.Policy {
	p := reservable(3)
	p.OnError, p.Timeout = o, time.Second
	return p
}

// failing runs a test with a limiter whose store can fail, at a fake time.
func failing(t *testing.T, test func(t *testing.T, limits *limiter.Limiter, store *faulty)) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: &memstore.Store{}, err: errDown}
		test(t, limiter.New(store), store)
	})
}

func TestVerbsFollowOnErrorWhenTheStoreFails(t *testing.T) {
	passing := map[string]bool{"Allow": true, "AllowUpTo": true, "Check": true, "Require": true, "Reserve": true, "Wait": true, "All": true}
	for _, o := range runtime.OnErrors() {
		synctest.Test(t, func(t *testing.T) {
			limits := limiter.New(&faulty{Store: still(), err: errDown})
			for _, v := range verbs(limits) {
				err := v.call(t.Context(), limits.Reservable(onError(o), runtime.Key{}))
				if o != runtime.FailClosed && passing[v.name] {
					require.NoError(t, err, v.name)
					continue
				}
				require.ErrorIs(t, err, errDown, "%v: %s", o, v.name)
				require.EqualError(t, err, `limit "limit": the server is down`)
			}
		})
	}
}

func TestFailOpenAllowsUncounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := limiter.New(&faulty{Store: still(), err: errDown})
		open, closed := onError(runtime.FailOpen), bucket("closed", 3)
		d := must(limits.Limit(open, runtime.Key{}).Allow(t.Context()))
		require.Equal(t, runtime.Decision{Limit: "limit", Policy: open, Allowed: true, Taken: 1, FailedOpen: errDown}, d)
		require.Equal(t, "allowed, uncounted", d.String())
		all := must(limits.All(t.Context(), limits.Limit(open, runtime.Key{})))
		require.Equal(t, "allowed, uncounted", all.String())

		_, err := limits.Limit(open, runtime.Key{}).AllowN(t.Context(), 4)
		require.ErrorIs(t, err, runtime.ErrExceedsCapacity, "an invalid request remains an error")
		_, err = limits.Limit(open, runtime.Key{}).AllowN(t.Context(), -1)
		require.ErrorIs(t, err, runtime.ErrInvalidCount)
		_, err = limits.ReserveAll(t.Context(), limits.Limit(open, runtime.Key{}), limits.Limit(open, runtime.KeyOf(runtime.Int(1))).CheckedN(4))
		require.ErrorIs(t, err, runtime.ErrExceedsCapacity)

		ds := must(limits.All(t.Context(), limits.Limit(open, runtime.Key{}), limits.Limit(open, runtime.KeyOf(runtime.Int(1)))))
		require.True(t, ds.Allowed)
		for _, each := range ds.Each {
			require.Equal(t, d.String(), each.String())
			require.Equal(t, errDown, each.FailedOpen)
		}
		_, err = limits.All(t.Context(), limits.Limit(open, runtime.Key{}), limits.Limit(closed, runtime.Key{}))
		require.ErrorIs(t, err, errDown, "a call passes only if all of its limits fail open")
	})
}

func TestShadowPassesWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := limiter.New(&faulty{Store: still(), err: errDown})
		limit := func(m runtime.Mode, o runtime.OnError) limiter.Limit {
			p := onError(o)
			p.Name, p.Mode = m.String()+" "+o.String(), m
			return limits.Limit(p, runtime.Key{})
		}
		shadow := limit(runtime.ModeShadow, runtime.FailClosed)
		require.Equal(t, errDown, must(shadow.Allow(t.Context())).FailedOpen)

		off, block := limit(runtime.ModeOff, runtime.FailClosed), limit(runtime.ModeBlock, runtime.FailClosed)
		open, closed := limit(runtime.ModeEnforce, runtime.FailOpen), limit(runtime.ModeEnforce, runtime.FailClosed)
		_, err := limits.All(t.Context(), shadow, closed)
		require.ErrorIs(t, err, errDown, "one of them must be enforced")
		ds := must(limits.All(t.Context(), shadow, off, open))
		require.True(t, ds.Allowed)
		require.NoError(t, ds.Each[1].FailedOpen, "nothing has failed for a limit that does not use the store")
		ds = must(limits.All(t.Context(), open, block))
		require.False(t, ds.Allowed, "a block does not depend on the store")
		require.Equal(t, runtime.Never, ds.RetryAfter)
		require.Equal(t, `denied by "block closed", no retry passes`, ds.String())
	})
}

func TestTimeoutBoundsTheDecision(t *testing.T) {
	const late = `limit "limit": context deadline exceeded`
	for _, row := range []struct {
		name    string
		slow    time.Duration
		onError runtime.OnError
		ctx     func(context.Context) (context.Context, context.CancelFunc) // the caller's
		takes   time.Duration
		want    string
	}{
		{"in time", 999 * time.Millisecond, runtime.FailOpen, ending(time.Hour), 999 * time.Millisecond, "allowed, 2 left"},
		{"too late, closed", time.Minute, runtime.FailClosed, ending(time.Hour), time.Second,
			`limit "limit": the store did not answer within the limit's timeout of 1s: context deadline exceeded`},
		{"too late, open", time.Minute, runtime.FailOpen, ending(time.Hour), time.Second, "allowed, uncounted"},
		{"the caller's deadline, closed", time.Minute, runtime.FailClosed, ending(time.Millisecond), time.Millisecond, late},
		{"the caller's deadline, open", time.Minute, runtime.FailOpen, ending(time.Millisecond), time.Millisecond, late},
		{"the caller's deadline, local", time.Minute, runtime.FailLocal, ending(time.Millisecond), time.Millisecond, late},
		{"cancelled, open", time.Minute, runtime.FailOpen, cancelled(time.Millisecond), time.Millisecond, `limit "limit": context canceled`},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := limiter.New(&faulty{Store: &memstore.Store{}, slow: row.slow})
				ctx, cancel := row.ctx(t.Context())
				defer cancel()
				require.Equal(t, row.takes, elapsed(func() {
					d, err := limits.Limit(onError(row.onError), runtime.Key{}).Allow(ctx)
					if err != nil {
						require.EqualError(t, err, row.want)
					} else {
						require.Equal(t, row.want, d.String())
					}
				}))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		limits := limiter.New(&faulty{Store: &memstore.Store{}, slow: time.Minute}).WithTx(nil)
		require.Equal(t, time.Minute, elapsed(func() {
			require.NoError(t, limits.Limit(onError(runtime.FailOpen), runtime.Key{}).Require(t.Context()))
		}), "no timeout in a transaction")
	})
}

// ending returns contexts that end by their deadline, and cancelled those that end without one.
func ending(after time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, after)
	}
}

func cancelled(after time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(after, cancel)
		return ctx, cancel
	}
}

// gone is a store that fails after the caller's context has ended, or whose driver notices the end of it first.
type gone struct {
	runtime.Store
	err func(ctx context.Context) error
}

func (g gone) Do(ctx context.Context, _ []runtime.Call) ([]runtime.Answer, error) {
	deadline, _ := ctx.Deadline()
	time.Sleep(time.Until(deadline))
	return nil, g.err(ctx)
}

// Only the limit's own timeout or a failure of the store opens a limit: a client that sets a short deadline gets its
// error.
func TestEndOfTheCallersContextOpensNothing(t *testing.T) {
	late := func(ctx context.Context) error { <-ctx.Done(); return errDown }
	for name, fails := range map[string]func(ctx context.Context) error{
		"the error of the context": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"another error":            late,
		"the driver's own clock":   func(context.Context) error { return errDown },
	} {
		for _, o := range runtime.OnErrors() {
			synctest.Test(t, func(t *testing.T) {
				limits := limiter.New(gone{still(), fails})
				for _, v := range verbs(limits) {
					p := onError(o)
					p.Timeout = time.Hour
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Microsecond)
					defer cancel()
					err := v.call(ctx, limits.Reservable(p, runtime.Key{}))
					require.ErrorIs(t, err, context.DeadlineExceeded, "%s, %v: %s", name, o, v.name)
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		// The timeout of the limit has passed before.
		limits := limiter.New(gone{still(), late})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, must(limits.Limit(onError(runtime.FailOpen), runtime.Key{}).Allow(ctx)).FailedOpen, errDown)
	})
}

// A store that has failed has counted nothing. What was used is charged once when it is back, however often it is
// settled.
func TestUseOfAFailedStoreIsChargedOnce(t *testing.T) {
	ctx := t.Context()
	for name, take := range map[string]func(*limiter.Limiter, limiter.ReservableLimit) (settle func(int64) error, cancel func() error){
		"Reserve": func(_ *limiter.Limiter, l limiter.ReservableLimit) (func(int64) error, func() error) {
			r := must(l.ReserveN(ctx, 2))
			require.ErrorIs(t, r.FailedOpen, errDown)
			require.Zero(t, r.Delay())
			return func(used int64) error { return r.Settle(ctx, used) }, func() error { return r.Cancel(ctx) }
		},
		"ReserveAll": func(limits *limiter.Limiter, l limiter.ReservableLimit) (func(int64) error, func() error) {
			rs := must(limits.ReserveAll(ctx, l.N(2), l.Checked()))
			require.ErrorIs(t, rs.Each[1].FailedOpen, errDown)
			return func(used int64) error { return rs.At(0).Settle(ctx, used) }, func() error { return rs.Cancel(ctx) }
		},
		"All": func(limits *limiter.Limiter, l limiter.ReservableLimit) (func(int64) error, func() error) {
			ds := must(limits.All(ctx, l.N(2)))
			reservation := func() *limiter.Reservation {
				r, ok := ds.Settlement(0)
				require.True(t, ok)
				return r
			}
			return func(used int64) error { return reservation().Settle(ctx, used) }, func() error { return reservation().Cancel(ctx) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &faulty{Store: still(), err: errDown}
			limits := limiter.New(store)
			l := limits.Reservable(onError(runtime.FailOpen), runtime.Key{})
			settle, _ := take(limits, l)
			require.ErrorIs(t, settle(2), errDown, "a charge does not fail open")
			store.err = nil
			require.NoError(t, settle(2))
			require.Equal(t, 1.0, value(t, l), "the whole use is charged, because nothing was reserved")
			require.ErrorIs(t, settle(2), runtime.ErrNotReserved)

			store.err = errDown
			_, cancel := take(limits, l)
			require.NoError(t, cancel(), "there is nothing to refund")
			store.err = nil
			require.Equal(t, 1.0, value(t, l))
		})
	}
}

func TestFailedOpenWaitReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: &memstore.Store{}}
		l := limiter.New(store).Reservable(onError(runtime.FailOpen), runtime.Key{})
		require.NoError(t, l.WaitN(t.Context(), 3))
		store.err = errDown
		require.Zero(t, elapsed(func() { require.NoError(t, l.WaitN(t.Context(), 3)) }))
		store.err = nil
		require.Equal(t, 0.0, value(t, l), "nothing was taken or refunded")
	})
}

func TestFailLocalDecidesByTheSameRule(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		p := onError(runtime.FailLocal)
		l := limits.Reservable(p, runtime.KeyOf(runtime.Int(1)))
		for i, row := range []struct {
			after time.Duration
			want  string
		}{
			{0, "allowed, 2 left, decided locally"},
			{0, "allowed, 1 left, decided locally"},
			{0, "allowed, 0 left, decided locally"},
			{0, "denied, retry after 1s, decided locally"},
			{time.Second, "allowed, 0 left, decided locally"},
			{0, "denied, retry after 1s, decided locally"},
		} {
			time.Sleep(row.after)
			d := must(l.Allow(t.Context()))
			require.Equal(t, row.want, d.String(), "row %d", i)
			require.ErrorIs(t, d.FailedLocal, errDown)
			require.NoError(t, d.FailedOpen)
			require.Zero(t, d.TakenAt)
			require.Equal(t, "limit", d.Limit)
		}
		d := must(limits.Reservable(p, runtime.KeyOf(runtime.Int(2))).Allow(t.Context()))
		require.Equal(t, int64(2), d.Remaining, "each key has a count of its own")

		_, err := l.AllowN(t.Context(), 4)
		require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
		time.Sleep(2 * time.Second)
		require.Equal(t, int64(2), must(l.AllowUpTo(t.Context(), 10)).Taken)
		require.False(t, must(l.Check(t.Context())).Allowed)
	})
}

func TestStoreDecidesAgainWhenItIsBack(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		l := limits.Limit(onError(runtime.FailLocal), runtime.Key{})
		d := must(l.AllowN(t.Context(), 3))
		require.True(t, d.Allowed)
		store.err = nil
		must(l.RefundN(t.Context(), d, 3))
		require.Equal(t, "allowed, 1 left", must(l.AllowN(t.Context(), 2)).String(), "the store has not counted the tokens taken from memory")
		store.err = errDown
		time.Sleep(time.Second)
		require.Equal(t, "denied, retry after 1s, decided locally", must(l.AllowN(t.Context(), 2)).String(), "the memory has kept its counts")
	})
}

func TestFailLocalWithOthersInOneCall(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		policy := func(name string, o runtime.OnError) limiter.Limit {
			p := bucket(name, 3)
			p.OnError = o
			return limits.Limit(p, runtime.Key{})
		}
		local, second, open := policy("local", runtime.FailLocal), policy("second", runtime.FailLocal), policy("open", runtime.FailOpen)
		ds := must(limits.All(t.Context(), local.N(2), open.N(3), second))
		require.Equal(t, "allowed, uncounted, decided locally", ds.String())
		require.Equal(t, []int64{2, 3, 1}, []int64{ds.Each[0].Taken, ds.Each[1].Taken, ds.Each[2].Taken})
		ds = must(limits.All(t.Context(), second.N(2), open, local.N(2)))
		require.Equal(t, `denied by "local", retry after 1s, decided locally`, ds.String())
		require.Equal(t, []int64{0, 0, 0}, []int64{ds.Each[0].Taken, ds.Each[1].Taken, ds.Each[2].Taken})
		require.True(t, must(second.AllowN(t.Context(), 2)).Allowed, "when one limit denies, nothing is taken from the others")
		_, err := limits.All(t.Context(), local, policy("closed", runtime.FailClosed))
		require.ErrorIs(t, err, errDown)
	})
}

func TestLocalReservationIsNotRefundedToTheStore(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		l := limits.Reservable(onError(runtime.FailLocal), runtime.Key{})
		r := must(l.ReserveN(t.Context(), 5))
		require.Equal(t, 2*time.Second, r.Delay())
		require.NoError(t, r.Cancel(t.Context()), "there is nothing to refund")
		r = must(l.Reserve(t.Context()))
		store.err = nil
		require.NoError(t, r.Settle(t.Context(), 2))
		require.Equal(t, 1.0, value(t, l), "the whole use is charged to the store")
		store.err = errDown

		// The memory has -3 tokens, and allows a debt of 3.
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(time.Second)
		time.AfterFunc(500*time.Millisecond, cancel)
		require.ErrorIs(t, l.Wait(ctx), context.Canceled)
		store.err = nil
		require.Equal(t, 2.5, value(t, l), "nothing was refunded")
	})
}

// heapInUse returns how many bytes are in use.
func heapInUse() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Callers may invent keys, so the memory is bounded.
func TestLocalMemoryIsBounded(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		p := onError(runtime.FailLocal)
		p.Timeout, p.Period = 0, 24*time.Hour
		take := func(key string) runtime.Decision {
			return must(limits.Limit(p, runtime.KeyOf(runtime.String(key))).AllowN(t.Context(), 1))
		}
		before := heapInUse()
		for i := range 150_000 {
			take(fmt.Sprintf("key %d", i))
		}
		require.Less(t, heapInUse()-before, uint64(32<<20))
		require.Equal(t, int64(2), take("key 0").Remaining, "forgotten, so full")
		require.Equal(t, int64(1), take("key 149999").Remaining)
	})
}

// A key begins with what the store has last reported to this process: an exhausted one does not get its capacity again.
func TestFailLocalBeginsWithTheLastReport(t *testing.T) {
	minute := func(kind runtime.Kind, change func(p *runtime.Policy)) *runtime.Policy {
		p := &runtime.Policy{Name: kind.String(), Kind: kind, Rate: 6, Period: time.Minute, Capacity: 6, OnError: runtime.FailLocal}
		change(p)
		return p
	}
	same := func(*runtime.Policy) {}
	for _, row := range []struct {
		policy *runtime.Policy
		// left are the tokens 5, 20, 60 and 120 seconds after 4 of 6 were taken, 10 seconds after the start of a window.
		left [4]int64
	}{
		{minute(runtime.TokenBucket, same), [4]int64{2, 4, 6, 6}},
		{minute(runtime.TokenBucket, func(p *runtime.Policy) { p.Shards = 3 }), [4]int64{2, 4, 6, 6}},
		{minute(runtime.FixedWindow, func(p *runtime.Policy) { p.Start = runtime.StartOffset(0) }), [4]int64{2, 2, 6, 6}},
		{minute(runtime.FixedWindow, func(p *runtime.Policy) { p.Start = runtime.StartFirstUse() }), [4]int64{2, 2, 6, 6}},
		{minute(runtime.FixedWindow, func(p *runtime.Policy) {
			p.Calendar, p.Period = runtime.Calendar{Unit: runtime.Day, Zone: "UTC"}, 24*time.Hour
		}), [4]int64{2, 2, 2, 2}},
		{minute(runtime.SlidingWindow, func(p *runtime.Policy) { p.Start = runtime.StartOffset(0) }), [4]int64{2, 2, 2, 6}},
		{minute(runtime.SlidingWindow, func(p *runtime.Policy) { p.Precise = true }), [4]int64{2, 2, 6, 6}},
	} {
		for i, after := range []time.Duration{5, 20, 60, 120} {
			failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
				now := time.Now()
				time.Sleep(time.Until(now.Truncate(time.Minute).Add(70 * time.Second)))
				store.err = nil
				l := limits.Limit(row.policy, runtime.KeyOf(runtime.Int(1)))
				require.NoError(t, l.RequireN(t.Context(), 4))
				time.Sleep(after * time.Second)
				store.err = errDown
				d := must(l.Check(t.Context()))
				require.Equal(t, row.left[i], d.Remaining, "%v after %ds", row.policy, after)
				require.Same(t, row.policy, d.Policy)
				require.ErrorIs(t, d.FailedLocal, errDown)
			})
		}
	}
}

// Whatever has reported the count, the last report counts, and what was taken from memory is not forgotten for it.
func TestReportsOfEveryVerbReachTheMemory(t *testing.T) {
	ctx := context.Background() // of no bubble of synctest
	for name, row := range map[string]struct {
		do   func(l limiter.ReservableLimit, limits *limiter.Limiter, store runtime.Store)
		left int64
	}{
		"AllowN":  {func(l limiter.ReservableLimit, _ *limiter.Limiter, _ runtime.Store) { must(l.AllowN(ctx, 2)) }, 1},
		"Charge":  {func(l limiter.ReservableLimit, _ *limiter.Limiter, _ runtime.Store) { must(l.Charge(ctx, 1)) }, 2},
		"Reserve": {func(l limiter.ReservableLimit, _ *limiter.Limiter, _ runtime.Store) { must(l.ReserveN(ctx, 5)) }, 0},
		"All": {func(l limiter.ReservableLimit, limits *limiter.Limiter, _ runtime.Store) {
			must(limits.All(ctx, l, l.Checked(), l))
		}, 1},
		"Cancel": {func(l limiter.ReservableLimit, limits *limiter.Limiter, _ runtime.Store) {
			require.NoError(t, must(limits.ReserveAll(ctx, l.N(2), l.N(1))).Cancel(ctx))
		}, 3},
		"Reset": {func(l limiter.ReservableLimit, _ *limiter.Limiter, _ runtime.Store) {
			must(l.AllowN(ctx, 3))
			require.NoError(t, l.Reset(ctx))
		}, 3},
		"Peek of a key that another process has used": {func(l limiter.ReservableLimit, _ *limiter.Limiter, store runtime.Store) {
			must(limiter.New(store).Limit(onError(runtime.FailClosed), runtime.Key{}).AllowN(ctx, 2))
			must(l.Peek(ctx))
		}, 1},
		"nothing": {func(limiter.ReservableLimit, *limiter.Limiter, runtime.Store) {}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
				store.err = nil
				l := limits.Reservable(onError(runtime.FailLocal), runtime.Key{})
				row.do(l, limits, store)
				store.err = errDown
				require.Equal(t, row.left, must(l.CheckN(t.Context(), 0)).Remaining)
			})
		})
	}
}

// What the store reports counts whatever the mode and the plan were: it decides again by the tokens of the key when they
// have changed, and so does the memory.
func TestReportsInEveryModeReachTheMemory(t *testing.T) {
	ctx := context.Background() // of no bubble of synctest
	p := *onError(runtime.FailLocal)
	p.Overrides = runtime.OverrideBounds{Rate: 3, Capacity: 3, MaxReserved: 3, Unlimited: true}
	plans := lifted(p)
	block := runtime.Block{Until: runtime.ForGood(), Reason: "r", Author: "a"}
	for name, row := range map[string]struct {
		do   func(l, all limiter.Limit, o limiter.Overrides)
		left int64
	}{
		"a charge while the key is blocked": {func(l, _ limiter.Limit, o limiter.Overrides) {
			must(o.Block(ctx, block))
			must(l.Charge(ctx, 2))
			must(o.End(ctx, overrideEnd))
		}, 0},
		"a reset while the key is blocked": {func(l, _ limiter.Limit, o limiter.Overrides) {
			must(o.Block(ctx, block))
			require.NoError(t, l.Reset(ctx))
			must(o.End(ctx, overrideEnd))
		}, 3},
		"a reset by a plan without a limit": {func(_, all limiter.Limit, _ limiter.Overrides) { require.NoError(t, all.Reset(ctx)) }, 3},
		"a Peek by a plan without a limit that is blocked": {func(_, all limiter.Limit, o limiter.Overrides) {
			must(o.Block(ctx, block))
			must(all.Peek(ctx))
			must(o.End(ctx, overrideEnd))
		}, 2},
		"takes in shadow mode": {func(l, _ limiter.Limit, o limiter.Overrides) {
			must(o.Set(ctx, runtime.Override{Mode: runtime.ModeShadow, Until: runtime.ForGood(), Reason: "r", Author: "a"}))
			must(l.AllowN(ctx, 2))
			must(l.AllowN(ctx, 2))
			must(o.End(ctx, overrideEnd))
		}, 0},
	} {
		failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
			store.err = nil
			key := runtime.KeyOf(runtime.Int(1))
			l := limits.Limit(&plans[free], key)
			must(l.AllowN(ctx, 1))
			row.do(l, limits.Limit(&plans[enterprise], key), limits.Overrides(&plans[free], key))
			store.err = errDown
			require.Equal(t, row.left, must(l.CheckN(ctx, 0)).Remaining, name)
		})
	}
}

// A reset and an erasure end what this process has taken from its memory, too, and an unblocking ends its penalty.
func TestResetReachesTheMemory(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, l limiter.Limit) error{
		"Reset": func(ctx context.Context, l limiter.Limit) error { return l.Reset(ctx) },
		"Erase": func(ctx context.Context, l limiter.Limit) error { return l.Erase(ctx) },
	} {
		failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
			l := limits.Limit(onError(runtime.FailLocal), runtime.KeyOf(runtime.Int(1)))
			must(l.AllowN(t.Context(), 3))
			store.err = nil
			must(l.AllowN(t.Context(), 2))
			require.NoError(t, do(t.Context(), l))
			store.err = errDown
			require.Equal(t, int64(3), must(l.CheckN(t.Context(), 0)).Remaining, name)
		})
	}
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		p, key := onError(runtime.FailLocal), runtime.KeyOf(runtime.Int(1))
		p.MaxReserved, p.Penalty, p.Overrides = 0, runtime.PenaltyOf(0, time.Hour), runtime.OverrideBounds{Rate: 3, Capacity: 3}
		l, o := limits.Limit(p, key), limits.Overrides(p, key)
		store.err = nil
		must(l.AllowN(t.Context(), 2))
		require.NotZero(t, must(l.AllowN(t.Context(), 2)).PenaltyFor)
		store.err = errDown
		require.NotZero(t, must(l.AllowN(t.Context(), 1)).PenaltyFor)
		must(limits.Limit(p, runtime.KeyOf(runtime.Int(2))).Allow(t.Context()))
		store.err = nil
		must(o.Unblock(t.Context(), overrideEnd))
		store.err = errDown
		d := must(l.CheckN(t.Context(), 0))
		require.Zero(t, d.PenaltyFor)
		require.Equal(t, int64(1), d.Remaining, "the tokens are as before")
	})
}

// A window that begins at the first use has ended, and no request has begun the next one: the tokens that the store has
// reported are those that have accrued, and no more come with it.
func TestFailLocalBeginsBetweenTwoWindows(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		p := &runtime.Policy{
			Name: "limit", Kind: runtime.FixedWindow, Rate: 3, Period: time.Minute, Capacity: 10, Start: runtime.StartFirstUse(), OnError: runtime.FailLocal,
		}
		store.err = nil
		l := limits.Limit(p, runtime.Key{})
		must(l.AllowN(t.Context(), 10))
		time.Sleep(time.Minute)
		require.Equal(t, int64(3), must(l.Peek(t.Context())).Remaining)
		store.err = errDown
		require.Equal(t, int64(3), must(l.AllowUpTo(t.Context(), 10)).Taken)
		time.Sleep(time.Minute)
		require.Equal(t, int64(3), must(l.AllowUpTo(t.Context(), 10)).Taken)
	})
}

// The plans of a limit fail alike if the overrides cannot be read, within its timeout, and also the plan that needs the
// store for nothing else.
func TestPlansFailAlikeWithoutTheOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		limits := limiter.New(followed{&memstore.Store{}, override.New(override.Source{
			Since: func(ctx context.Context, _ int64) ([]runtime.OverrideEntry, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			Now:        func() int64 { return time.Now().UnixNano() },
			Background: func(read func(context.Context)) { go read(ctx) },
		})})
		for _, o := range runtime.OnErrors() {
			p := *overridable()
			p.OnError, p.Timeout = o, time.Second
			plans := lifted(p)
			for plan := free; plan <= enterprise; plan++ {
				caller, end := context.WithTimeout(t.Context(), time.Minute)
				defer end()
				var err error
				require.Equal(t, time.Second, elapsed(func() {
					_, err = limits.Limit(&plans[plan], runtime.Key{}).Allow(caller)
				}), "%v, plan %d", o, plan)
				if o == runtime.FailClosed {
					require.ErrorIs(t, err, runtime.ErrOverridesUnread)
					require.ErrorContains(t, err, "within the limit's timeout of 1s")
				} else {
					require.NoError(t, err, "%v, plan %d", o, plan)
				}
			}
		}
	})
}
