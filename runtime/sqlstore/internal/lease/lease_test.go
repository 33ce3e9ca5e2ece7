package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/denycache"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
		return lease.New(&runtime.MemStore{Clock: clock}, clock)
	})
}

// slow is a store that takes a millisecond, counts how often it is asked, and can fail.
type slow struct {
	runtime.MemStore
	mu    sync.Mutex
	asked int
	err   error
}

func (s *slow) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	s.asked++
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.MemStore.Do(ctx, calls)
}

// leased returns a limit of 100 tokens, of which one comes back a second, taken in blocks of ten that may be
// spent for a second.
func leased(kind runtime.Kind) *runtime.Policy {
	return &runtime.Policy{
		Name: "leased", Kind: kind, Rate: 100, Period: 100 * time.Second, Capacity: 100,
		Lease: runtime.Lease{Tokens: 10, For: time.Second},
	}
}

// process is one of several with a lease on the same store.
type process struct {
	store *lease.Store
	limit runtime.Limit
}

func newProcess(behind runtime.Store, p *runtime.Policy) process {
	s := lease.New(behind, nil)
	return process{s, runtime.NewLimiter(s).Limit(p, runtime.Key{})}
}

func (p process) take(t *testing.T, n int64) bool {
	t.Helper()
	d, err := p.limit.AllowN(t.Context(), n)
	require.NoError(t, err)
	return d.Allowed
}

// left returns how many tokens a store has that nobody has leased.
func left(t *testing.T, store runtime.Store, p *runtime.Policy) float64 {
	t.Helper()
	b, err := runtime.NewLimiter(store).Limit(p, runtime.Key{}).Peek(t.Context())
	require.NoError(t, err)
	return b.Value
}

func TestABlockIsSpentWithoutAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &slow{}
		p := newProcess(behind, leased(runtime.TokenBucket))
		for i := range 10 {
			d, err := p.limit.Allow(t.Context())
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, int64(9-i), d.Remaining, "of the block")
		}
		require.Equal(t, 1, behind.asked)
		require.True(t, p.take(t, 3))
		require.Equal(t, 2, behind.asked, "a second block")
		require.True(t, p.take(t, 20), "more than a block has is not leased")
		require.Equal(t, 3, behind.asked)
		require.NoError(t, p.store.Close())
	})
}

func TestWhatIsLeftGoesBack(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.Rate = 1 // next to nothing comes back by itself
	for name, row := range map[string]struct {
		then func(t *testing.T, p process)
		left float64
	}{
		"at the end of the block": {func(*testing.T, process) { time.Sleep(2 * time.Second) }, 97},
		"when the store closes":   {func(t *testing.T, p process) { p.store.Close() }, 97},
		"with the next block":     {func(t *testing.T, p process) { p.take(t, 8); p.store.Close() }, 89},
		"when it was reset, not":  {func(t *testing.T, p process) { p.limit.Reset(t.Context()); p.store.Close() }, 100},
		"when it was killed, not": {func(*testing.T, process) {}, 90},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := &runtime.MemStore{}
				p := newProcess(behind, policy)
				require.True(t, p.take(t, 3))
				row.then(t, p)
				synctest.Wait()
				require.InDelta(t, row.left, left(t, behind, policy), 0.1)
				p.store.Close()
			})
		})
	}
}

// TestBlocksDoNotPileUp has many processes hold blocks of which they spend little. While they hold them, the bucket
// fills up again: if all that was left came back, more and more would be out at once.
func TestBlocksDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := leased(runtime.TokenBucket)
		policy.Rate, policy.Period, policy.Capacity, policy.Lease.Tokens = 100, time.Second, 1000, 100
		behind := &runtime.MemStore{}
		var processes []process
		for range 50 {
			processes = append(processes, newProcess(behind, policy))
		}
		for i := range 60 * len(processes) {
			require.True(t, processes[i%len(processes)].take(t, 1), "half of what the limit grants")
			time.Sleep(time.Second / time.Duration(len(processes)))
		}
		burst := 0
		for _, p := range processes {
			for p.take(t, 1) {
				burst++
			}
			require.NoError(t, p.store.Close())
		}
		require.LessOrEqual(t, burst, 1000+100, "at one instant: the capacity, and the rate while a block is held")
	})
}

