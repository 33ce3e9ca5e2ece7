package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
		return lease.New(&memstore.Store{Clock: clock}, clock)
	})
}

// slow is a store that takes a millisecond, counts its calls, and can fail.
type slow struct {
	memstore.Store
	mu     sync.Mutex
	called int
	err    error
}

func (s *slow) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	s.called++
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Store.Do(ctx, calls)
}

// leased returns a limit of 100 tokens, which accrue at one a second, with blocks of 10 tokens for a second.
func leased(kind runtime.Kind) *runtime.Policy {
	return &runtime.Policy{
		Name: "leased", Kind: kind, Rate: 100, Period: 100 * time.Second, Capacity: 100,
		Lease: runtime.Lease{Tokens: 10, For: time.Second},
	}
}

// process is one of several processes that take blocks from the same backend.
type process struct {
	store *lease.Store
	limit limiter.Limit
}

func newProcess(backend runtime.Store, p *runtime.Policy) process {
	s := lease.New(backend, nil)
	return process{s, limiter.New(s).Limit(p, runtime.Key{})}
}

func (p process) close() error { return shutdown(p.store) }

func shutdown(s *lease.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.Shutdown(ctx)
}

func (p process) take(t *testing.T, n int64) bool {
	t.Helper()
	d, err := p.limit.AllowN(t.Context(), n)
	require.NoError(t, err)
	return d.Allowed
}

// left returns how many tokens the backend has, without those in blocks.
func left(t *testing.T, store runtime.Store, p *runtime.Policy) float64 {
	t.Helper()
	b, err := limiter.New(store).Limit(p, runtime.Key{}).Peek(t.Context())
	require.NoError(t, err)
	return b.Value
}

func TestBlockIsSpentWithoutCallingTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{}
		p := newProcess(backend, leased(runtime.TokenBucket))
		for i := range 10 {
			d, err := p.limit.Allow(t.Context())
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, int64(9-i), d.Remaining, "the rest of the block")
		}
		require.Equal(t, 1, backend.called)
		require.True(t, p.take(t, 3))
		require.Equal(t, 2, backend.called, "a second block")
		require.True(t, p.take(t, 20), "a count above the block size is not leased")
		require.Equal(t, 3, backend.called)
		require.NoError(t, p.close())
	})
}

func TestRestOfABlockIsRefunded(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.Rate = 1 // next to nothing accrues
	for name, row := range map[string]struct {
		then func(t *testing.T, p process)
		left float64
	}{
		"at the end of the block":      {func(*testing.T, process) { time.Sleep(2 * time.Second) }, 97},
		"at Shutdown":                  {func(t *testing.T, p process) { p.close() }, 97},
		"with the next block":          {func(t *testing.T, p process) { p.take(t, 8); p.close() }, 89},
		"not after a reset":            {func(t *testing.T, p process) { p.limit.Reset(t.Context()); p.close() }, 100},
		"not if the process is killed": {func(*testing.T, process) {}, 90},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := &memstore.Store{}
				p := newProcess(backend, policy)
				require.True(t, p.take(t, 3))
				row.then(t, p)
				synctest.Wait()
				require.InDelta(t, row.left, left(t, backend, policy), 0.1)
				p.close()
			})
		})
	}
}

