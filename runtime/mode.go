package runtime

import (
	"fmt"
	"time"
)

// Mode is what a limit does with its decisions. The zero Mode is ModeEnforce. Whatever the mode, a request for 0 tokens is
// allowed and takes nothing, and a count below 0 is [ErrInvalidCount].
//
//	             enforce     shadow                      off, unlimited           block
//	Allow        as decided  passes; a denial takes      passes, counts nothing   denied
//	Require                  nothing and is Shadowed                              *LimitedError
//	Check        as decided  passes, maybe Shadowed      passes                   denied
//	Reserve      as decided  as Allow, and Delay is 0    passes, Delay is 0       denied
//	Settle       corrects    corrects, unless Shadowed   nothing                  ErrNotReserved
//	Cancel                   and nothing was taken
//	Wait         waits       returns at once             returns at once          fails at once
//	Refund       gives back  gives back                  nothing                  gives back
//	Peek         row         row                         MaxTokens, without row   row, Remaining 0
//	Reset        deletes     deletes                     deletes                  deletes
//	store fails  OnError     passes, FailedOpen          not used                 not used for a denial
type Mode uint8

const (
	// ModeEnforce denies what the limit does not allow.
	ModeEnforce Mode = iota
	// ModeShadow decides and counts as ModeEnforce does, but lets every request pass: one that ModeEnforce would deny
	// takes nothing, and its decision is [Decision.Shadowed]. That includes a count beyond the capacity. A reservation has
	// no Delay. If the store fails, requests pass whatever the policy's OnError. Denials are not cached.
	ModeShadow
	// ModeOff lets every request pass, and counts nothing: the store is not used, and stored rows stay as they are.
	ModeOff
	// ModeBlock denies every request for a token or more, with the RetryAfter [Never], or until its end if it is an operator's
	// [Block] that has one. Stored rows stay as they are.
	ModeBlock
	// ModeUnlimited is ModeOff for a plan without a limit: the policy needs only Name, Kind and, so that Reset finds all
	// rows of a key, the Precise and Shards of the other plans.
	ModeUnlimited

	endOfModes // every mode before it has an entry in the table modes
)

// modes has an entry for every [Mode]. If one is missing, the array is too short for its type and does not compile.
var modes [endOfModes]modeTraits = [...]modeTraits{
	ModeEnforce:   {name: "enforce", counts: true},
	ModeShadow:    {name: "shadow", counts: true},
	ModeOff:       {name: "off", allows: true},
	ModeBlock:     {name: "block"},
	ModeUnlimited: {name: "unlimited", allows: true},
}

// modeTraits are the properties of a mode: whether requests are decided by the count of their key, and if not, whether
// they are allowed.
type modeTraits struct {
	name           string
	counts, allows bool
}

// Modes returns every Mode that a limit can choose in limits.yaml. ModeUnlimited belongs to plans.
func Modes() []Mode { return []Mode{ModeEnforce, ModeShadow, ModeOff, ModeBlock} }

// String returns the word used in limits.yaml: "enforce".
func (m Mode) String() string {
	if m.known() {
		return modes[m].name
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

func (m Mode) known() bool { return m < endOfModes }

// decided returns d, the decision of an enforced limit on a request at the instant now, as the policy's mode changes it.
func (q *Request) decided(d Decision, now int64) Decision {
	d = q.Policy.Mode.Applied(d, q.Op, q.Count)
	d.Limit, d.Policy, d.BlockedFor = q.Policy.Name, q.Policy, q.Policy.blockedFor(now)
	return d
}

// Applied returns the decision of an enforced limit as the mode changes it, given the operation of the request and its
// count: in ModeShadow a denial becomes an allowance, a delay becomes 0, and a TakeUpTo may use its whole count; these are
// Shadowed.
func (m Mode) Applied(d Decision, op Op, count int64) Decision {
	if m != ModeShadow {
		return d
	}
	if !d.Allowed || d.Delay > 0 {
		d.Allowed, d.Shadowed, d.RetryAfter, d.Delay = true, true, 0, 0
	}
	if op == TakeUpTo && d.Taken < count {
		d.Shadowed, d.free, d.Taken = true, count-d.Taken, count
	}
	return d
}

// usesRows reports whether a request needs the rows of its key, and so the store. The policy must be valid.
func (q *Request) usesRows() bool {
	switch m := modes[q.Policy.Mode]; {
	case m.counts:
		return true
	case m.allows:
		// A row may be left from another mode or plan.
		return q.Op == Reset
	}
	return !q.decides()
}

// withoutRows decides a request that does not use rows at the instant now.
func (q *Request) withoutRows(now int64) (Decision, error) {
	r := Rule{Kind: q.Policy.Kind, Capacity: endless}
	if err := r.refuse(q); err != nil {
		return Decision{}, err
	}
	switch {
	case modes[q.Policy.Mode].allows:
	case q.empty():
		return Decision{Allowed: true}, nil
	default:
		return Decision{RetryAfter: q.Policy.blockedFor(now)}, nil
	}
	d := Decision{Allowed: true, Remaining: MaxTokens, Value: MaxTokens}
	if q.Op == Take || q.Op == TakeUpTo {
		d.Taken = q.Count
	}
	return d, nil
}

// blockedFor returns how long requests are denied from now on whatever the tokens are: [Never] without an end, and 0 if the
// Mode is not ModeBlock.
func (p *Policy) blockedFor(now int64) (after time.Duration) {
	for ; p != nil && p.Mode == ModeBlock; p = p.Overrides.next {
		if p.Overrides.until == 0 {
			return Never
		}
		// At least a nanosecond, because the block may have ended since the policy was found.
		after = time.Duration(max(1, p.Overrides.until-now))
	}
	return after
}

// withoutStore returns the answer at the instant now to a call of which no request uses rows.
func (c Call) withoutStore(now int64) (Answer, bool) {
	for i := range c.Requests {
		if c.Requests[i].usesRows() {
			return Answer{}, false
		}
	}
	b := NewBatch([]Call{c})
	b.Run(now, nil)
	return b.Answers()[0], true
}

// unlimited is the rule of ModeUnlimited, for the rows that other plans have left.
func unlimited(p *Policy) Rule {
	r := Rule{Kind: p.Kind, Rate: MaxTokens, Capacity: MaxTokens, Period: 1, unlimited: true}
	if p.Precise {
		r.Precise, r.Rate, r.Capacity = true, MaxPreciseRate, MaxPreciseRate
	}
	return r
}
