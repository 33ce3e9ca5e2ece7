package review

import (
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Carried returns the most tokens that a key can have under the new rule at the instant of the deploy, if it
// had less than one left under the old rule and nothing was reserved. It asks the step of the new rule about
// the states that the old rule leaves.
func Carried(old, new *runtime.Policy) int64 {
	most := int64(0)
	before, after := old.Rule(""), new.Rule("")
	for _, m := range usedUp(&before, together(old, new, before.Phase)) {
		for _, phase := range phases(old, new, before.Phase, m) {
			after.Phase = phase
			_, d, err := after.Step(m.state, m.at, runtime.Ask{Op: runtime.Peek})
			if err == nil {
				most = max(most, d.Remaining)
			}
		}
	}
	return most
}

// moment is a state at an instant.
type moment struct {
	state runtime.State
	at    int64
}

// usedUp returns moments at which a rule has less than one token left, whose windows begin at instants
// that lie later in its own by the given time. All is taken at the beginning, in the middle or at the end of a
// window; then one as soon as it can be, or all that there is when the other windows begin, and so on; each
// at once, and just before the next token. What can be had of the states in between is less.
func usedUp(rule *runtime.Rule, later int64) (moments []moment) {
	if rule.Capacity < 1 {
		return nil
	}
	begin := rule.Phase + 4*rule.Period
	for _, at := range []int64{begin, begin + rule.Period/2, begin + rule.Period - 1} {
		first := drain(rule, moment{runtime.State{}, at})
		soon := drain(rule, first.next(rule))
		moments = append(moments, first.around(rule)...)
		moments = append(moments, soon.around(rule)...)
		if rule.Kind == runtime.TokenBucket {
			return moments // it is the same at all times
		}
		moments = append(moments, drain(rule, soon.next(rule)).around(rule)...)
		for _, beat := range []int64{begin + later, begin + rule.Period + later - 1, begin + rule.Period + later, begin + 2*rule.Period - 1} {
			if beat > at {
				moments = append(moments, drain(rule, moment{first.state, beat}).around(rule)...)
			}
		}
	}
	return moments
}

// allowance is how far a sum of tokens may fall short of what is taken.
const allowance = 1e-6

// drain takes all that there is.
func drain(rule *runtime.Rule, m moment) moment {
	_, d, _ := rule.Step(m.state, m.at, runtime.Ask{Op: runtime.Peek})
	if d.Remaining > 0 {
		m.state, _, _ = rule.Step(m.state, m.at, runtime.Ask{Count: d.Remaining})
	}
	return m
}

// next returns the moment at which one token is there again.
func (m moment) next(rule *runtime.Rule) moment {
	_, d, _ := rule.Step(m.state, m.at, runtime.Ask{Op: runtime.Check, Count: 1})
	return moment{m.state, m.at + int64(d.RetryAfter)}
}

// around returns the moment and the last one before a token is there again. If windows begin at first use,
// what had accrued then can be worth nearly a token more.
func (m moment) around(rule *runtime.Rule) []moment {
	last := m.next(rule)
	last.at--
	if rule.FirstUse {
		more := last
		more.state.Value += 1 - 2*allowance
		return []moment{m, last, more}
	}
	return []moment{m, last}
}

// phases returns where in a period the windows of the new rule can begin, as far as it makes a difference:
// at the moment or just after it, or with what is stored or just after it. Where the windows of both rules
// move together, that is known.
func phases(old, new *runtime.Policy, phase int64, m moment) []int64 {
	period := int64(new.Period)
	switch {
	case new.Kind == runtime.TokenBucket || new.Start.FirstUse():
		return []int64{0}
	case linked(old, new):
		return []int64{(phase + together(old, new, phase)) % period}
	}
	return []int64{m.at % period, (m.at + 1) % period, m.state.TS % period, (m.state.TS + 1) % period}
}

// together returns by how much later in a period the windows of the new rule begin, if they move together
// with those of the old one; 0 if they do not.
func together(old, new *runtime.Policy, phase int64) int64 {
	if !linked(old, new) {
		return 0
	}
	is := new.Rule("").Phase
	return (is - phase + int64(new.Period)) % int64(new.Period)
}

// linked reports whether the windows of two rules keep their distance for ever.
func linked(old, new *runtime.Policy) bool {
	_, aligned := old.Start.Offset()
	_, alignedToo := new.Start.Offset()
	return old.Kind != runtime.TokenBucket && new.Kind != runtime.TokenBucket && aligned == alignedToo &&
		old.Period == new.Period && !old.Start.FirstUse() && !new.Start.FirstUse()
}
