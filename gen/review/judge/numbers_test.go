package judge

import (
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// againstNumber compares a number of tokens with the most that schedules use. It returns whether one of them must reach it.
func againstNumber(t *testing.T, d dice, p *runtime.Policy, name string, value int64, traces [][]use) (reached bool) {
	t.Helper()
	if name == review.LargestReservation {
		c := newCaller(d, p)
		now := meter.RuleOf(p, keyOfCaller).Phase + 40*int64(paced(p).Period)
		require.True(t, c.take(p, now, value), "%+v", p)
		require.False(t, newCaller(d, p).take(p, now, value+1), "%+v", p)
		return false
	}
	if strings.HasSuffix(name, review.Unreserved) {
		if p, traces = bounds.Unreserved(p), nil; p.Full() == 0 {
			require.Zero(t, value)
			return false
		}
	}
	pace := paced(p)
	length, ok := intervalNamed(name, pace.Period)
	if length = closed(p, length); !ok || length/int64(pace.Period) > 3000*max(1, pace.Capacity+p.MaxReserved)/pace.Rate || length > 3000*int64(pace.Period) {
		return false // that takes too many calls
	}
	for _, uses := range traces {
		require.LessOrEqual(t, most(uses, length), value, "%s of %+v", name, p)
	}
	found := attack(d, p, length)
	require.LessOrEqual(t, found, value, "%s of %+v", name, p)
	if p.Shards > 1 {
		return false // the number is that of one row, which shards need not reach
	}
	require.Equal(t, value, found, "%s of %+v", name, p)
	return true
}

// intervalNamed returns the length in the name of a number of tokens: of a minute, a day or a period of a policy.
func intervalNamed(name string, periods ...time.Duration) (length int64, ok bool) {
	for _, period := range append(periods, time.Second, 30*time.Second, time.Minute, 90*time.Second, time.Hour, 24*time.Hour) {
		// A random edit can make a period 24 times as long.
		for _, length := range []time.Duration{period, 24 * period} {
			if strings.TrimSuffix(name, review.Unreserved) == "in any "+words.Period(length) {
				return int64(length), true
			}
		}
	}
	return 0, name == "at once"
}

func subjectOfPair(old, new *spec.Limit) review.Subject {
	r := Review(&spec.File{Limits: []*spec.Limit{old}}, &spec.File{Limits: []*spec.Limit{new}})
	return r.Subjects[0]
}

// A key that never lets its bucket fill up loses no part of a token.
func TestLeasesReachTheBoundOfABucket(t *testing.T) {
	p := runtime.Policy{
		Name: "limit", Kind: runtime.TokenBucket, Rate: 3, Period: time.Second, Capacity: 10,
		Lease: runtime.Lease{Tokens: 1, For: 200 * time.Millisecond},
	}
	const length = 3500 * time.Millisecond
	require.EqualValues(t, 21, bounds.Within(&p, length))
	require.EqualValues(t, 21, attack(roll(2), &p, int64(length)))
}

// lengths returns interval lengths that need few enough calls for a test.
func lengths(p *runtime.Policy) (list []int64) {
	for _, length := range []time.Duration{0, p.Period / 3, p.Period, 7 * p.Period / 2, time.Minute, time.Hour, 24 * time.Hour} {
		if length <= 2000*p.Period {
			list = append(list, int64(length))
		}
	}
	return list
}

func TestLeasedMoreIsReachedAndNotExceeded(t *testing.T) {
	d := roll(8)
	for range 1000 {
		p := d.policy()
		if p.Kind != runtime.TokenBucket || p.Lease.Tokens == 0 || p.MaxReserved == runtime.Unbounded {
			continue
		}
		unleased, more := p, leasedMore(&p)
		unleased.Lease = runtime.Lease{}
		for _, length := range append(lengths(&p), d.Int64N(5*int64(p.Period))) {
			interval := time.Duration(length)
			require.LessOrEqual(t, bounds.Within(&p, interval)-bounds.Within(&unleased, interval), more, "%v of %+v", interval, p)
		}
		if more == 0 {
			continue
		}
		// The last of these tokens is used at the end of this interval.
		last := time.Duration(sort.Search(int(2*p.Period), func(length int) bool {
			return bounds.Within(&p, time.Duration(length)) >= p.Capacity+p.MaxReserved+more
		}))
		require.Equal(t, more, bounds.Within(&p, last)-bounds.Within(&unleased, last), "%+v", p)
	}
}

func TestFullAfterAndLongestDelayAreBounds(t *testing.T) {
	d := roll(5)
	for range 300 {
		p := d.policy()
		full, delay, reserved := bounds.FullAfter(&p), bounds.LongestDelay(&p), false
		wander(t, d, &p, func(now int64, _ runtime.Request, after runtime.State, decision runtime.Decision) {
			if p.Reserves() {
				require.LessOrEqual(t, decision.UsableAfter, max(delay, delay+rounding), "%+v", p)
			}
			if reserved = reserved || after.Value < 0; !reserved {
				require.LessOrEqual(t, decision.FullAfter, full+rounding, "%+v at %d of %+v", after, now, p)
			}
		})
	}
}

// rounding is the error of instants at which tokens are due.
const rounding = 10 * time.Nanosecond