// TestTheProcessSeesItsOwnBlock asks for what is in the block, and for what is in it and in the store behind.
func TestTheProcessSeesItsOwnBlock(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.Rate, policy.Capacity, policy.MaxReserved = 1, 20, 5
	other := bucketOf("other")
	for name, ask := range map[string]func(t *testing.T, s *lease.Store, l runtime.ReservableLimit){
		"check": func(t *testing.T, s *lease.Store, l runtime.ReservableLimit) {
			d, err := l.CheckN(t.Context(), 9)
			require.NoError(t, err)
			require.True(t, d.Allowed, "all of the block")
			d, err = l.CheckN(t.Context(), 19)
			require.NoError(t, err)
			require.True(t, d.Allowed, "and all that is behind it")
		},
		"peek": func(t *testing.T, s *lease.Store, l runtime.ReservableLimit) {
			b, err := l.Peek(t.Context())
			require.NoError(t, err)
			require.Equal(t, int64(19), b.Remaining)
		},
		"more than a block": func(t *testing.T, s *lease.Store, l runtime.ReservableLimit) {
			require.NoError(t, l.RequireN(t.Context(), 19))
		},
		"reserve": func(t *testing.T, s *lease.Store, l runtime.ReservableLimit) {
			r, err := l.ReserveN(t.Context(), 19)
			require.NoError(t, err)
			require.Zero(t, r.Delay())
		},
		"several": func(t *testing.T, s *lease.Store, l runtime.ReservableLimit) {
			limiter := runtime.NewLimiter(s)
			ds, err := limiter.All(t.Context(), limiter.Limit(policy, runtime.Key{}).N(19), limiter.Limit(other, runtime.Key{}).N(1))
			require.NoError(t, err)
			require.True(t, ds.Allowed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lease.New(&runtime.MemStore{}, nil)
				l := runtime.NewLimiter(s).Reservable(policy, runtime.Key{})
				require.NoError(t, l.Require(t.Context()), "9 of 20 are left in the block, 10 behind it")
				ask(t, s, l)
				require.NoError(t, s.Close())
			})
		})
	}
}

// bucketOf returns a limit without a lease.
func bucketOf(name string) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 10}
}

func TestProcessesTogetherGrantNoMoreThanTheLimit(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		for _, shards := range []int{1, 4} {
			synctest.Test(t, func(t *testing.T) {
				policy := leased(kind)
				policy.Rate, policy.Capacity, policy.Shards, policy.Period = 1000, 1000, shards, runtime.MaxPeriod
				granted := sprint(t, &slow{}, policy, 4, 40)
				require.Equal(t, 1000, granted, "%v: exactly what there is", kind)
			})
		}
	}
}

// sprint has goroutines of several processes take what they can in a second, one token at a time, and returns
// how many they have got.
func sprint(t *testing.T, behind runtime.Store, policy *runtime.Policy, processes, goroutines int) int {
	var mu sync.Mutex
	var all sync.WaitGroup
	granted := 0
	for range processes {
		p := newProcess(behind, policy)
		defer p.store.Close()
		for range goroutines {
			all.Go(func() {
				for range 100 {
					ok := p.take(t, 1)
					mu.Lock()
					if ok {
						granted++
					}
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
	}
	all.Wait()
	return granted
}

// use is tokens that were granted at an instant.
type use struct {
	at time.Time
	n  int64
}

// wander has three processes take at random for a while, and returns what they were granted.
func wander(t *testing.T, policy *runtime.Policy, seed uint64) []use {
	behind := &runtime.MemStore{}
	processes := make([]process, 3)
	for i := range processes {
		processes[i] = newProcess(behind, policy)
		defer processes[i].store.Close()
	}
	d := rand.New(rand.NewPCG(seed, 1))
	var used []use
	for range 2000 {
		n := 1 + d.Int64N(4)
		if processes[d.IntN(3)].take(t, n) {
			used = append(used, use{time.Now(), n})
		}
		time.Sleep(time.Duration(d.ExpFloat64() * float64(200*time.Millisecond)))
	}
	return used
}

func TestTheBoundOfALeasedBucketHolds(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			policy := leased(runtime.TokenBucket)
			policy.Capacity = 10 + int64(seed)
			used := wander(t, policy, seed)
			rate, tightest := float64(policy.Rate)/policy.Period.Seconds(), 1e9
			for i := range used {
				sum := int64(0)
				for _, u := range used[i:] {
					sum += u.n
					bound := float64(policy.Capacity) + rate*(u.at.Sub(used[i].at)+policy.Lease.For).Seconds()
					tightest = min(tightest, bound-float64(sum))
				}
			}
			require.GreaterOrEqual(t, tightest, -1e-6)
			require.Less(t, tightest, 10.0, "the trace comes near the bound")
		})
	}
}

func TestAWindowsTokensAreNotSpentInTheNext(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			policy := leased(runtime.FixedWindow)
			policy.Rate, policy.Capacity, policy.Period, policy.Start = 20, 20, 10*time.Second, runtime.StartOffset(0)
			policy.Lease.For = 7 * time.Second
			perWindow, full := map[time.Time]int64{}, 0
			for _, u := range wander(t, policy, seed) {
				perWindow[u.at.Truncate(policy.Period)] += u.n
			}
			for window, n := range perWindow {
				require.LessOrEqual(t, n, policy.Capacity, "window %v", window)
				if n == policy.Capacity {
					full++
				}
			}
			require.Positive(t, full)
		})
	}
}

func TestNothingGoesBackToTheNextWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := leased(runtime.FixedWindow)
		policy.Rate, policy.Capacity, policy.Period, policy.Start = 20, 20, 10*time.Second, runtime.StartOffset(0)
		behind := &runtime.MemStore{}
		time.Sleep(9500 * time.Millisecond)
		p, other := newProcess(behind, policy), newProcess(behind, policy)
		require.True(t, p.take(t, 1))
		time.Sleep(500*time.Millisecond - 1)
		require.True(t, other.take(t, 1), "a block of one nanosecond")
		time.Sleep(time.Nanosecond)
		require.True(t, other.take(t, 20))
		synctest.Wait()
		require.Equal(t, 0.0, left(t, behind, policy))
		require.NoError(t, errors.Join(p.store.Close(), other.store.Close()))
	})
}

func TestOneBlockIsTakenForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &slow{}
		p := newProcess(behind, leased(runtime.TokenBucket))
		defer p.store.Close()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { p.take(t, 1) })
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		_, err := p.limit.Allow(gone)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody waits longer than the context")
		all.Wait()
		require.Equal(t, 1, behind.asked)
	})
}

func TestAnErrorOfTheStoreIsEverybodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &slow{err: errors.New("the server is down")}
		p := newProcess(behind, leased(runtime.TokenBucket))
		defer p.store.Close()
		_, err := p.limit.Allow(t.Context())
		require.ErrorIs(t, err, behind.err)
		behind.err = nil
		require.True(t, p.take(t, 1), "the next one tries again")
	})
}

func TestWithoutEnoughForABlockRequestsGoOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind, policy := &slow{}, leased(runtime.TokenBucket)
		policy.Capacity = 15
		p := newProcess(behind, policy)
		defer p.store.Close()
		for range 15 {
			require.True(t, p.take(t, 1))
		}
		require.Equal(t, 1+1+5, behind.asked, "a block, one that was not to be had, and five requests")
		d, err := p.limit.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
		time.Sleep(d.RetryAfter)
		require.True(t, p.take(t, 1), "RetryAfter is that of the request, not of a block")
	})
}

func TestABlockFromBeforeAResetIsNotSpentAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind, policy := &slow{}, leased(runtime.TokenBucket)
		policy.Rate = 1
		p := newProcess(behind, policy)
		gone, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		_, err := p.limit.Allow(gone)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the block is still under way")
		require.NoError(t, p.limit.Reset(t.Context()))
		for range 100 {
			require.True(t, p.take(t, 1))
		}
		require.False(t, p.take(t, 1), "100 tokens, and none of the block")

		var all sync.WaitGroup
		all.Go(func() { require.NoError(t, p.limit.Reset(t.Context())) })
		time.Sleep(time.Microsecond)
		require.True(t, p.take(t, 1), "while a reset is under way there is no block")
		all.Wait()
		require.InDelta(t, 99, left(t, behind, policy), 0.1)
		require.NoError(t, p.store.Close())
	})
}

func TestNobodyWaitsLongerToResetThanTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &slow{}
		p := newProcess(behind, leased(runtime.TokenBucket))
		var all sync.WaitGroup
		all.Go(func() { p.take(t, 1) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		require.ErrorIs(t, p.limit.Reset(ctx), context.DeadlineExceeded)
		all.Wait()
		require.True(t, p.take(t, 9), "nothing was reset: the block is there")
		require.Equal(t, 1, behind.asked)
		require.NoError(t, p.store.Close())
	})
}

