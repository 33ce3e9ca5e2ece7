package meter

import (
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Full reports whether s is full at the instant now, in nanoseconds since 1970 UTC, and its last penalty is forgiven,
// so that its row is not needed.
func (r *Rule) Full(s runtime.State, now int64) bool {
	if !s.Exists {
		return true
	}
	last, s := cutPenalty(s)
	if r.penalty != nil && !last.forgiven(r.penalty, now) {
		return false
	}
	// On a clock that was set back, a new key would be full already, but this row accrues nothing until its TS.
	return now >= s.TS && r.algorithm().full(s, now)
}

// calendarSweepAfter is how much longer the row of a calendar is kept: the clocks of two zones differ by at most 26
// hours, and those of two versions of the zone data by less.
const calendarSweepAfter = int64(48 * time.Hour)

// sweepableSince returns the instant as of which a row must be full to be swept at the instant now. The row does not
// contain the zone or the anniversary of its key, so that it must have been full for a whole window of any key.
func (r *Rule) sweepableSince(now int64) int64 {
	switch {
	case !r.calendar.exist():
		return now - int64(sweepAfter)
	case r.calendar.zonePerKey || r.calendar.anniversary:
		// The longest month is 2% longer than the mean one.
		return now - calendarSweepAfter - r.Period - r.Period/8
	}
	return now - calendarSweepAfter
}

// sweepable reports whether a stored row of a policy has been full for an hour, or longer for a [runtime.Calendar], at
// the instant now in nanoseconds since 1970 UTC, so that it is not needed and a sweep may delete it. It is false for an
// invalid policy, for one with [runtime.ModeUnlimited], which has no numbers to judge by, and for a shard that the
// policy does not have.
func sweepable(p *runtime.Policy, row runtime.Row, s runtime.State, now int64) bool {
	switch {
	case p.Validate() != nil || p.Mode == runtime.ModeUnlimited:
		return false
	case row.Shard >= max(1, p.Shards):
		return false
	}
	rule := RuleOf(slowest(p), row.Key).Shard(row.Shard, p.Shards)
	if p.Shards > 1 && p.Kind.Linear() {
		// Without the row of this shard, those before it would hold the debt of all: see Shards.holders. They lack up
		// to two tokens more, so that they are full then too.
		s.Value -= 2
	}
	return rule.Full(s, rule.sweepableSince(now))
}

// slowest returns the policy by which a row is full last, of all numbers that its callers can give.
func slowest(p *runtime.Policy) *runtime.Policy {
	if p.AtMost == (runtime.Numbers{}) {
		return p
	}
	of := *p
	if of.AtMost.Rate > 0 {
		of.Rate = int64(max(1, p.Shards))
	}
	// A smaller capacity lets a fixed window forget more.
	of.Capacity, of.MaxReserved = max(of.Capacity, of.AtMost.Capacity), max(of.MaxReserved, of.AtMost.MaxReserved)
	return &of
}

// Sweepable reports whether a stored row has been full for an hour, or longer for a [runtime.Calendar], at the instant
// now in nanoseconds since 1970 UTC, so that it is not needed and a sweep may delete it. It must be for each of several
// policies with the same name, such as a limit before and after an edit: a row that is full again at the higher rate
// may be nearly empty at the lower one. Policies with [runtime.ModeUnlimited] are left to the judgement of the others.
// It is false without others.
func Sweepable(policies []*runtime.Policy, row runtime.Row, s runtime.State, now int64) bool {
	judged := false
	for _, p := range policies {
		if p != nil && p.Mode == runtime.ModeUnlimited && p.Validate() == nil {
			continue
		}
		if !sweepable(p, row, s, now) {
			return false
		}
		judged = true
	}
	return judged
}

// SweepClock is the clock by which a store sweeps: the store's own, without a jump ahead until that has lasted for an hour.
// A clock that is set ahead by mistake, and back again, so deletes nothing that is needed. The zero value is ready; the
// first instant that it gets is believed.
type SweepClock struct {
	mu sync.Mutex
	// looked is the host's time of the last call, whose monotonic clock does not jump, and believed the store's clock then.
	looked   time.Time
	believed int64
	// ahead is the least by which the store's clock was ahead of the believed one since a jump, and since when it is; 0 if it
	// is not.
	ahead int64
	since time.Time
}

const (
	// jumpTolerance is how far ahead a clock may be set at once. It is small beside sweepAfter.
	jumpTolerance = int64(time.Minute)
	// jumpDrift is how much faster a clock may be than that of the host: one part of so many.
	jumpDrift = 2000
)

// At returns the instant by which to sweep when it is now by the store's clock, in nanoseconds since 1970 UTC. The host's
// time must have its monotonic clock, as that of [time.Now] has.
func (c *SweepClock) At(now int64, host time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looked.IsZero() {
		c.looked, c.believed = host, now
		return now
	}
	elapsed := int64(host.Sub(c.looked))
	c.looked, c.believed = host, c.believed+elapsed
	ahead := now - c.believed
	switch {
	case ahead <= jumpTolerance+elapsed/jumpDrift:
		c.believed, c.ahead = now, 0
	case c.ahead == 0:
		c.ahead, c.since = ahead, host
	default:
		if c.ahead = min(c.ahead, ahead); host.Sub(c.since) >= sweepAfter {
			c.believed, c.ahead = c.believed+c.ahead, 0
		}
	}
	return c.believed
}
