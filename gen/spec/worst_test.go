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
	for _, p := range smallPolicies(longPeriod, 5, 0, 1, 2, runtime.Unbounded) {
		assert.Equal(t, searchWithin(&p, longTick(&p), p.Period, min(1, p.MaxReserved)), Within(&p, p.Period), "%+v", p)
	}
}

func TestWorstCaseOfLeasesIsReachedAndNeverPassed(t *testing.T) {
	for _, unleased := range smallPolicies(longPeriod, 2, 0, runtime.Unbounded) {
		for _, p := range leases(unleased, longTick(&unleased), longPeriod) {
			assert.Equal(t, searchWithin(&p, longTick(&p), p.Period, min(1, p.MaxReserved)), Within(&p, p.Period), "%+v", p)
		}
	}
}

func TestLargeReservationsAddWhatWorstCaseSays(t *testing.T) {
	for _, p := range smallPolicies(longPeriod, 3, 2, runtime.Unbounded) {
		for most := int64(2); most <= 3; most++ {
			added := most - 1
			if p.Kind == runtime.TokenBucket {
				added = max(0, most-max(p.Capacity, 1))
			}
			assert.LessOrEqual(t, searchWithin(&p, longTick(&p), p.Period, most), Within(&p, p.Period)+added, "reserving up to %d: %+v", most, p)
		}
	}
}

func TestWorstCaseInWords(t *testing.T) {
	const bucket, window, sliding = "kind: token bucket, ", "kind: fixed window, ", "kind: sliding window, "
	const lease = "lease: {tokens: 10, for: 255ms}, maxReserved: 0"
	for _, test := range []struct{ limit, want string }{
		{bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 0", "Worst case: 30 in any minute."},
		{bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 5", "Worst case: 30 in any minute; a large reservation can add to it when it is due."},
		{bucket + "rate: 100, period: 1s, " + lease, "Worst case: 225 in any second."},
		{bucket + "rate: 100, period: 1s, lease: {tokens: 10, for: 1s}", "Worst case: 300 in any second; a large reservation can add to it when it is due, and what a lease gives back too."},
		{bucket + "rate: 1_000_000_000_000_000, period: 1ns, " + lease, "Worst case: more than can be counted in any nanosecond."},
		{window + "rate: 40_000, period: 1d, maxReserved: 0", "Worst case: 80,000 in any day."},
		{window + "rate: 40_000, period: 1d", "Worst case: 80,000 in any day; a large reservation can add to it when it is due."},
		{window + "rate: 100, period: 1s, " + lease, "Worst case: 200 in any second."},
		{window + "rate: 10, period: 1m, capacity: 20, maxReserved: 0, start: first use", "Worst case: 39 in any minute."},
		{sliding + "rate: 100, period: 1s, " + lease, "Worst case: 200 in any second."},
	} {
		file := parsed(t, "version: 1\nlimits: {a: {"+test.limit+"}}\n")
		assert.Equal(t, test.want, file.Limits[0].WorstCase(), test.limit)
	}
}