func TestQuestionsThatAreNotLeased(t *testing.T) {
	behind := &slow{}
	policy := leased(runtime.TokenBucket)
	s := lease.New(behind, nil)
	limiter := runtime.NewLimiter(s)
	l := limiter.Limit(policy, runtime.Key{})
	_, err := limiter.WithTx(nil).Limit(policy, runtime.Key{}).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrNoTx)
	_, err = l.AllowN(t.Context(), 0)
	require.ErrorIs(t, err, runtime.ErrInvalidCount)
	_, err = l.AllowN(t.Context(), 101)
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
	ds, err := limiter.All(t.Context(), l, l.N(2))
	require.NoError(t, err)
	require.True(t, ds.Allowed)
	require.InDelta(t, 97, left(t, behind, policy), 0.1, "several at once are taken from the store")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Allow(ended)
	require.ErrorIs(t, err, context.Canceled)
}

func TestUnknownOpIsAnErrorOfAllDecorators(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.DenyCache, policy.OnError = time.Second, runtime.FailOpen
	store := lease.New(denycache.New(group.New(&runtime.MemStore{}, group.Options{}), nil), nil)
	q := runtime.Request{Policy: policy, Op: runtime.Reset + 1, Count: 1}
	answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
	require.NoError(t, err)
	require.ErrorIs(t, answers[0].Err, runtime.ErrInvalidCall)
}

func TestLeasedTakesDoNotAllocate(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.Rate, policy.Capacity, policy.Lease = 1_000_000, 1_000_000, runtime.Lease{Tokens: 100_000, For: time.Hour}
	p := newProcess(&runtime.MemStore{}, policy)
	defer p.store.Close()
	require.True(t, p.take(t, 1))
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(1000, func() { p.limit.Allow(ctx) }))
}

func BenchmarkSpend(b *testing.B) {
	policy := leased(runtime.TokenBucket)
	policy.Rate, policy.Capacity = runtime.MaxTokens, runtime.MaxTokens
	policy.Lease = runtime.Lease{Tokens: 1_000_000_000, For: time.Minute}
	p := newProcess(&runtime.MemStore{}, policy)
	defer p.store.Close()
	b.ReportAllocs()
	for b.Loop() {
		p.limit.Allow(b.Context())
	}
}

// slowRefund is a store that takes its time for what gives back.
type slowRefund struct{ runtime.MemStore }

func (s *slowRefund) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if calls[0].Requests[0].Op == runtime.Refund {
		time.Sleep(5 * time.Second)
	}
	return s.MemStore.Do(ctx, calls)
}

// TestNothingComesBackAfterAReset resets a key while its block is on the way back: because it has ended, or because
// more was asked for than it had.
func TestNothingComesBackAfterAReset(t *testing.T) {
	for name, giveBack := range map[string]func(p process){
		"it has ended":       func(p process) { time.Sleep(2 * time.Second) },
		"more was asked for": func(p process) { go p.limit.AllowN(context.Background(), 20) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := leased(runtime.TokenBucket)
				policy.Rate = 1
				behind := &slowRefund{}
				p := newProcess(behind, policy)
				require.True(t, p.take(t, 1))
				giveBack(p)
				synctest.Wait()
				require.NoError(t, p.limit.Reset(t.Context()))
				others := newProcess(behind, policy)
				for range 100 {
					require.True(t, others.take(t, 1))
				}
				time.Sleep(2 * time.Minute)
				require.False(t, others.take(t, 5), "100 tokens since the reset, and what has accrued")
				require.NoError(t, errors.Join(p.store.Close(), others.store.Close()))
			})
		})
	}
}

// TestCloseAmidCalls closes a store while others ask for more than their blocks have, and reset their keys.
func TestCloseAmidCalls(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.Rate, policy.Capacity = 1_000_000, 1_000_000
	for range 20 {
		s := lease.New(&runtime.MemStore{}, nil)
		limiter := runtime.NewLimiter(s)
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 200 {
					limit := limiter.Limit(policy, runtime.KeyOf(runtime.Int(100*g+i%20)))
					require.NoError(t, limit.Require(t.Context()))
					require.NoError(t, limit.RequireN(t.Context(), 20))
					require.NoError(t, limit.Reset(t.Context()))
				}
			})
		}
		require.NoError(t, s.Close())
		all.Wait()
		require.NoError(t, s.Close())
	}
}
