package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

func TestChecksAreDecidedByTheTokensBeforeTheCall(t *testing.T) {
	a, b := bucket("a", 5), bucket("b", 5)
	inA := func(q runtime.Request) runtime.Request { return request(a, q) }
	inB := func(q runtime.Request) runtime.Request { return request(b, q) }
	for _, row := range []struct {
		name    string
		call    []runtime.Request
		allowed []bool
		left    [2]float64
	}{
		{"a check takes nothing", []runtime.Request{inA(take(2)), inB(check(5))}, []bool{true, true}, [2]float64{3, 5}},
		{"the order does not matter", []runtime.Request{inB(check(5)), inA(take(2))}, []bool{true, true}, [2]float64{3, 5}},
		{"one key: the take does not count", []runtime.Request{inA(take(2)), inA(check(5))}, []bool{true, true}, [2]float64{3, 5}},
		{"one key, the other order", []runtime.Request{inA(check(5)), inA(take(2))}, []bool{true, true}, [2]float64{3, 5}},
		{"takes of one key add up around a check", []runtime.Request{inA(take(2)), inA(check(5)), inA(take(3))}, []bool{true, true, true}, [2]float64{0, 5}},
		{"checks of one key do not add up", []runtime.Request{inA(check(4)), inA(check(4))}, []bool{true, true}, [2]float64{5, 5}},
		{"only checks", []runtime.Request{inA(check(5)), inB(check(1))}, []bool{true, true}, [2]float64{5, 5}},
	} {
		t.Run(row.name, func(t *testing.T) {
			store := still()
			answer := do(t, store, call(row.call...))[0]
			require.NoError(t, answer.Err)
			for i, d := range answer.Decisions {
				require.Equal(t, row.allowed[i], d.Allowed, "%d", i)
				require.Equal(t, row.call[i].Op == runtime.Check, d.TakenAt.IsZero(), "a check takes nothing")
			}
			require.Equal(t, row.left, [2]float64{left(t, store, a), left(t, store, b)})
		})
	}
}

func TestDeniedCheckKeepsTheTokensOfTheOthers(t *testing.T) {
	store, tokens, suspended := still(), bucket("tokens", 5), bucket("suspended", 1)
	do(t, store, call(request(suspended, take(1))))
	for _, requests := range [][]runtime.Request{
		{request(tokens, take(2)), request(suspended, check(1))},
		{request(suspended, check(1)), request(tokens, take(2))},
	} {
		answer := do(t, store, call(requests...))[0]
		require.NoError(t, answer.Err)
		require.False(t, answer.Allowed())
		for i, d := range answer.Decisions {
			require.Equal(t, requests[i].Op == runtime.Take, d.Allowed, "only the check denies")
			require.True(t, d.TakenAt.IsZero(), "nothing was taken")
			if d.Allowed {
				require.Equal(t, 5.0, d.Value, "the tokens without the call")
			} else {
				require.Equal(t, time.Second, d.RetryAfter)
			}
		}
		require.Equal(t, 5.0, left(t, store, tokens))
	}
}

// team returns a limiter with a limit of 10 tokens that can be reserved, one of 3 that cannot, and one to check.
func team(store runtime.Store) (limits *limiter.Limiter, tokens limiter.ReservableLimit, calls, suspended limiter.Limit) {
	limits = limiter.New(store)
	r := reservable(10)
	r.Name = "tokens"
	return limits, limits.Reservable(r, runtime.Key{}), limits.Limit(bucket("calls", 3), runtime.Key{}),
		limits.Limit(bucket("suspended", 1), runtime.Key{})
}

func TestReserveAllTakesAllOrNone(t *testing.T) {
	limits, tokens, calls, suspended := team(still())
	all := func(n int64) *limiter.Reservations {
		rs, err := limits.ReserveAll(t.Context(), tokens.N(n), calls, suspended.Checked())
		require.NoError(t, err)
		return rs
	}
	first := all(6)
	require.True(t, first.Allowed)
	require.Zero(t, first.Delay())
	second := all(6)
	require.Equal(t, 2*time.Second, second.Delay(), "the largest: calls are available at once")
	require.Zero(t, second.At(1).Delay())
	require.Equal(t, -2.0, value(t, tokens))

	require.NoError(t, calls.Require(t.Context()))
	denied := all(1)
	require.Equal(t, []string{"calls"}, denied.DeniedBy())
	require.Equal(t, runtime.Never, denied.Delay())
	require.Equal(t, runtime.Never, denied.At(0).Delay(), "it would have passed alone, but nothing was taken")
	require.ErrorIs(t, denied.Cancel(t.Context()), runtime.ErrNotReserved)
	require.ErrorIs(t, denied.At(0).Settle(t.Context(), 1), runtime.ErrNotReserved)
	require.Equal(t, -2.0, value(t, tokens))
}