// Requests need the tokens of the block, or of the block and the row.
func TestRequestsCanUseTheBlockOfTheirProcess(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.Rate, policy.Capacity, policy.MaxReserved = 1, 20, 5
	other := bucketOf("other")
	for name, request := range map[string]func(t *testing.T, s *lease.Store, l limiter.ReservableLimit){
		"check": func(t *testing.T, s *lease.Store, l limiter.ReservableLimit) {
			d, err := l.CheckN(t.Context(), 9)
			require.NoError(t, err)
			require.True(t, d.Allowed, "the whole block")
			d, err = l.CheckN(t.Context(), 19)
			require.NoError(t, err)
			require.True(t, d.Allowed, "the block and the row")
		},
		"peek": func(t *testing.T, s *lease.Store, l limiter.ReservableLimit) {
			b, err := l.Peek(t.Context())
			require.NoError(t, err)
			require.Equal(t, int64(19), b.Remaining)
		},
		"more than a block": func(t *testing.T, s *lease.Store, l limiter.ReservableLimit) {
			require.NoError(t, l.RequireN(t.Context(), 19))
		},
		"reserve": func(t *testing.T, s *lease.Store, l limiter.ReservableLimit) {
			r, err := l.ReserveN(t.Context(), 19)
			require.NoError(t, err)
			require.Zero(t, r.Delay())
		},
		"several": func(t *testing.T, s *lease.Store, l limiter.ReservableLimit) {
			limits := limiter.New(s)
			ds, err := limits.All(t.Context(), limits.Limit(policy, runtime.Key{}).N(19), limits.Limit(other, runtime.Key{}).N(1))
			require.NoError(t, err)
			require.True(t, ds.Allowed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lease.New(&memstore.Store{}, nil)
				l := limiter.New(s).Reservable(policy, runtime.Key{})
				require.NoError(t, l.Require(t.Context()), "9 of 20 are left in the block, 10 in the row")
				request(t, s, l)
				require.NoError(t, shutdown(s))
			})
		})
	}
}

// bucketOf returns a limit without a lease.
func bucketOf(name string) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 10}
}

// A block of 10 is used when it is taken, so that the first request of the eighth one crosses 80 of 100.
func TestBlockThatCrossesAThresholdIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := leased(runtime.FixedWindow)
		policy.Period, policy.Warn = runtime.MaxPeriod, runtime.Thresholds{80, 100}
		p := newProcess(&memstore.Store{}, policy)
		defer p.close()
		crossed := map[int]uint8{}
		for i := range 110 {
			d, err := p.limit.Allow(t.Context())
			require.NoError(t, err)
			if d.Crossed > 0 {
				crossed[i] = d.Crossed
			}
		}
		require.Equal(t, map[int]uint8{70: 80, 90: 100}, crossed)
	})
}

func TestConcurrentCallersShareOneBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{}
		p := newProcess(backend, leased(runtime.TokenBucket))
		defer p.close()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { p.take(t, 1) })
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		_, err := p.limit.Allow(gone)
		require.ErrorIs(t, err, context.DeadlineExceeded, "a caller waits no longer than its context")
		all.Wait()
		require.Equal(t, 1, backend.called)
	})
}

func TestFailedBlockIsAnErrorAndTheNextCallTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{err: errors.New("the server is down")}
		p := newProcess(backend, leased(runtime.TokenBucket))
		defer p.close()
		_, err := p.limit.Allow(t.Context())
		require.ErrorIs(t, err, backend.err)
		backend.err = nil
		require.True(t, p.take(t, 1), "the next one tries again")
	})
}

func TestLeaseTooSmallFallsBackToStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, policy := &slow{}, leased(runtime.TokenBucket)
		policy.Capacity = 15
		p := newProcess(backend, policy)
		defer p.close()
		for range 15 {
			require.True(t, p.take(t, 1))
		}
		require.Equal(t, 1+1+5, backend.called, "a block, another that was denied, and five requests")
		d, err := p.limit.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
		time.Sleep(d.RetryAfter)
		require.True(t, p.take(t, 1), "RetryAfter is that of the request, not of a block")
	})
}

func TestRequestsThatCannotBeLeasedGoToTheBackend(t *testing.T) {
	backend := &slow{}
	policy := leased(runtime.TokenBucket)
	s := lease.New(backend, nil)
	limits := limiter.New(s)
	l := limits.Limit(policy, runtime.Key{})
	_, err := limits.WithTx(nil).Limit(policy, runtime.Key{}).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrNoTx)
	_, err = l.AllowN(t.Context(), -1)
	require.ErrorIs(t, err, runtime.ErrInvalidCount)
	_, err = l.AllowN(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, 100.0, left(t, backend, policy), "no block is taken for 0 tokens")
	_, err = l.AllowN(t.Context(), 101)
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
	ds, err := limits.All(t.Context(), l, l.N(2))
	require.NoError(t, err)
	require.True(t, ds.Allowed)
	require.InDelta(t, 97, left(t, backend, policy), 0.1, "a call with several requests is taken from the row")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Allow(ended)
	require.ErrorIs(t, err, context.Canceled)
}

