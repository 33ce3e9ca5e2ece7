package conformance

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// The keys that limits except, and the capacity that each has of every limit. All other keys have 20.
const (
	large = iota
	small
	blockedKey
	free
	ordinary
)

var exceptedTo = []int64{large: 60, small: 8, blockedKey: 0, free: runtime.MaxTokens, ordinary: 20}

// excepted is a limit with its exceptions.
type excepted struct {
	policy *runtime.Policy
	keys   *runtime.Exceptions
}

func (e excepted) of(l *limiter.Limiter, key int) limiter.Limit {
	return l.Limit(e.keys.For(e.policy, live.KeyOf(key)))
}

// exceptedLimits are limits of every kind, sharded ones and a leased one.
func exceptedLimits() (all []excepted) {
	leased := *live.Once("leased", 20)
	leased.Lease = runtime.Lease{Tokens: 7, For: time.Hour}
	precise := runtime.Policy{Name: "precise", Kind: runtime.SlidingWindow, Precise: true, Rate: 20, Capacity: 20, Period: runtime.MaxPeriod}
	for _, p := range append(live.Granting(20), &leased, &precise) {
		numbers := func(n int64) (of runtime.Numbers) {
			if of.Capacity = n; p.Kind != runtime.TokenBucket {
				of = runtime.Numbers{Rate: n}
			}
			return of
		}
		all = append(all, excepted{p, p.Except([]runtime.Exception{
			{Key: live.KeyOf(large).String(), Numbers: numbers(exceptedTo[large]), Reason: "test"},
			{Key: live.KeyOf(small).String(), Numbers: numbers(exceptedTo[small]), Reason: "test"},
			{Key: live.KeyOf(blockedKey).String(), Mode: runtime.ModeBlock, Reason: "test"},
			{Key: live.KeyOf(free).String(), Mode: runtime.ModeOff, Reason: "test"},
		})})
	}
	return all
}

// Many goroutines on two hosts take tokens of keys with exceptions and without. Each key gets exactly what its exception
// gives, of one limit and of two at once, and a sweep leaves its count.
func TestExceptionsAreExact(t *testing.T) {
	onHosts(t, func(t *testing.T, at []address) {
		var limiters []*limiter.Limiter
		var hosts []host
		for i := range 2 {
			h := live.Must(at[i%len(at)].open(sqlstore.Options{}))(t)
			hosts, limiters = append(hosts, h), append(limiters, limiter.New(h))
		}
		limits := exceptedLimits()
		for i := range limits {
			require.NoError(t, limits[i].policy.Validate())
		}
		admitted := make([][ordinary + 1]atomic.Int64, len(limits))
		var all sync.WaitGroup
		for g := range goroutinesEach {
			all.Go(func() {
				for range 5 {
					for i, of := range limits {
						l := limiters[g%2]
						if of.policy.Lease.Tokens > 0 {
							l = limiters[0] // tokens in the block of another host are not free
						}
						for key := range exceptedTo {
							d, err := of.of(l, key).Allow(t.Context())
							if assert.NoError(t, err) && d.Allowed {
								admitted[i][key].Add(1)
							}
						}
					}
				}
			})
		}
		all.Wait()
		for i, of := range limits {
			for key, most := range exceptedTo {
				assert.Equal(t, min(most, 5*goroutinesEach), admitted[i][key].Load(), "%s, key %d", of.policy.Name, key)
			}
			if of.policy.Shards < 2 { // otherwise an estimate
				b := live.Must(of.of(limiters[0], large).Peek(t.Context()))(t)
				assert.Zero(t, b.Remaining, "%s", of.policy.Name)
			}
		}

		// A key that has tokens of both limits gets them, and one that has not gets neither.
		one, two := limits[0], limits[slices.IndexFunc(limits, func(e excepted) bool { return e.policy.Kind == runtime.FixedWindow })]
		require.NoError(t, one.of(limiters[0], small).Reset(t.Context()))
		ds := live.Must(limiters[0].All(t.Context(), one.of(limiters[0], small).N(8), two.of(limiters[0], free).N(1000)))(t)
		assert.True(t, ds.Allowed)
		require.NoError(t, one.of(limiters[0], small).Reset(t.Context()))
		ds = live.Must(limiters[0].All(t.Context(), one.of(limiters[0], small), two.of(limiters[0], blockedKey)))(t)
		assert.False(t, ds.Allowed)
		b := live.Must(one.of(limiters[1], small).Peek(t.Context()))(t)
		assert.EqualValues(t, exceptedTo[small], b.Remaining)
		for _, h := range hosts {
			require.NoError(t, h.Close())
		}
	})
}

// A row goes when its key is full by its exception.
func TestSweepGoesByExceptions(t *testing.T) {
	onHosts(t, func(t *testing.T, at []address) {
		clock := storetest.NewClock()
		h := live.Must(at[0].open(sqlstore.Options{Clock: clock.Now}))(t)
		p := &runtime.Policy{Name: "slow for one", Kind: runtime.TokenBucket, Rate: 4, Capacity: 4, Period: time.Minute}
		of := excepted{p, p.Except([]runtime.Exception{{Key: live.KeyOf(large).String(), Numbers: runtime.Numbers{Rate: 1, Capacity: 1000}}})}
		l := limiter.New(h)
		live.Must(of.of(l, large).AllowN(t.Context(), 400))(t)
		live.Must(of.of(l, ordinary).AllowN(t.Context(), 4))(t)
		clock.Add(3 * time.Hour)
		assert.Equal(t, 1, live.Must(h.Sweep(t.Context(), p))(t))
		b := live.Must(of.of(l, large).Peek(t.Context()))(t)
		assert.EqualValues(t, 1000-400+180, b.Remaining)
		require.NoError(t, h.Close())
	})
}