func TestReservationsAreSettledPerLimit(t *testing.T) {
	for _, row := range []struct {
		name          string
		settle        func(ctx context.Context, rs *limiter.Reservations) error
		tokens, calls int64
	}{
		{"nothing yet", func(context.Context, *limiter.Reservations) error { return nil }, 4, 2},
		{"less", func(ctx context.Context, rs *limiter.Reservations) error { return rs.At(0).Settle(ctx, 2) }, 8, 2},
		{"more", func(ctx context.Context, rs *limiter.Reservations) error { return rs.At(0).Settle(ctx, 9) }, 1, 2},
		{"cancel one", func(ctx context.Context, rs *limiter.Reservations) error { return rs.At(1).Cancel(ctx) }, 4, 3},
		{"cancel all", func(ctx context.Context, rs *limiter.Reservations) error { return rs.Cancel(ctx) }, 10, 3},
		{"settle one and cancel the rest", func(ctx context.Context, rs *limiter.Reservations) error {
			return errors.Join(rs.At(0).Settle(ctx, 5), rs.Cancel(ctx))
		}, 5, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			limits, tokens, calls, suspended := team(still())
			rs, err := limits.ReserveAll(t.Context(), tokens.N(6), calls, suspended.Checked())
			require.NoError(t, err)
			require.NoError(t, row.settle(t.Context(), rs))
			left := func(l interface {
				Peek(context.Context) (runtime.Balance, error)
			}) int64 {
				b, err := l.Peek(t.Context())
				require.NoError(t, err)
				return b.Remaining
			}
			require.Equal(t, [3]int64{row.tokens, row.calls, 1}, [3]int64{left(tokens), left(calls), left(suspended)})
			require.ErrorIs(t, rs.At(2).Settle(t.Context(), 1), runtime.ErrNotReserved, "a check holds no tokens")
		})
	}
}

func TestReservationsAreCancelledOnce(t *testing.T) {
	limits, tokens, calls, _ := team(still())
	rs, err := limits.ReserveAll(t.Context(), tokens.N(6), calls)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, rs.Cancel(ended), "even if the context has ended")
	require.ErrorIs(t, rs.Cancel(t.Context()), runtime.ErrNotReserved)
	require.Equal(t, 10.0, value(t, tokens))
}

func TestReservationsAreOpenAfterAFailedCancel(t *testing.T) {
	store := &faulty{Store: still()}
	limits, tokens, calls, _ := team(store)
	rs, err := limits.ReserveAll(t.Context(), tokens.N(6), calls)
	require.NoError(t, err)
	store.err = errors.New("the store is gone")
	require.ErrorIs(t, rs.Cancel(t.Context()), store.err)
	store.err = nil
	require.NoError(t, rs.Cancel(t.Context()))
	require.Equal(t, 10.0, value(t, tokens))
}

// While the store fails, a call of limits that fail open passes without it, checks included, and there is nothing to
// refund.
func TestReserveAllFailsOpen(t *testing.T) {
	store := &faulty{Store: still(), err: errors.New("the store is gone")}
	limits, open := limiter.New(store), reservable(10)
	open.OnError = runtime.FailOpen
	other := *bucket("other", 1)
	other.OnError = runtime.FailOpen
	rs, err := limits.ReserveAll(t.Context(), limits.Reservable(open, runtime.Key{}).N(4), limits.Limit(&other, runtime.Key{}).Checked())
	require.NoError(t, err)
	require.True(t, rs.Allowed)
	require.ErrorIs(t, rs.Each[1].FailedOpen, store.err)
	store.err = nil
	require.NoError(t, rs.Cancel(t.Context()))
	require.Equal(t, 10.0, value(t, limits.Reservable(open, runtime.Key{})))

	_, err = limits.ReserveAll(t.Context(), limits.Reservable(open, runtime.Key{}), limits.Limit(&other, runtime.Key{}).CheckedN(2))
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
}

