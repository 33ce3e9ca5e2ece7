package review

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// under returns the old rule with a change, to be compared with the old rule.
func (p pair) under(change func(policy *runtime.Policy)) *runtime.Policy {
	policy := p.old.Policy
	change(&policy)
	if policy.Kind == runtime.SlidingWindow {
		policy.Capacity = policy.Rate
	}
	return &policy
}

func judgeRate(j *judgement, p pair, _ []spec.Change) {
	is := &p.new.Policy
	changed := p.under(func(policy *runtime.Policy) { policy.Rate, policy.Period = is.Rate, is.Period })
	j.bounds(&p.old.Policy, changed)
	if more, fewer := longRun(&p.old.Policy, changed); !more && !fewer {
		j.note(Rule, "The rate in the long run is the same: %s per %s is %s per %s.",
			spec.Grouped(p.old.Policy.Rate), spec.PeriodInWords(p.old.Policy.Period), spec.Grouped(is.Rate), spec.PeriodInWords(is.Period))
	}
	if is.Period != p.old.Policy.Period && movesWindows(p) {
		j.class(StoredState)
	}
}

func judgeCapacity(j *judgement, p pair, changes []spec.Change) {
	is := p.new.Policy.Capacity
	j.bounds(&p.old.Policy, p.under(func(policy *runtime.Policy) {
		if policy.Capacity = is; policy.Kind == runtime.SlidingWindow {
			policy.Rate = is // they are one number
		}
	}))
	if !changes[0].New.Given && p.new.Policy.Kind != runtime.SlidingWindow {
		j.note(Rule, "The capacity is not given, so it follows the rate: up to %s at once.", spec.Grouped(is))
	}
	judgeVerbs(j, p)
}

func judgeMaxReserved(j *judgement, p pair, _ []spec.Change) {
	was, is := p.old.Policy.MaxReserved, p.new.Policy.MaxReserved
	j.bounds(&p.old.Policy, p.under(func(policy *runtime.Policy) { policy.MaxReserved = is }))
	switch {
	case is > was:
		j.alone = append(j.alone, Loosened)
	case is < was:
		j.alone = append(j.alone, Tightened)
	}
	switch {
	case is == 0:
		j.note(Deploy, "A key that is in debt keeps its debt.")
	case is < was:
		j.note(Deploy, "A key that is deeper in debt keeps its debt, and reserves again when that is less than %s.", spec.Grouped(is))
	}
	judgeVerbs(j, p)
}

func judgeKind(j *judgement, p pair, _ []spec.Change) {
	j.bounds(&p.old.Policy, &p.new.Policy)
	j.class(StoredState)
}

func judgeStart(j *judgement, p pair, _ []spec.Change) {
	if p.old.Policy.Kind != p.new.Policy.Kind && (p.old.Policy.Kind == runtime.TokenBucket || p.new.Policy.Kind == runtime.TokenBucket) {
		return // one of them has no windows
	}
	if sameWindows(p) {
		j.note(Rule, "Windows begin when they did.")
		return
	}
	is := p.new.Policy.Start
	j.bounds(&p.old.Policy, p.under(func(policy *runtime.Policy) { policy.Start = is }))
	j.class(StoredState)
	if _, aligned := is.Offset(); aligned && len(p.new.Key) > 0 && !isAligned(p.old) {
		j.note(Rule, "The windows of all keys begin at the same instant now.")
	}
}

// sameWindows reports whether both starts make the same windows of the new period.
func sameWindows(p pair) bool {
	was, aligned := p.old.Policy.Start.Offset()
	is, alignedToo := p.new.Policy.Start.Offset()
	return aligned && alignedToo && (was%p.new.Policy.Period-is%p.new.Policy.Period)%p.new.Policy.Period == 0
}

func isAligned(l *spec.Limit) bool {
	_, aligned := l.Policy.Start.Offset()
	return aligned
}

// movesWindows reports whether windows begin at other times, of a limit that had windows and has them.
func movesWindows(p pair) bool {
	old, new := &p.old.Policy, &p.new.Policy
	if old.Kind == runtime.TokenBucket || new.Kind == runtime.TokenBucket {
		return false
	}
	return old.Period != new.Period || old.Start != new.Start && !sameWindows(p)
}

func judgeTimeout(j *judgement, p pair, _ []spec.Change) {
	was, is := patience(p.old), patience(p.new)
	sooner, open := is < was, p.new.Policy.OnError == runtime.FailOpen
	switch {
	case sooner && open:
		j.class(Loosened)
		j.note(Rule, "More requests pass uncounted: the store counts as failed sooner, and onError is open.")
	case open:
		j.class(Tightened)
		j.note(Rule, "Fewer requests pass uncounted: the store counts as failed later.")
	case sooner:
		j.class(Tightened)
		j.note(Calls, "More calls return an error: the store counts as failed sooner.")
	default:
		j.class(Loosened)
		j.note(Calls, "Calls wait longer for the store before they return an error.")
	}
}

// patience is how long a decision may take.
func patience(l *spec.Limit) time.Duration {
	if l.Policy.Timeout == 0 {
		return 1<<63 - 1
	}
	return l.Policy.Timeout
}

func judgeOnError(j *judgement, p pair, _ []spec.Change) {
	if p.new.Policy.OnError == runtime.FailOpen {
		j.class(Loosened)
		j.note(Rule, "Everything passes, uncounted, while the store fails.")
		return
	}
	j.class(Tightened)
	j.note(Rule, "Nothing passes while the store fails: calls return the error.")
}
