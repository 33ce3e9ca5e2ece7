package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Full reports whether s is full at the instant now, in nanoseconds since 1970 UTC, so that its row is not needed.
func (r *Rule) Full(s State, now int64) bool {
	if !s.Exists {
		return true
	}
	// On a clock that was set back, a new key would be full already, but this row accrues nothing until its TS.
	if r.Precise {
		return now >= s.TS && r.fullLog(s, now)
	}
	return now >= s.TS && r.Kind.algorithm().full(r, s, now)
}

// calendarSweepAfter is how much longer the row of a calendar is kept: the clocks of two zones differ by at most 26 hours,
// and those of two versions of the zone data by less.
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

// sweepableSlot reports whether a row beside the head may be deleted. While a run is in the ring, the head was written less
// than a period after it, so that two periods later the whole log has expired.
func (r *Rule) sweepableSlot(s State, now int64) bool {
	return addSaturating(addSaturating(s.TS, r.Period), r.Period) <= now
}

// Sweepable reports whether a stored row of the policy has been full for an hour, or longer for a [Calendar], at the
// instant now in nanoseconds since 1970 UTC, so that it is not needed and a sweep may delete it. It is false for an invalid
// policy, for one with [ModeUnlimited], which has no numbers to judge by, and for a shard that the policy does not have.
func (p *Policy) Sweepable(row Row, s State, now int64) bool {
	switch {
	case p.Validate() != nil || p.Mode == ModeUnlimited:
		return false
	case p.Precise && row.Shard > 0:
		rule := p.Rule(row.Key)
		return !s.Exists || rule.sweepableSlot(s, now-int64(sweepAfter))
	case row.Shard >= max(1, p.Shards):
		return false
	}
	rule := p.Rule(row.Key).Shard(row.Shard, p.Shards)
	return rule.Full(s, rule.sweepableSince(now))
}

// Sweepable reports whether a row is [Policy.Sweepable] for each of several policies with the same name, such as a limit
// before and after an edit: a row that is full again at the higher rate may be nearly empty at the lower one. Policies
// with [ModeUnlimited] are left to the judgement of the others. It is false without others.
func Sweepable(policies []*Policy, row Row, s State, now int64) bool {
	judged := false
	for _, p := range policies {
		if p != nil && p.Mode == ModeUnlimited && p.Validate() == nil {
			continue
		}
		if !p.Sweepable(row, s, now) {
			return false
		}
		judged = true
	}
	return judged
}

// ErrInUse: a limit cannot be forgotten, because one of the given policies has its name.
var ErrInUse = errors.New("the limit is in use")

// Sweeper is a store that can delete the rows of keys that are full.
type Sweeper interface {
	// Sweep deletes the rows of the policies that are not needed, and returns their number.
	Sweep(ctx context.Context, policies ...*Policy) (deleted int, err error)
}

// SweepEvery sweeps a store once per interval, until ctx ends. The first sweep is after a random part of the interval, so
// that processes that were started together do not sweep together. It is for a goroutine of its own:
//
//	go runtime.SweepEvery(ctx, store, time.Hour, func(deleted int, err error) {
//		if err != nil {
//			slog.Error("sweep rate limits", "err", err)
//		}
//	}, limits.Policies()...)
//
// After each sweep, report gets the number of rows deleted and the error, upon which the loop goes on. A sweep that fails
// is seen nowhere else, so that without report, which may be nil, rows can pile up unnoticed.
// The error of SweepEvery is the cause of ctx, or at once [ErrInvalidPolicy] or about an interval that is not positive.
func SweepEvery(ctx context.Context, store Sweeper, interval time.Duration, report func(deleted int, err error), policies ...*Policy) error {
	if interval <= 0 {
		return fmt.Errorf("sweep every %v: the interval must be more than 0s", interval)
	}
	for _, p := range policies {
		if err := p.Validate(); err != nil {
			return err
		}
	}
	timer := time.NewTimer(rand.N(interval))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		begin := time.Now()
		deleted, err := store.Sweep(ctx, policies...)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if report != nil {
			report(deleted, err)
		}
		// From the beginning of this sweep, so that a slow one does not shift the next.
		timer.Reset(interval - time.Since(begin))
	}
}

// CheckForget returns nil if the rows of a name can be deleted, and otherwise an error: [ErrInUse] if a policy has the
// name, or that it is empty. Stores use it for their Forget.
func CheckForget(name string, policies []*Policy) error {
	if name == "" {
		return errors.New("forget: the name of the limit is empty")
	}
	for _, p := range policies {
		if p != nil && p.Name == name {
			return fmt.Errorf("forget limit %q: %w: remove it from limits.yaml first, or Reset its keys", name, ErrInUse)
		}
	}
	return nil
}
