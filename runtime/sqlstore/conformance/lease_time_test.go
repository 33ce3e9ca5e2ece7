package conformance

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// grant is tokens granted to a host at an instant.
type grant struct {
	at     time.Time
	tokens int64
}

// surge makes hosts take a little, wait, and then take all that they can get, again and again, so that blocks are spent
// as late as possible. It returns the grants. It runs in a synctest bubble.
func surge(t *testing.T, at []address, p *runtime.Policy, batch, rounds int) (granted []grant) {
	synctest.Test(t, func(t *testing.T) {
		all := hosts(t, at, 3, sqlstore.Options{Clock: time.Now, Batch: batch})
		random := rand.New(rand.NewPCG(1, uint64(batch)))
		take := func(h host, most int) {
			l := limiter.New(h).Reservable(p, runtime.Key{})
			for range most {
				n := 1 + random.Int64N(3)
				if !takes(t, l, n, p.Reserves() && random.IntN(4) == 0) {
					return
				}
				granted = append(granted, grant{time.Now(), n})
			}
		}
		for range rounds {
			for _, h := range all {
				take(h, 1)
			}
			time.Sleep(time.Duration(random.Int64N(int64(2 * p.Lease.For))))
			for _, i := range random.Perm(len(all)) {
				take(all[i], 100)
			}
			time.Sleep(time.Duration(random.Int64N(int64(2 * p.Period))))
		}
		closeAll(t, all)
	})
	return granted
}

// takes takes or reserves n tokens, and reports whether they were granted.
func takes(t *testing.T, l limiter.ReservableLimit, n int64, reserve bool) bool {
	t.Helper()
	if reserve {
		r := live.Must(l.ReserveN(context.Background(), n))(t)
		return r.Allowed
	}
	d := live.Must(l.AllowN(context.Background(), n))(t)
	return d.Allowed
}

// surged returns limits of all kinds that hosts soon exhaust.
func surged() (all []*runtime.Policy) {
	for _, p := range []runtime.Policy{
		{Name: "bucket", Kind: runtime.TokenBucket, Capacity: 25},
		{Name: "reserved", Kind: runtime.TokenBucket, Capacity: 25, MaxReserved: 5},
		{Name: "sharded", Kind: runtime.TokenBucket, Capacity: 25, Shards: 3},
		{Name: "window", Kind: runtime.FixedWindow, Capacity: 20, Start: runtime.StartOffset(0)},
		{Name: "rolling over", Kind: runtime.FixedWindow, Capacity: 30, Start: runtime.StartOffset(0)},
		{Name: "sliding", Kind: runtime.SlidingWindow, Capacity: 20, Start: runtime.StartOffset(0)},
	} {
		p.Name = "surged " + p.Name
		p.Rate, p.Period, p.Lease = 20, 10*time.Second, runtime.Lease{Tokens: 8, For: 1500 * time.Millisecond}
		if p.Kind != runtime.TokenBucket {
			p.Lease.For = p.Period // so that blocks end with the window
		}
		all = append(all, &p)
	}
	return all
}

// The grants of all hosts stay within bounds: for a bucket, capacity + maxReserved + rate*(t+for)/period in any time t,
// which is more than the bound of package lease because reserved tokens count when they are granted; for a window, its
// capacity, and none of its tokens in the next window.
func TestLeasesStayWithinTheirBounds(t *testing.T) {
	rounds := 8
	if *long {
		rounds = 200
	}
	onHosts(t, func(t *testing.T, at []address) {
		for i, p := range surged() {
			granted := surge(t, at, p, []int{0, 1, 2}[i%3], rounds)
			require.NotEmpty(t, granted)
			if p.Kind == runtime.TokenBucket {
				assert.LessOrEqual(t, mostOver(p, granted), 1e-6, p.Name)
			} else {
				assert.LessOrEqual(t, mostInWindow(p, granted), p.Capacity, p.Name)
			}
		}
	})
}

// mostOver returns by how much the grants of a bucket exceed its bound, in the worst interval.
func mostOver(p *runtime.Policy, granted []grant) float64 {
	most := -float64(p.Capacity)
	for i, first := range granted {
		sum := int64(0)
		for _, g := range granted[i:] {
			sum += g.tokens
			accrued := float64(p.Rate) * (g.at.Sub(first.at) + p.Lease.For).Seconds() / p.Period.Seconds()
			most = max(most, float64(sum-p.Capacity-p.MaxReserved)-accrued)
		}
	}
	return most
}

// mostInWindow returns the largest sum of grants in a window.
func mostInWindow(p *runtime.Policy, granted []grant) (most int64) {
	perWindow := map[time.Time]int64{}
	for _, g := range granted {
		window := g.at.Truncate(p.Period)
		perWindow[window] += g.tokens
		most = max(most, perWindow[window])
	}
	return most
}

// Tokens are refunded through one host after another host has cached a denial.
func TestDenialsAreStaleUntilDenyCacheEnds(t *testing.T) {
	onHosts(t, func(t *testing.T, at []address) {
		clock := storetest.NewClock()
		p := live.Once("remembered", 5)
		p.DenyCache = time.Second
		all := hosts(t, at, 2, sqlstore.Options{Clock: clock.Now})
		here := limiter.New(all[0]).Limit(p, runtime.Key{})
		there := limiter.New(all[1]).Limit(p, runtime.Key{})
		allowed := func(l limiter.Limit) bool {
			d := live.Must(l.Allow(t.Context()))(t)
			return d.Allowed
		}
		require.NoError(t, here.RequireN(t.Context(), 5))
		assert.False(t, allowed(here))
		taken := runtime.Decision{Allowed: true, Taken: 10, TakenAt: clock.Now()}
		live.Must(there.RefundN(t.Context(), taken, 2))(t)
		assert.True(t, allowed(there), "a host that was not denied")
		assert.False(t, allowed(here), "stale")
		clock.Add(time.Second)
		assert.True(t, allowed(here), "after DenyCache")
		assert.False(t, allowed(here))
		taken.TakenAt = clock.Now()
		live.Must(here.Refund(t.Context(), taken))(t)
		assert.True(t, allowed(here), "at once, if it was given back here")
		closeAll(t, all)
	})
}

// remembersAll gives limits without a lease a DenyCache, so that the suite tests the cache.
type remembersAll struct{ runtime.Store }

func (r remembersAll) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	all := make([]runtime.Call, len(calls))
	for i, c := range calls {
		for _, q := range c.Requests {
			// A block belongs to the address of its policy, not to copies.
			if q.Policy != nil && q.Policy.Lease.Tokens == 0 {
				p := *q.Policy
				p.DenyCache = time.Hour
				q.Policy = &p
			}
			all[i].Requests = append(all[i].Requests, q)
		}
	}
	return r.Store.Do(ctx, all)
}

// The conformance suite passes with a DenyCache.
func TestStoreWithDenyCache(t *testing.T) {
	onEachServer(t, func(t *testing.T, s live.Server) {
		suite(t, s, s.Open(t), func(store *sqlstore.Store) runtime.Store { return remembersAll{store} })
	})
}