func TestLeasedTakesDoNotAllocate(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.Rate, policy.Capacity, policy.Lease = 1_000_000, 1_000_000, runtime.Lease{Tokens: 100_000, For: time.Hour}
	p := newProcess(&memstore.Store{}, policy)
	defer p.close()
	require.True(t, p.take(t, 1))
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(1000, func() { p.limit.Allow(ctx) }))
}

func BenchmarkSpend(b *testing.B) {
	policy := leased(runtime.TokenBucket)
	policy.Rate, policy.Capacity = runtime.MaxTokens, runtime.MaxTokens
	policy.Lease = runtime.Lease{Tokens: 1_000_000_000, For: time.Minute}
	p := newProcess(&memstore.Store{}, policy)
	defer p.close()
	b.ReportAllocs()
	for b.Loop() {
		p.limit.Allow(b.Context())
	}
}

// Leased tokens of a key do not hide that a request lacks what the limit's calendar needs, or has a zone that none can have.
func TestLeasedTokensNeedTheZoneOfTheKey(t *testing.T) {
	p := leased(runtime.FixedWindow)
	p.Calendar = runtime.Calendar{Unit: runtime.Month, ZonePerKey: true}
	p.Period = p.Calendar.Period()
	require.NoError(t, p.Validate())
	limits, key := limiter.New(lease.New(&memstore.Store{}, nil)), runtime.KeyOf(runtime.Int(1))
	for range 3 {
		d, err := limits.Limit(p, key.In(time.UTC)).Allow(t.Context())
		require.NoError(t, err)
		require.True(t, d.Allowed)
		for name, key := range map[string]runtime.Key{
			"no zone": key, "a nil zone": key.In(nil), "a zone too far": key.In(time.FixedZone("", 57_601)),
		} {
			require.ErrorIs(t, limits.Limit(p, key).Require(t.Context()), runtime.ErrInvalidKey, name)
		}
	}
}

// A block answers no request that the row would refuse, whatever the operation.
func TestBlockAnswersNoRequestThatIsRefused(t *testing.T) {
	bucket, window := leased(runtime.TokenBucket), leased(runtime.FixedWindow)
	window.Calendar = runtime.Calendar{Unit: runtime.Month, ZonePerKey: true}
	window.Period = window.Calendar.Period()
	refused := 0
	for _, p := range []*runtime.Policy{bucket, window} {
		ask := func(store runtime.Store, q runtime.Request) string {
			answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
			require.NoError(t, err)
			if answers[0].Err == nil {
				return ""
			}
			return answers[0].Err.Error()
		}
		for _, op := range append(runtime.Ops(), 200) {
			for _, count := range []int64{-1, 0, 1, p.Lease.Tokens, p.Lease.Tokens + 1, p.Capacity, p.Capacity + 1, 3 * runtime.MaxTokens} {
				for _, reserve := range []bool{false, true} {
					for _, zone := range []*time.Location{time.UTC, nil, time.FixedZone("", 57_601)} {
						store := lease.New(&memstore.Store{}, nil)
						require.Empty(t, ask(store, runtime.Request{Policy: p, Key: "k", Count: 1, Zone: time.UTC}), "a block")
						q := runtime.Request{Policy: p, Key: "k", Op: op, Count: count, Reserve: reserve, Zone: zone}
						want := ask(&memstore.Store{}, q)
						require.Equal(t, want, ask(store, q), "%+v", q)
						if want != "" {
							refused++
						}
						require.NoError(t, shutdown(store))
					}
				}
			}
		}
	}
	require.Greater(t, refused, 100)
}

// A leased token cannot be refunded to another key.
func TestRefundOfALeasedTokenToAnotherKey(t *testing.T) {
	limits, p := limiter.New(lease.New(&memstore.Store{}, nil)), leased(runtime.TokenBucket)
	for range 3 {
		d, err := limits.Limit(p, runtime.KeyOf(runtime.Int(1))).Allow(t.Context())
		require.NoError(t, err)
		_, err = limits.Limit(p, runtime.KeyOf(runtime.Int(2))).Refund(t.Context(), d)
		require.ErrorIs(t, err, runtime.ErrInvalidCall)
		_, err = limits.Limit(p, runtime.KeyOf(runtime.Int(1))).Refund(t.Context(), d)
		require.NoError(t, err)
	}
}
