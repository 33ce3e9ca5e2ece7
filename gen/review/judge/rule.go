package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func judgeKind(j *judgement) {
	j.changesRule(func(policy *runtime.Policy) { *policy = j.New.Policy })
	j.class(review.StoredState)
	if compare.InFlightChanged(j.Pair) {
		noteVerbs(j)
	}
}

func judgeRate(j *judgement) {
	if compare.InFlightChanged(j.Pair) {
		return // the kind is judged itself: one of the two has no rate
	}
	if j.Either((*spec.Limit).CountsOnly) {
		judgeCount(j)
		return
	}
	is := &j.New.Policy
	changed := j.changesRule(func(policy *runtime.Policy) {
		policy.Rate, policy.Period, policy.Calendar = is.Rate, is.Period, is.Calendar
	})
	j.noteMost("rate", j.Old.Policy.AtMost.Rate, is.AtMost.Rate)
	if is.AtMost.Unlimited && !j.Old.Policy.AtMost.Unlimited {
		j.risk(review.Unlimited, false)
	}
	same := is.Rate == j.Old.Policy.Rate && is.Period == j.Old.Policy.Period && is.Calendar == j.Old.Policy.Calendar
	// The long-run rates of windows may be equal if these are not, because the capacity bounds what a window grants.
	equalRates := compare.Rates(is.Rate, is.Period, j.Old.Policy.Rate, j.Old.Policy.Period) == 0
	if more, fewer := compare.LongRun(&j.Old.Policy, changed); !more && !fewer && !same && equalRates {
		j.note(review.Rule, "The long-run rate is unchanged: %s per %s equals %s per %s.",
			words.Number(j.Old.Policy.Rate), fields.PeriodOf(&j.Old.Policy), words.Number(is.Rate), fields.PeriodOf(is))
	}
	// A rate applies to stored rows as it should, but a period also changes which window they belong to.
	if is.Period != j.Old.Policy.Period && compare.WindowsMove(j.Pair) {
		j.class(review.StoredState)
	}
	if compare.UnitChanged(j.Pair) {
		noteParameter(j, j.Old.Policy.Calendar.Anniversary, is.Calendar.Anniversary, "each key's anniversary, a time.Time")
		noteParameter(j, j.Old.Policy.Calendar.ZonePerKey, is.Calendar.ZonePerKey, "each key's time zone, a *time.Location")
	}
}

// without reports whether the rate of a limit is unlimited, whether it is counted or not.
func without(l *spec.Limit) bool { return l.Unlimited() || l.CountsOnly() }

// judgeCount judges a rate that becomes unlimited and is counted, or no longer is, or whose window changes.
func judgeCount(j *judgement) {
	j.changesRule(func(policy *runtime.Policy) { *policy = j.New.Policy })
	if without(j.New) && !without(j.Old) {
		j.risk(review.Unlimited, false)
	}
	j.describe(review.Rule, describe.Words(j.New))
	switch sameKind := j.Old.Policy.Kind == j.New.Policy.Kind; {
	case j.New.CountsOnly() && j.Old.Unlimited():
		j.note(review.Deploy, "What was taken without a limit was not counted: counts start at 0, or at those of another plan.")
	case j.New.Unlimited():
		j.note(review.Deploy, "Requests are no longer counted. Stored counts stay as they are, until a sweep deletes them: read those to be billed before the deploy.")
	case compare.WindowsMove(j.Pair):
		j.class(review.StoredState)
		j.note(review.Deploy, "Read the counts to be billed before the deploy.")
	case sameKind && j.New.CountsOnly():
		j.note(review.Deploy, "Counts are kept: what a key has used in its window is counted in it.")
	case sameKind:
		j.note(review.Deploy, "Counts are kept: a key that has used more than the capacity in its window has none until it ends.")
	}
}

// judgeHold judges how long a slot is held that is neither renewed nor released.
func judgeHold(j *judgement) {
	if compare.InFlightChanged(j.Pair) {
		return // the kind is judged itself: one of the two has no hold
	}
	was, is := j.Old.Policy.Hold, j.New.Policy.Hold
	j.loosens(is < was)
	if is < was {
		j.note(review.Rule, "A slot that is not renewed is free after %s instead of %s: work that takes longer without renewing it loses its slot, and other work may begin beside it.",
			words.Duration(is), words.Duration(was))
	} else {
		j.note(review.Rule, "The slot of a holder that has crashed is free after %s instead of %s.", words.Duration(is),
			words.Duration(was))
	}
	j.note(review.Deploy, "Slots that are held keep their ends: the new hold applies to later acquisitions and renewals.")
}

