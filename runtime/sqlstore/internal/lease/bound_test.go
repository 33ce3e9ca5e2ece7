package lease_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

func TestProcessesTogetherGrantNoMoreThanTheLimit(t *testing.T) {
	for _, kind := range runtimetest.TokenKinds() {
		for _, shards := range []int{1, 4} {
			synctest.Test(t, func(t *testing.T) {
				policy := leased(kind)
				policy.Rate, policy.Capacity, policy.Shards, policy.Period = 1000, 1000, shards, runtime.MaxPeriod
				granted := sprint(t, &slow{}, policy, 4, 40)
				require.Equal(t, 1000, granted, "%v: exactly the capacity", kind)
			})
		}
	}
}

// sprint takes single tokens in many goroutines of several processes for a second, and returns how many were granted.
func sprint(t *testing.T, backend runtime.Store, policy *runtime.Policy, processes, goroutines int) int {
	var mu sync.Mutex
	var all sync.WaitGroup
	granted := 0
	for range processes {
		p := newProcess(backend, policy)
		defer p.close()
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

// Many processes spend little of their blocks, and the bucket fills up meanwhile. If the whole rest of a block were
// refunded, more and more tokens would be out at once.
func TestUnspentBlocksDoNotExceedTheCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := leased(runtime.TokenBucket)
		policy.Rate, policy.Period, policy.Capacity, policy.Lease.Tokens = 100, time.Second, 1000, 100
		backend := &memstore.Store{}
		var processes []process
		for range 50 {
			processes = append(processes, newProcess(backend, policy))
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
			require.NoError(t, p.close())
		}
		require.LessOrEqual(t, burst, 1000+100, "at one instant: the capacity, and what accrues during a lease")
	})
}

// use is tokens that were granted at an instant.
type use struct {
	at time.Time
	n  int64
}

// wander takes tokens by three processes at random for a while, and returns the granted ones.
func wander(t *testing.T, policy *runtime.Policy, seed uint64) []use {
	backend := &memstore.Store{}
	processes := make([]process, 3)
	for i := range processes {
		processes[i] = newProcess(backend, policy)
		defer processes[i].close()
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

func TestLeasedBucketStaysWithinItsBound(t *testing.T) {
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

func TestTokensOfAWindowAreNotSpentInTheNext(t *testing.T) {
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

func TestBlockIsNotRefundedToTheNextWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := leased(runtime.FixedWindow)
		policy.Rate, policy.Capacity, policy.Period, policy.Start = 20, 20, 10*time.Second, runtime.StartOffset(0)
		backend := &memstore.Store{}
		time.Sleep(9500 * time.Millisecond)
		p, other := newProcess(backend, policy), newProcess(backend, policy)
		require.True(t, p.take(t, 1))
		time.Sleep(500*time.Millisecond - 1)
		require.True(t, other.take(t, 1), "a block of one nanosecond")
		time.Sleep(time.Nanosecond)
		require.True(t, other.take(t, 20))
		synctest.Wait()
		require.Equal(t, 0.0, left(t, backend, policy))
		require.NoError(t, errors.Join(p.close(), other.close()))
	})
}