func TestGroupChecksWhatAllowWouldTake(t *testing.T) {
	limits, tokens, calls, suspended := team(still())
	for _, row := range []struct {
		name    string
		items   []limiter.ReserveItem
		allowed bool
		err     error
	}{
		{"all", []limiter.ReserveItem{tokens.N(10), calls, suspended.Checked()}, true, nil},
		{"takes of one key add up", []limiter.ReserveItem{calls.N(2), calls.N(2)}, false, runtime.ErrExceedsCapacity},
		{"checks do not", []limiter.ReserveItem{calls.CheckedN(2), calls.N(2)}, true, nil},
		{"nothing", nil, false, runtime.ErrInvalidCall},
		{"nil", []limiter.ReserveItem{nil}, false, runtime.ErrInvalidCall},
		{"another limiter", []limiter.ReserveItem{limiter.New(still()).Limit(bucket("x", 1), runtime.Key{})}, false, runtime.ErrInvalidCall},
		{"count 0", []limiter.ReserveItem{tokens.CheckedN(0)}, true, nil},
		{"count -1", []limiter.ReserveItem{tokens.CheckedN(-1)}, false, runtime.ErrInvalidCount},
	} {
		t.Run(row.name, func(t *testing.T) {
			ds, err := limits.Group(row.items...).Check(t.Context())
			require.ErrorIs(t, err, row.err)
			require.Equal(t, row.allowed, ds.Allowed)
			ds, err = limits.Group(row.items...).Allow(t.Context())
			require.ErrorIs(t, err, row.err)
			require.Equal(t, row.allowed, ds.Allowed)
			require.NoError(t, errors.Join(tokens.Reset(t.Context()), calls.Reset(t.Context())))
		})
	}
}

func TestGroupRequireReturnsTheLongestDenial(t *testing.T) {
	limits, tokens, calls, suspended := team(still())
	require.NoError(t, errors.Join(suspended.Require(t.Context()), calls.RequireN(t.Context(), 3)))
	err := limits.Group(tokens, calls.N(2), suspended.Checked()).Require(t.Context())
	limited := new(runtime.LimitedError)
	require.ErrorAs(t, err, &limited)
	require.Equal(t, "calls", limited.Limit)
	require.Equal(t, 2*time.Second, limited.RetryAfter)
}

func TestReserveOnlyLimitsCanBeReservedTogether(t *testing.T) {
	limits, tokens, _, _ := team(still())
	crawl := limits.ReserveOnly(&runtime.Policy{Name: "crawl", Kind: runtime.TokenBucket, Rate: 2, Period: time.Second, MaxReserved: 10}, runtime.Key{})
	rs, err := limits.ReserveAll(t.Context(), tokens, crawl, crawl.N(2))
	require.NoError(t, err)
	require.Equal(t, 500*time.Millisecond, rs.At(1).Delay())
	require.Equal(t, 1500*time.Millisecond, rs.Delay(), "the sum of both")
	_, err = limits.Group(tokens, crawl).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
}

func TestGroupWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, tokens, calls, suspended := team(&memstore.Store{})
		g := limits.Group(tokens.N(10), calls, suspended.Checked())
		wait := func() { require.NoError(t, g.Wait(t.Context())) }
		require.Zero(t, elapsed(wait))
		require.Equal(t, 10*time.Second, elapsed(wait), "tokens are reserved")
		require.NoError(t, suspended.Require(t.Context()))
		require.NoError(t, tokens.Reset(t.Context()))
		require.Equal(t, time.Second, elapsed(wait), "the check passes again")

		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		before := value(t, tokens)
		require.Zero(t, elapsed(func() {
			err := g.Wait(ctx)
			require.ErrorIs(t, err, runtime.ErrLimited)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}))
		require.Equal(t, before, value(t, tokens), "nothing was taken")
	})
}

func TestGroupWaitRefundsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, tokens, calls, _ := team(&memstore.Store{})
		require.NoError(t, tokens.RequireN(t.Context(), 10))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		require.ErrorIs(t, limits.Group(tokens.N(5), calls).Wait(ctx), context.Canceled)
		require.InDelta(t, 2, value(t, tokens), 1e-6)
		b, err := calls.Peek(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3, b.Remaining)
	})
}

// Waiters of one group take turns, and do not keep callers of a single limit of it from its tokens.
func TestGroupWaitersDoNotBlockSingleLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: &memstore.Store{}}
		limits := limiter.New(store)
		slow := &runtime.Policy{Name: "slow", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1}
		a, b := limits.Limit(bucket("a", 1), runtime.Key{}), limits.Limit(slow, runtime.Key{})
		require.NoError(t, b.Require(t.Context()))
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { require.NoError(t, limits.Group(a, b).Wait(t.Context())) })
		}
		synctest.Wait()
		require.NoError(t, a.Require(t.Context()))
		require.Equal(t, time.Second, elapsed(func() { require.NoError(t, a.Wait(t.Context())) }))
		all.Wait()
		require.Less(t, store.calls.Load(), int64(60), "one waiter at a time retries")
	})
}

// use is a number of tokens in use from an instant on.
type use struct {
	at     int64
	tokens float64
	// settled means that the tokens are the use beyond a reservation, which is charged in any case: it counts for the
	// requests after it. Instead, tokens of a reservation may have been refunded at that instant.
	settled  bool
	refunded float64
}

// requireSettledBound requires that no request was admitted beyond the bound of its limit, in any interval that ends with
// it. A refund may be too large by the tokens that others have refunded meanwhile: see [runtime.Request.Missing].
func requireSettledBound(t *testing.T, p *runtime.Policy, uses []use, overlapping bool) {
	t.Helper()
	for from := range uses {
		sum, most := 0.0, float64(p.Capacity)+float64(p.MaxReserved)
		for _, u := range uses[from:] {
			sum += u.tokens
			if overlapping && p.Reserves() {
				most += u.refunded
			}
			periods := float64(u.at-uses[from].at) / float64(p.Period)
			switch {
			case p.Kind == runtime.FixedWindow && p.Start.FirstUse():
				periods++
			case p.Kind == runtime.FixedWindow:
				periods = float64((u.at-uses[from].at)/int64(p.Period) + 1)
			}
			if !u.settled {
				require.LessOrEqual(t, sum, (most+periods*float64(p.Rate))*(1+1e-12)+1e-5, "%+v", *p)
			}
		}
	}
}

// Random groups are reserved, settled for less, for more, limit by limit, and cancelled, while windows end in between. A
// denied group changes no row, and no limit admits more than its bound.
func TestGroupsNeverPassTheBounds(t *testing.T) {
	for name, most := range map[string]int{"one reservation at a time": 1, "many": traceSteps} {
		t.Run(name, func(t *testing.T) { traceGroups(t, roll(47), most) })
	}
}

