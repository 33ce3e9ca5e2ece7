package meter

import (
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
