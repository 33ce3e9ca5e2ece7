package judge

import (
	"fmt"
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func judgeTimeout(j *judgement) {
	shorter, onError := timeoutOf(j.New) < timeoutOf(j.Old), j.New.Policy.OnError
	without := "pass uncounted"
	if onError == runtime.FailLocal {
		without = "are decided from the memory of each process"
	}
	switch closed := onError == runtime.FailClosed; {
	case !shorter && closed != (j.Old.Policy.OnError == runtime.FailClosed):
		// The onError alone decides what becomes of a request that the store does not decide in time.
		j.note(review.Calls, "Calls wait longer before the store is treated as failed.")
	case shorter && onError != runtime.FailClosed:
		j.class(review.Loosened)
		j.note(review.Rule, "onError is %v and the store is treated as failed sooner, so more requests %s.", onError, without)
	case onError != runtime.FailClosed:
		// Requests now get late decisions, which can be denials, instead of passing.
		j.class(review.Tightened)
		j.note(review.Rule, "The store is treated as failed later, so fewer requests %s.", without)
	case shorter:
		j.class(review.Tightened)
		j.note(review.Calls, "The store is treated as failed sooner, so more calls return an error.")
	default:
		j.class(review.Loosened)
		j.note(review.Calls, "Calls wait longer for the store before they return an error.")
	}
}

// timeoutOf returns the longest duration for a limit without a timeout, so that timeouts can be compared.
func timeoutOf(l *spec.Limit) time.Duration {
	if l.Policy.Timeout == 0 {
		return math.MaxInt64
	}
	return l.Policy.Timeout
}

func judgeOnError(j *judgement) {
	was, is := failures[j.Old.Policy.OnError], failures[j.New.Policy.OnError]
	if was.sentence == "" || is.sentence == "" {
		panic(fmt.Sprintf("review: onError %v or %v is not described: add it to failures in gen/review/judge/fields.go",
			j.Old.Policy.OnError, j.New.Policy.OnError))
	}
	j.loosens(is.passes > was.passes)
	j.note(review.Rule, "While the store fails, %s", is.sentence)
}

// failures orders what happens while the store fails by how much passes.
var failures = map[runtime.OnError]struct {
	passes   int
	sentence string
}{
	runtime.FailClosed: {0, "no request passes: calls return the error."},
	runtime.FailLocal:  {1, "each process decides by the same rule from its own memory, in which a key begins with what the store has last reported to the process: n processes together can allow n times the limit. The store does not count it."},
	runtime.FailOpen:   {2, "every request passes uncounted."},
}

func judgeJitter(j *judgement) {
	was, is := j.Old.Policy.Jitter, j.New.Policy.Jitter
	// The rule grants as much, but clients that wait as long as their answers say use less of it.
	j.loosens(is < was)
	if is == 0 {
		j.note(review.Calls, "Clients are told to retry exactly when their %ss are due. Many that wait for the same instant come back at once.", j.New.Unit())
		return
	}
	waits := "Wait and the delays of reservations are longer"
	if compare.InFlight(&j.New.Policy) {
		waits = "WaitAcquire waits longer"
	}
	j.note(review.Calls, "The limit grants as many %[1]ss as before. Denied clients are told to retry up to %[2]s after their %[1]ss are due, and %[3]s by as much.",
		j.New.Unit(), words.Duration(is), waits)
}

func judgeDenyCache(j *judgement) {
	was, is := j.Old.Policy.DenyCache, j.New.Policy.DenyCache
	// A refund by another process does not end a cached denial.
	j.loosens(is < was)
	given, gives := "refunded or reset can be taken", "refunds"
	if compare.InFlight(&j.New.Policy) {
		given, gives = "released or reset can be acquired", "releases slots"
	}
	if is == 0 {
		j.note(review.Rule, "Denials are no longer cached, so %ss that are %s at once.", j.New.Unit(), given)
		return
	}
	j.note(review.Rule, "The limit grants as many %ss as before. When another process %s or resets a key, this one may still deny its requests for up to %s.",
		j.New.Unit(), gives, words.Duration(is))
}

// judgeWarn has no class: as many requests pass as before.
func judgeWarn(j *judgement) {
	p := &j.New.Policy
	if p.Warn.Len() == 0 {
		j.note(review.Calls, "The limit grants as many %ss as before, and no take reports how much is used: OnWarn is no longer called for it.", j.New.Unit())
		return
	}
	j.note(review.Calls, "The limit grants as many %ss as before. The take after which %s are used reports it, by Crossed and OnWarn.",
		j.New.Unit(), words.List(fields.Thresholds(p), "and"))
	j.note(review.Deploy, "Until all processes have the new version, takes of the old ones report the thresholds that they have.")
}

// warnFollows notes when the limit warns because its capacity has changed, and not its thresholds.
func warnFollows(p compare.Pair, changes []diff.Change) (notes []review.Note) {
	if p.Old == nil || p.New == nil || p.ByPlan() || p.New.Policy.Warn.Len() == 0 || hasKind(changes, ids.WarnChanged) ||
		p.New.Policy.Full() == p.Old.Policy.Full() {
		return nil
	}
	j := judgement{}
	j.note(review.Rule, "The limit warns when %s are used.", words.List(fields.Thresholds(&p.New.Policy), "and"))
	return j.notes
}

// judgePenalty compares for how long a key that is denied again and again is locked out.
func judgePenalty(j *judgement) {
	was, is := &j.Old.Policy.Penalty, &j.New.Policy.Penalty
	for n := 1; n <= runtime.MaxPenaltySteps; n++ {
		j.class(moreOrLess(is.Step(n), was.Step(n))...)
	}
	if was.Len() > 1 && is.Len() > 1 {
		j.class(moreOrLess(is.Forgiveness(), was.Forgiveness())...)
	}
	j.note(review.Rule, "A key that is denied for lack of %ss is locked out %s. Before: %s.", j.New.Unit(),
		lockOut(&j.New.Policy), lockOut(&j.Old.Policy))
	switch {
	case was.Len() == 0:
		verbs := "Allow, Require or Wait"
		if compare.InFlight(&j.New.Policy) {
			verbs = "Acquire or WaitAcquire"
		}
		j.note(review.Calls, "A denied %s starts the penalty, and a Check does not. Reset ends it, and Peek reports it.", verbs)
		j.note(review.Deploy, "Until all processes have the new version, the old ones start no penalties, and let requests pass during one.")
	case is.Len() == 0:
		j.note(review.Deploy, "Penalties in force end for each process with its new version.")
	default:
		j.note(review.Deploy, "Penalties in force end when they would have ended.")
	}
}

// lockOut says how long a denied key is denied: "for 1m, then 10m, then always 1h, until there was none for 10h".
func lockOut(p *runtime.Policy) string {
	n := p.Penalty.Len()
	if n == 0 {
		text := "until its " + spec.Unit(p) + "s are due"
		if p.Reserves() { // reserved tokens are due before
			return text
		}
		return text + ", one of them after at most " + words.Length(max(bounds.NextAfter(p), p.Hold))
	}
	text := "for " + words.Duration(p.Penalty.Step(1))
	for i := 2; i <= n; i++ {
		text += ", then "
		if i == n {
			text += "always "
		}
		text += words.Duration(p.Penalty.Step(i))
	}
	if n > 1 {
		text += ", until there was none for " + words.Duration(p.Penalty.Forgiveness())
	}
	return text
}

// strictness orders durabilities by how little a crash can lose. The setting of the database can be either of the other
// two, so it is between them.
var strictness = map[runtime.Durability]int{
	runtime.DurabilityRelaxed: 0,
	runtime.DurabilityDefault: 1,
	runtime.DurabilityFull:    2,
}

// postgresLoses is how much time a crash of Postgres can lose with synchronous_commit = off: three times
// wal_writer_delay, which is 200ms by default.
const postgresLoses = 600 * time.Millisecond

// judgeOverrides compares what operators can give, which has no effect by itself: the rule is compared without it.
func judgeOverrides(j *judgement) {
	was, is := j.Old.Policy.Overrides, j.New.Policy.Overrides
	switch {
	case was == runtime.OverrideBounds{}:
		j.class(review.Loosened)
		j.describe(review.Rule, fields.OverridesWords(j.New))
		j.note(review.Calls, "New methods for blocks and overrides: %s.", words.List(fields.OverridesMethods(j.New), "and"))
		j.note(review.Deploy, "The store needs the table rate_limit_overrides: Migrate(ctx, Policies()...) creates it, and ratelimitgen sql prints it.")
		return
	case is == runtime.OverrideBounds{}:
		j.class(review.Loosened, review.Tightened, review.Breaking)
		j.risk(review.OverridesLost, false)
		j.note(review.Calls, "The methods for blocks and overrides are gone: %s. Code that calls them no longer compiles.",
			words.List(fields.OverridesMethods(j.Old), "and"))
		j.note(review.Deploy, "Blocks and overrides in force end with the deploy: blocked keys get their tokens back. They are in force again if overrides return before they end. Until then, Ready reports them.")
		j.endStatement("them, if they are not to return")
		return
	}
	if lessOverridable(is, was) {
		j.class(review.Loosened)
	}
	if lessOverridable(was, is) {
		j.class(review.Tightened)
		j.note(review.Deploy, "Overrides in force that give more are reduced to these numbers with the deploy, and those that lift the limit have no effect.")
	}
	j.describe(review.Rule, fields.OverridesWords(j.New))
}

// lessOverridable reports whether operators can no longer give what they could.
func lessOverridable(was, is runtime.OverrideBounds) bool {
	return is.Rate < was.Rate || is.Capacity < was.Capacity || is.MaxReserved < was.MaxReserved || is.Slots < was.Slots ||
		!is.Unlimited && was.Unlimited
}

// overridesFollow notes that operators can give less because the numbers of the limit have changed, and not its overrides.
func overridesFollow(p compare.Pair, changes []diff.Change) (notes []review.Note) {
	if p.Old == nil || p.New == nil || p.Old.Overrides == nil || p.New.Overrides == nil ||
		hasKind(changes, ids.OverridesChanged) ||
		!lessOverridable(p.Old.Policy.Overrides, p.New.Policy.Overrides) {
		return nil
	}
	j := judgement{}
	j.describe(review.Rule, fields.OverridesWords(p.New))
	j.note(review.Deploy, "Overrides in force that give more are reduced to these numbers with the deploy.")
	return j.notes
}

func judgeDurability(j *judgement) {
	was, is := j.Old.Policy.Durability, j.New.Policy.Durability
	j.loosens(strictness[is] < strictness[was])
	switch is {
	case runtime.DurabilityRelaxed:
		if compare.InFlight(&j.New.Policy) {
			j.note(review.Rule, "If the database's machine crashes, the latest acquisitions may be lost: their holders learn it at their next renewal, and until then others may hold the slots too. On Postgres, these are those of the last %s.",
				words.Duration(postgresLoses))
			break
		}
		reserved := ""
		if j.New.Policy.Reserves() {
			reserved = ", plus reserved ones"
		}
		j.note(review.Rule, "If the database's machine crashes, the latest counts may be lost, and their tokens can be taken again. On Postgres, these are the counts of the last %s: up to %s of a key%s.",
			words.Duration(postgresLoses), words.Count(bounds.Within(bounds.Unreserved(&j.New.Policy), postgresLoses), "token"), reserved)
	case runtime.DurabilityFull:
		j.note(review.Rule, "Each decision waits for the database's disk, so a crash loses no counts.")
	case runtime.DurabilityDefault:
		j.note(review.Rule, "The settings of the database decide how much a crash can lose.")
	default:
		panic(fmt.Sprintf("review: durability %v is not described: add it to judgeDurability and strictness in gen/review/judge/fields.go", is))
	}
	j.note(review.Rule, "MySQL and MariaDB set this for the whole server, so it has no effect there.")
}
