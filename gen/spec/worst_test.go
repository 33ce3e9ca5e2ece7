package spec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// longPeriod has nanoseconds at which tokens are all but due.
const longPeriod = 30 * time.Second

// longTick is the time in which a token accrues, or half a period: callers ask then, and a nanosecond before.
func longTick(p *runtime.Policy) time.Duration { return p.Period / time.Duration(max(2, p.Rate)) }

func TestWorstCaseIsReachedAndNeverPassed(t *testing.T) {
	for _, p := range smallPolicies(longPeriod, 5, 0, 1, 2) {
		assert.Equal(t, searchWithin(&p, longTick(&p), p.Period), Within(&p, p.Period), "%+v", p)
	}
}

func TestWorstCaseOfLeasesIsReachedAndNeverPassed(t *testing.T) {
	for _, unleased := range smallPolicies(longPeriod, 2, 0, 2) {
		for _, p := range leases(unleased, longTick(&unleased), longPeriod) {
			assert.Equal(t, searchWithin(&p, longTick(&p), p.Period), Within(&p, p.Period), "%+v", p)
		}
	}
}

func TestWorstCaseInWords(t *testing.T) {
	const bucket, window, sliding = "kind: token bucket, ", "kind: fixed window, ", "kind: sliding window, "
	const lease = "lease: {tokens: 10, for: 255ms}, maxReserved: 0"
	for _, test := range []struct{ limit, want string }{
		{bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 0", "Worst case: 30 in any minute."},
		{bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 5", "Worst case: 35 in any minute, with reserved tokens counted when their delay has passed."},
		{bucket + "rate: 10, period: 1m, capacity: 20", "Worst case: 30 in any minute without reservations, which have no bound."},
		{bucket + "rate: 10, period: 1m, capacity: 0", "Worst case: reservations have no bound."},
		{bucket + "rate: 100, period: 1s, " + lease, "Worst case: 225 in any second."},
		{bucket + "rate: 100, period: 1s, maxReserved: 10, lease: {tokens: 10, for: 1s}", "Worst case: 300 in any second, with reserved tokens counted when their delay has passed."},
		{bucket + "rate: 1_000_000_000_000_000, period: 1ns, " + lease, "Worst case: more than can be counted in any nanosecond."},
		{window + "rate: 40_000, period: 1d, maxReserved: 0", "Worst case: 80,000 in any day."},
		{window + "rate: 100, period: 1h, maxReserved: 1", "Worst case: 300 in any hour, with reserved tokens counted when their delay has passed."},
		{window + "rate: 100, period: 1s, " + lease, "Worst case: 200 in any second."},
		{window + "rate: 10, period: 1m, capacity: 20, maxReserved: 0, start: first use", "Worst case: 39 in any minute."},
		{sliding + "rate: 100, period: 1s, " + lease, "Worst case: 200 in any second."},
	} {
		file := parsed(t, "version: 1\nlimits: {a: {"+test.limit+"}}\n")
		assert.Equal(t, test.want, file.Limits[0].WorstCase(), test.limit)
	}
}