func judgeCapacity(j *judgement) {
	is := j.New.Policy.Capacity
	switch {
	case compare.InFlightChanged(j.Pair):
		return
	case compare.InFlight(&j.New.Policy):
		j.changesRule(func(policy *runtime.Policy) { policy.Slots = j.New.Policy.Slots })
		return
	}
	j.changesRule(func(policy *runtime.Policy) {
		if policy.Capacity = is; compare.Sliding(&j.Old.Policy) {
			policy.Rate = is // both are the same number, so the capacity cannot change alone
		}
	})
	j.noteMost("capacity", j.Old.Policy.AtMost.Capacity, j.New.Policy.AtMost.Capacity)
	if !j.changes[0].New.Given && !compare.Sliding(&j.New.Policy) {
		j.note(review.Rule, "capacity is not set, so it follows rate: up to %s at once.", words.Count(is, "token"))
	}
	noteVerbs(j)
}

func judgeMaxReserved(j *judgement) {
	if compare.InFlightChanged(j.Pair) {
		return
	}
	was, is := j.Old.Policy.MaxReserved, j.New.Policy.MaxReserved
	j.changesRule(func(policy *runtime.Policy) { policy.MaxReserved = is })
	j.noteMost("maxReserved", j.Old.Policy.AtMost.MaxReserved, j.New.Policy.AtMost.MaxReserved)
	// More reservations are looser even if they let no more tokens through in any interval.
	j.alone = append(j.alone, moreOrLess(was, is)...)
	switch {
	case is == 0:
		j.note(review.Deploy, "Reservations made before the deploy stay valid.")
	case is < was:
		j.note(review.Deploy, "Reservations made before the deploy stay valid. A key can reserve again when fewer than %s are reserved ahead.", words.Count(is, "token"))
	}
	noteVerbs(j)
}

// noteMost says what an edit of the most that callers can give means for them.
func (j *judgement) noteMost(field string, was, is int64) {
	if 0 < is && is < was && j.changes[0].New.Given {
		j.note(review.Calls, "Requests with a %s above %s, which the old file allows up to %s, fail with ErrInvalidNumbers: no store is reached, and no request is allowed.", field, words.Number(is), words.Number(was))
	}
}

func judgeStart(j *judgement) {
	if !compare.Windowed(&j.Old.Policy) || !compare.Windowed(&j.New.Policy) {
		return // the start only changed because the kind did, which is judged itself
	}
	if j.HasCalendar() {
		judgeCalendarStart(j)
		return
	}
	if compare.SameWindows(j.Pair) {
		j.note(review.Rule, "Windows start at the same times as before.")
		return
	}
	is := j.New.Policy.Start
	j.changesRule(func(policy *runtime.Policy) { policy.Start = is })
	j.class(review.StoredState)
	_, wasAligned := j.Old.Policy.Start.Offset()
	if _, aligned := is.Offset(); aligned && len(j.New.Key) > 0 && !wasAligned {
		j.note(review.Rule, "The windows of all keys now start at the same time.")
	}
}

func judgeShards(j *judgement) {
	was, is := max(1, j.Old.Policy.Shards), max(1, j.New.Policy.Shards)
	j.class(review.StoredState)
	if is > was {
		j.note(review.Deploy, "What a key has used stays used, and is spread over all shards.")
		return
	}
	reserved := ""
	switch {
	case j.Old.Policy.MaxReserved == runtime.Unbounded:
		reserved = ", and what was reserved there, however much that is"
	case j.Old.Policy.Reserves():
		reserved = fmt.Sprintf(", and up to %s reserved there",
			words.Count(inShards(&j.Old.Policy, j.Old.Policy.MaxReserved, is, was), "token"))
	}
	if j.Old.CountsOnly() {
		j.note(review.Deploy, "%s no longer read: what was used there is not counted. Read the counts to be billed before the deploy.", shardsInWords(is, was))
	} else {
		j.class(review.Loosened)
		j.note(review.Deploy, "%s no longer read: a key in use gains up to %s used there%s.",
			shardsInWords(is, was), words.Count(inShards(&j.Old.Policy, j.Old.Policy.Capacity, is, was), "token"), reserved)
	}
	j.statement("after the deploy, to delete these rows, so that a later version with more shards does not read them",
		"DELETE FROM rate_limits WHERE name = '%s' AND shard >= %d;", j.New.Policy.Name, is)
}

// inShards returns how much of a number of a policy is in the shards from one index to before another.
func inShards(p *runtime.Policy, number int64, from, to int) (tokens int64) {
	for i := from; i < to; i++ {
		tokens += int64(shardShare(p, i, number))
	}
	return tokens
}

