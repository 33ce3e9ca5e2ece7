package judge

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

func judgeKind(j *judgement) {
	j.compareRules(&j.Old.Policy, &j.New.Policy)
	j.class(review.StoredState)
}

func judgeRate(j *judgement) {
	is := &j.New.Policy
	changed := j.WithOneChange(func(policy *runtime.Policy) {
		policy.Rate, policy.Period, policy.Calendar = is.Rate, is.Period, is.Calendar
	})
	j.compareRules(&j.Old.Policy, changed)
	if more, fewer := compare.LongRun(&j.Old.Policy, changed); !more && !fewer {
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

func judgeCapacity(j *judgement) {
	is := j.New.Policy.Capacity
	sliding := compare.TraitsOf(&j.Old.Policy).Sliding
	j.compareRules(&j.Old.Policy, j.WithOneChange(func(policy *runtime.Policy) {
		if policy.Capacity = is; sliding {
			policy.Rate = is // both are the same number, so the capacity cannot change alone
		}
	}))
	if !j.changes[0].New.Given && !compare.TraitsOf(&j.New.Policy).Sliding {
		j.note(review.Rule, "capacity is not set, so it follows rate: up to %s at once.", words.Count(is, "token"))
	}
	noteVerbs(j)
}

func judgeMaxReserved(j *judgement) {
	was, is := j.Old.Policy.MaxReserved, j.New.Policy.MaxReserved
	j.compareRules(&j.Old.Policy, j.WithOneChange(func(policy *runtime.Policy) { policy.MaxReserved = is }))
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
	j.compareRules(&j.Old.Policy, j.WithOneChange(func(policy *runtime.Policy) { policy.Start = is }))
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
	j.class(review.Loosened)
	reserved := ""
	switch {
	case j.Old.Policy.MaxReserved == runtime.Unbounded:
		reserved = ", and what was reserved there, however much that is"
	case j.Old.Policy.Reserves():
		reserved = fmt.Sprintf(", and up to %s reserved there", words.Count(reservedInShards(&j.Old.Policy, is, was), "token"))
	}
	j.note(review.Deploy, "%s no longer read: a key in use gains up to %s used there%s.",
		shardsInWords("%s is", "%s are", is, was), words.Count(usedInShards(&j.Old.Policy, is, was), "token"), reserved)
	j.statement("after the deploy, to delete these rows, so that a later version with more shards does not read them",
		"DELETE FROM rate_limits WHERE name = '%s' AND shard >= %d;", j.New.Policy.Name, is)
}

// usedInShards returns the most tokens that can be used, without reservations, in the shards from one index to before
// another.
func usedInShards(p *runtime.Policy, from, to int) (tokens int64) {
	for i := from; i < to; i++ {
		tokens += int64(meter.RuleOf(p, "").Shard(i, p.Shards).Capacity)
	}
	return tokens
}

// reservedInShards returns the most tokens that can be reserved ahead in the shards from one index to before another.
func reservedInShards(p *runtime.Policy, from, to int) (tokens int64) {
	for i := from; i < to; i++ {
		tokens += int64(meter.RuleOf(p, "").Shard(i, p.Shards).Debt)
	}
	return tokens
}

// shardsInWords puts the names of the shards from one index to before another into a format for one or for several.
func shardsInWords(one, several string, from, to int) string {
	switch to - from {
	case 1:
		return fmt.Sprintf(one, fmt.Sprintf("Shard %d", from))
	case 2:
		return fmt.Sprintf(several, fmt.Sprintf("Shards %d and %d", from, to-1))
	}
	return fmt.Sprintf(several, fmt.Sprintf("Shards %d to %d", from, to-1))
}

func judgeTimeout(j *judgement) {
	shorter, onError := timeoutOf(j.New) < timeoutOf(j.Old), j.New.Policy.OnError
	without := "pass uncounted"
	if onError == runtime.FailLocal {
		without = "are decided from the memory of each process"
	}
	switch {
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
	was, is := j.Old.Policy.OnError, j.New.Policy.OnError
	j.loosens(leniency[is] > leniency[was])
	switch is {
	case runtime.FailOpen:
		j.note(review.Rule, "While the store fails, every request passes uncounted.")
	case runtime.FailLocal:
		j.note(review.Rule, "While the store fails, each process decides by the same rule from its own memory, in which a key begins with what the store has last reported to the process: n processes together can allow n times the limit. The store does not count it.")
	case runtime.FailClosed:
		j.note(review.Rule, "While the store fails, no request passes: calls return the error.")
	default:
		panic(fmt.Sprintf("review: onError %v is not described: add it to judgeOnError and leniency in gen/review/judge/fields.go", is))
	}
}

// leniency orders what happens while the store fails by how much passes.
var leniency = map[runtime.OnError]int{
	runtime.FailClosed: 0,
	runtime.FailLocal:  1,
	runtime.FailOpen:   2,
}

func judgeJitter(j *judgement) {
	was, is := j.Old.Policy.Jitter, j.New.Policy.Jitter
	// The rule grants as much, but clients that wait as long as their answers say use less of it.
	j.loosens(is < was)
	if is == 0 {
		j.note(review.Calls, "Clients are told to retry exactly when their tokens are due. Many that wait for the same instant come back at once.")
		return
	}
	j.note(review.Calls, "The limit grants as many tokens as before. Denied clients are told to retry up to %s after their tokens are due, and Wait and the delays of reservations are longer by as much.", words.Duration(is))
}

func judgeDenyCache(j *judgement) {
	was, is := j.Old.Policy.DenyCache, j.New.Policy.DenyCache
	// A refund by another process does not end a cached denial.
	j.loosens(is < was)
	if is == 0 {
		j.note(review.Rule, "Denials are no longer cached, so tokens that are refunded or reset can be taken at once.")
		return
	}
	j.note(review.Rule, "The limit grants as many tokens as before. When another process refunds or resets a key, this one may still deny its requests for up to %s.", words.Duration(is))
}

// judgeLease counts both effects of a lease: its tokens are spent later than they are taken, and other processes are
// denied what one process holds.
func judgeLease(j *judgement) {
	was, is := j.Old.Policy.Lease, j.New.Policy.Lease
	j.compareRules(&j.Old.Policy, j.WithOneChange(func(policy *runtime.Policy) { policy.Lease = is }))
	// A larger or longer block keeps more tokens from other processes.
	if is.Tokens > was.Tokens || is.For > was.For {
		j.class(review.Tightened)
	}
	if is.Tokens < was.Tokens || is.For < was.For {
		j.class(review.Loosened)
	}
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
	// rate * time needs 128 bits, before the division by the period.
	high, low := bits.Mul64(uint64(p.Rate), uint64(p.Lease.For))
	if high >= uint64(p.Period) {
		return math.MaxInt64
	}
	tokens, rest := bits.Div64(high, low, uint64(p.Period))
	if rest > 0 {
		tokens++
	}
	return max(0, int64(min(tokens, math.MaxInt64))-p.MaxReserved)
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
	case was.Rate == 0:
		j.class(review.Loosened)
		j.note(review.Rule, "Operators can block keys and change their numbers without a deploy. %s", mostInWords(j.New))
		j.note(review.Calls, "New methods for blocks and overrides: %s.", words.List(fields.OverridesMethods(j.New), "and"))
		j.note(review.Deploy, "The store needs the table rate_limit_overrides: Migrate(ctx, Policies()...) creates it, and ratelimitgen sql prints it.")
		return
	case is.Rate == 0:
		j.class(review.Loosened, review.Tightened, review.Breaking)
		j.note(review.Calls, "The methods for blocks and overrides are gone: %s. Code that calls them no longer compiles.", words.List(fields.OverridesMethods(j.Old), "and"))
		j.note(review.Deploy, "Blocks and overrides in force end with the deploy: blocked keys get their tokens back. They are in force again if overrides return before they end. Until then, Ready reports them.")
		j.endStatement("", "them, if they are not to return", "")
		return
	}
	if is.Rate > was.Rate || is.Capacity > was.Capacity || is.MaxReserved > was.MaxReserved || is.Unlimited && !was.Unlimited {
		j.class(review.Loosened)
	}
	if is.Rate < was.Rate || is.Capacity < was.Capacity || is.MaxReserved < was.MaxReserved || !is.Unlimited && was.Unlimited {
		j.class(review.Tightened)
		j.note(review.Deploy, "Overrides in force that give more are reduced to these numbers with the deploy, and those that lift the limit have no effect.")
	}
	j.note(review.Rule, "%s", mostInWords(j.New))
}

// mostInWords says what overrides of a limit can give at most.
func mostInWords(l *spec.Limit) string {
	b := l.Policy.Overrides
	if b.Unlimited {
		return "They can give any rate, and lift the limit for a key."
	}
	text := fmt.Sprintf("They can give up to %s per %s, %s at once", words.Number(b.Rate), fields.PeriodOf(&l.Policy), words.Number(b.Capacity))
	switch {
	case b.MaxReserved == runtime.Unbounded:
		text += ", and any number of reserved tokens"
	case b.MaxReserved > 0:
		text += ", and " + words.Count(b.MaxReserved, "reserved token")
	}
	return text + "."
}

func judgeDurability(j *judgement) {
	was, is := j.Old.Policy.Durability, j.New.Policy.Durability
	j.loosens(strictness[is] < strictness[was])
	switch is {
	case runtime.DurabilityRelaxed:
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

// judgePrecise also removes the rows of the log that are not read any longer: a sweep by the new version does not delete them.
func judgePrecise(j *judgement) {
	is := j.New.Policy.Precise
	if j.Old.Policy.Kind == j.New.Policy.Kind {
		j.compareRules(&j.Old.Policy, j.WithOneChange(func(policy *runtime.Policy) {
			if policy.Precise = is; is {
				policy.Start, policy.Shards, policy.Lease = runtime.Start{}, 0, runtime.Lease{}
			}
		}))
	}
	j.class(review.StoredState)
	if is {
		j.note(review.Rule, "A key has up to %s, and a request is a transaction of several statements.", words.Count(j.New.Policy.Rate, "row"))
		return
	}
	if j.Old.Policy.Rate > 1 {
		j.note(review.Deploy, "The rows of the log beside the first one of each key are no longer read.")
		j.statement("after the deploy, to delete these rows, which a sweep does not delete",
			"DELETE FROM rate_limits WHERE name = '%s' AND shard >= %d;", j.New.Policy.Name, max(1, j.New.Policy.Shards))
	}
}