// traceGroups makes random requests, with a number of reservations open at a time.
func traceGroups(t *testing.T, d dice, most int) {
	for range randomSteps() / traceSteps / 4 {
		now := epoch
		store := clocked(&now)
		limits := limiter.New(store)
		policies := make([]*runtime.Policy, 3)
		items := make([]limiter.ReservableLimit, len(policies))
		uses := make([][]use, len(policies))
		for i := range policies {
			p := d.policyOf(t, pick[int64](d, 1, 3, 10, 97))
			p.Calendar = runtime.Calendar{}
			p.Name, p.Period = string(rune('a'+i)), pick(d, time.Second, time.Minute, 90*time.Second)
			if p.MaxReserved == runtime.Unbounded {
				p.MaxReserved = 2 * p.Rate
			}
			policies[i], items[i] = &p, limits.Reservable(&p, runtime.Key{})
		}
		values := func() (all [3]float64) {
			for i := range items {
				all[i] = value(t, items[i])
			}
			return all
		}
		type held struct {
			rs     *limiter.Reservations
			counts [3]int64
			uses   [3]int
		}
		var open []held
		for range traceSteps {
			if len(open) == most || len(open) > 0 && d.IntN(2) == 0 {
				at := d.IntN(len(open))
				h := open[at]
				open = append(open[:at], open[at+1:]...)
				cancelled := d.IntN(4) == 0
				for i, n := range h.counts {
					if n == 0 {
						continue
					}
					used := pick(d, 0, d.Int64N(n+1), n, n+d.Int64N(2*n+1))
					if policies[i].Kind.Windowed() {
						// A use beyond what can be reserved is forgotten with its window.
						used = min(used, n)
					}
					if cancelled {
						used = 0
					} else {
						require.NoError(t, h.rs.At(i).Settle(t.Context(), used))
					}
					uses[i][h.uses[i]].tokens = float64(min(used, n))
					uses[i] = append(uses[i], use{at: now.UnixNano(), tokens: float64(max(0, used-n)), settled: true,
						refunded: float64(max(0, n-used))})
				}
				if cancelled {
					require.NoError(t, h.rs.Cancel(t.Context()))
				}
			} else {
				before := values()
				h := held{}
				group := make([]limiter.ReserveItem, len(items))
				for i, p := range policies {
					if i > 0 && d.IntN(4) == 0 && p.Capacity > 0 {
						group[i] = items[i].CheckedN(d.count(p.Capacity))
						continue
					}
					h.counts[i] = min(d.count(p.Capacity), p.Capacity+p.MaxReserved)
					group[i] = items[i].N(h.counts[i])
				}
				rs, err := limits.ReserveAll(t.Context(), group...)
				require.NoError(t, err)
				if !rs.Allowed {
					require.Equal(t, before, values(), "a denied group changes no row")
				} else {
					h.rs = rs
					for i, n := range h.counts {
						h.uses[i] = len(uses[i])
						if n > 0 {
							uses[i] = append(uses[i], use{at: now.UnixNano(), tokens: float64(n)})
						}
					}
					open = append(open, h)
				}
			}
			now = now.Add(max(0, d.jump(*policies[0])))
		}
		for i, p := range policies {
			requireSettledBound(t, p, uses[i], most > 1)
		}
	}
}

// The error of a call of thousands of limits names some of them, each once.
func TestErrorsOfLargeCallsAreShort(t *testing.T) {
	for _, row := range []struct {
		limits int
		names  string
	}{
		{1, `"limit 0"`},
		{5, `"limit 0", "limit 1", "limit 2", "limit 3", "limit 4"`},
		{2000, `"limit 0", "limit 1", "limit 2", "limit 3", "limit 4" and 1995 more`},
	} {
		store := &faulty{Store: still()}
		limits := limiter.New(store)
		items := make([]limiter.ReserveItem, max(10, row.limits))
		for i := range items {
			items[i] = limits.Limit(bucket(fmt.Sprintf("limit %d", i%row.limits), 10), runtime.KeyOf(runtime.Int(i)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := limits.ReserveAll(ctx, items...)
		require.EqualError(t, err, "limit "+row.names+": context canceled")
		rs, err := limits.ReserveAll(t.Context(), items...)
		require.NoError(t, err)
		require.NoError(t, rs.Err())
		require.NoError(t, rs.Cancel(t.Context()))
		require.EqualError(t, rs.Cancel(t.Context()), "limit "+row.names+": "+runtime.ErrNotReserved.Error())
	}
	limits := limiter.New(still())
	var items []limiter.Item
	for i := range 8 {
		p := bucket(fmt.Sprintf("limit %d", i), 10)
		p.Mode = runtime.ModeBlock
		items = append(items, limits.Limit(p, runtime.Key{}))
	}
	ds, err := limits.All(t.Context(), items...)
	require.NoError(t, err)
	require.Equal(t, `denied by "limit 0" and "limit 1" and "limit 2" and "limit 3" and "limit 4" and 3 more, no retry passes`, ds.String())
	require.Len(t, ds.DeniedBy(), 8)
	var limited *runtime.LimitedError
	require.ErrorAs(t, ds.Err(), &limited)
	require.Equal(t, runtime.Never, limited.RetryAfter)
	require.NoError(t, runtime.Decision{Allowed: true}.Err())
	require.ErrorIs(t, runtime.Decision{}.Err(), runtime.ErrLimited)
	require.ErrorIs(t, limiter.Decisions{}.Err(), runtime.ErrLimited)
}
