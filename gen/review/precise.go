package review

import (
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// traitsOfPrecise are the traits of precise sliding windows, whose rows are a log and not windows.
var traitsOfPrecise = traits{
	sliding:   true,
	longRun:   rateUnlessUnusable,
	exhausted: exhaustedLogs,
	views:     lastViews,
	newRate:   "The tokens taken in the last old period stay counted, each for the new period from when it was taken.",
}

// exhaustedLogs has the log of a key that has taken all at one instant. A log of several instants is worth no more: the
// token that comes back first ends the time in which the key is exhausted.
func exhaustedLogs(rule *runtime.Rule, _ int64, _ grid) []row {
	s, _, err := rule.Step(runtime.State{}, origin, runtime.Request{Count: int64(rule.Rate)})
	if err != nil {
		panic("review: taking the rate of a full key failed: " + err.Error())
	}
	return []row{{rule.Capacity + s.Value, s.Prev}}
}

// newPrecision says how a row is read by a limit that was not precise before, or is no longer.
func newPrecision(new *runtime.Policy) string {
	if new.Precise {
		return "The tokens that a key has used count as taken at the end of its window, or for a token bucket a period after its last take, because the row does not say when they were. They are available again " +
			words.Duration(new.Period) + " later."
	}
	return "All tokens in a key's log count as taken at its last take."
}

// judgePrecise also removes the rows of the log that are not read any longer: a sweep by the new version does not delete them.
func judgePrecise(j *judgement, p pair, _ []spec.Change) {
	is := p.new.Policy.Precise
	if p.old.Policy.Kind == p.new.Policy.Kind {
		j.compareRules(&p.old.Policy, p.withOneChange(func(policy *runtime.Policy) {
			if policy.Precise = is; is {
				policy.Start, policy.Shards, policy.Lease = runtime.Start{}, 0, runtime.Lease{}
			}
		}))
	}
	j.class(StoredState)
	if is {
		j.note(Rule, "A key has up to %s, and a request is a transaction of several statements.", words.Count(p.new.Policy.Rate, "row"))
		return
	}
	if p.old.Policy.Rate > 1 {
		j.note(Deploy, "The rows of the log beside the first one of each key are no longer read.")
		j.statement("after the deploy, to delete these rows, which a sweep does not delete",
			"DELETE FROM rate_limits WHERE name = '%s' AND shard >= %d;", p.new.Policy.Name, max(1, p.new.Policy.Shards))
	}
}
