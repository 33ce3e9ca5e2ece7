package agree

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// Used makes random calls with changing policies of one name, such as those of several plans, and compares the decisions
// with a reference that stores only which tokens were used. It returns how many of them were allowed.
func Used(t *testing.T, store runtime.Store, clock *storetest.Clock, seed uint64, decisions int) (allowed int) {
	const perFamily = 1000
	for made := 0; made < decisions; made += perFamily {
		d := rand.New(rand.NewPCG(seed, uint64(made)))
		clock.Set(time.Unix(0, storetest.NewClock().Now().Truncate(24*time.Hour).UnixNano()))
		plans := plansOf(d, fmt.Sprintf("used %d %d", seed, made))
		references := make([]reference, 3)
		for i := range references {
			// Long ago, but not so long that the product of the time since and a rate overflows.
			references[i].at = clock.Now().Add(-time.Hour).UnixNano()
		}
		for i := range perFamily {
			key := d.IntN(len(references))
			q := runtime.Request{Policy: plans[d.IntN(len(plans))], Key: strconv.Itoa(key), Count: 1 + d.Int64N(20)}
			q.Reserve = q.Policy.MaxReserved > 0 && d.IntN(2) == 0
			if d.IntN(8) == 0 {
				q.Op = runtime.Check
			}
			if q.Reserve && q.Count > q.Policy.Capacity+q.Policy.MaxReserved || !q.Reserve && q.Count > q.Policy.Capacity {
				continue
			}
			answers, err := store.Do(context.Background(), []runtime.Call{{Requests: []runtime.Request{q}}})
			require.NoError(t, err)
			require.NoError(t, answers[0].Err)
			want := references[key].decide(clock.Now().UnixNano(), q)
			got := answers[0].Decisions[0]
			require.Equal(t, want, got.Allowed, "decision %d of %s: %v of %+v", made+i, q.Policy.Name, got, q.Policy)
			if got.Allowed {
				allowed++
			}
			passed := d.IntN(4)
			if d.IntN(50) == 0 {
				passed = d.IntN(40)
			}
			if q.Policy.Shards == 1 {
				passed -= d.IntN(2) * d.IntN(4) // so that the clock goes back now and then
			}
			clock.Add(time.Duration(passed) * step)
		}
	}
	return allowed
}

// step is the distance of instants. In it, a whole number of tokens accrues at all rates of plansOf.
const step = time.Minute / 12

// plansOf returns policies of a random kind that differ in their numbers.
func plansOf(d *rand.Rand, name string) []*runtime.Policy {
	kinds := tokenKinds()
	base := runtime.Policy{Name: name, Kind: kinds[d.IntN(len(kinds))], Period: time.Minute, Shards: 1 + d.IntN(2)}
	if base.Kind.Windowed() {
		base.Start = runtime.StartOffset(time.Duration(d.IntN(12)) * step)
	}
	if base.Kind == runtime.TokenBucket {
		// A shard that is full accrues nothing, which the reference does not calculate.
		base.Shards = 1
	}
	plans := make([]*runtime.Policy, 2+d.IntN(3))
	for i := range plans {
		p := base
		p.Rate = 12 * (1 + d.Int64N(8))
		p.Capacity = p.Rate
		if p.Kind.Linear() && p.Shards == 1 {
			p.Capacity, p.MaxReserved = 1+d.Int64N(100), d.Int64N(30)
		}
		plans[i] = &p
	}
	return plans
}

// reference has the tokens of a key that were used and have not accrued again, as of an instant. For a sliding window,
// it has those used in the window that began at the instant, and in the window before. All numbers are whole.
type reference struct {
	used, before, at int64
}

// decide applies the formulas of meter.Rule.Step in whole numbers.
func (r *reference) decide(now int64, q runtime.Request) bool {
	p, period := q.Policy, int64(q.Policy.Period)
	start := now
	if offset, windowed := p.Start.Offset(); windowed {
		start = now - (now-int64(offset))%period
	}
	next := *r
	if start > r.at {
		next.at = start
		switch p.Kind {
		case runtime.TokenBucket:
			next.used = max(0, r.used-(start-r.at)*p.Rate/period)
		case runtime.FixedWindow:
			next.used = max(0, min(r.used, p.Capacity+p.MaxReserved)-(start-r.at)/period*p.Rate)
		case runtime.SlidingWindow:
			next.used, next.before = 0, 0
			if start-r.at == period {
				next.before = r.used
			}
		default:
			panic("agree: the reference has no " + p.Kind.String() + ": add it to used.go")
		}
	}
	room := p.Capacity - next.used - q.Count
	if q.Reserve {
		room += p.MaxReserved
	}
	// Multiplied by the period, the estimate of a sliding window is a whole number too.
	fading := next.before * (period - max(0, now-next.at))
	if room*period < fading {
		return false
	}
	if next.used += q.Count; q.Op == runtime.Take {
		*r = next
	}
	return true
}