// shardsInWords is the subject and the verb of a sentence on the shards from one index to before another.
func shardsInWords(from, to int) string {
	switch to - from {
	case 1:
		return fmt.Sprintf("Shard %d is", from)
	case 2:
		return fmt.Sprintf("Shards %d and %d are", from, to-1)
	}
	return fmt.Sprintf("Shards %d to %d are", from, to-1)
}

func judgePrecise(j *judgement) {
	is := j.New.Policy.Precise
	if j.Old.Policy.Kind == j.New.Policy.Kind {
		j.changesRule(func(policy *runtime.Policy) {
			if policy.Precise = is; is {
				policy.Start, policy.Shards, policy.Lease = runtime.Start{}, 0, runtime.Lease{}
			}
		})
	}
	j.class(review.StoredState)
}

// judgeLease counts both effects of a lease: its tokens are spent later than they are taken, and other processes are
// denied what one process holds.
func judgeLease(j *judgement) {
	was, is := j.Old.Policy.Lease, j.New.Policy.Lease
	j.changesRule(func(policy *runtime.Policy) { policy.Lease = is })
	// A larger or longer block keeps more tokens from other processes.
	j.class(slices.Concat(moreOrLess(is.Tokens, was.Tokens), moreOrLess(is.For, was.For))...)
	if is.Tokens == 0 {
		j.note(review.Rule, "Processes no longer hold tokens in memory: every request goes to the store.")
		return
	}
	if compare.Windowed(&j.New.Policy) {
		j.note(review.Rule, "A leased block expires with its window, so it allows no more tokens in any interval.")
	} else {
		effect := "no more in any interval than reservations already allow"
		if n := leasedMore(&j.New.Policy); n > 0 {
			effect = fmt.Sprintf("up to %s more in an interval than without a lease", words.Count(n, "token"))
		}
		j.note(review.Rule, "Leased tokens can be spent up to %s after they were taken: %s.", words.Duration(is.For), effect)
	}
	j.note(review.Rule, "Each process can hold up to %s of a key for up to %s. Others cannot use them in that time, and they are lost if the process is killed.",
		words.Count(is.Tokens, "token"), words.Duration(is.For))
}

// leasedMore returns how many more tokens a lease lets through in some interval of a token bucket: those that accrue in
// the time of the lease, rounded up, less those that can be reserved. It is at most [math.MaxInt64].
func leasedMore(p *runtime.Policy) int64 {
	tokens, rest := bounds.Accrued(p, p.Lease.For)
	if rest > 0 && tokens < math.MaxInt64 {
		tokens++
	}
	return max(0, tokens-p.MaxReserved)
}

// judgeZone judges another time zone of a calendar. A zone that appears or disappears with the calendar is judged with the
// period.
func judgeZone(j *judgement) {
	old, new := &j.Old.Policy, &j.New.Policy
	j.class(review.StoredState)
	if compare.UnitChanged(j.Pair) {
		return
	}
	j.changesRule(func(policy *runtime.Policy) {
		policy.Calendar.Zone, policy.Calendar.ZonePerKey = new.Calendar.Zone, new.Calendar.ZonePerKey
	})
	j.note(review.Rule, "Windows begin by the clocks of %s, before of %s.", zoneInWords(new.Calendar),
		zoneInWords(old.Calendar))
	noteParameter(j, old.Calendar.ZonePerKey, new.Calendar.ZonePerKey, "each key's time zone, a *time.Location")
}

func zoneInWords(c runtime.Calendar) string {
	if c.ZonePerKey {
		return "each key's own time zone"
	}
	return c.Zone
}

// noteParameter reports a parameter of the method that appears or disappears.
func noteParameter(j *judgement, was, is bool, what string) {
	switch {
	case is && !was:
		j.class(review.Breaking)
		j.note(review.Calls, "Calls of %s must pass %s.", j.New.GoName, what)
	case was && !is:
		j.class(review.Breaking)
		j.note(review.Calls, "Calls of %s no longer pass %s.", j.New.GoName, what)
	}
}

// judgeCalendarStart judges another start of a calendar.
func judgeCalendarStart(j *judgement) {
	old, new := &j.Old.Policy.Calendar, &j.New.Policy.Calendar
	j.class(review.StoredState)
	if compare.UnitChanged(j.Pair) {
		return
	}
	j.changesRule(func(policy *runtime.Policy) {
		policy.Calendar.From, policy.Calendar.At, policy.Calendar.Anniversary = new.From, new.At, new.Anniversary
	})
	j.describe(review.Rule, fields.StartWords(j.New))
	noteParameter(j, old.Anniversary, new.Anniversary, "each key's anniversary, a time.Time")
}
