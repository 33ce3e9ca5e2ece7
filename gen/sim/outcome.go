package sim

import (
	"errors"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Outcome is what became of a request, from the best for its caller to the worst.
type Outcome int

// The outcomes.
const (
	// Allowed is also the outcome of a reservation without delay.
	Allowed Outcome = iota
	// Shadowed requests would be denied or delayed if the limit were not in shadow mode.
	Shadowed
	// Partly allowed requests got only some of their tokens.
	Partly
	// Delayed requests are allowed, and must wait for their tokens.
	Delayed
	Denied
	// TooLarge requests can never pass, because their count exceeds the capacity.
	TooLarge
	// NoPlan is the outcome if the limit lacks the plan.
	NoPlan
	// Outcomes is the number of outcomes.
	Outcomes

	// invalid is no outcome: the line is no request of the limit.
	invalid = Outcomes
)

var outcomeNames = [Outcomes]string{"allowed", "shadowed", "allowed in part", "delayed", "denied",
	"impossible (count exceeds capacity)", "an error (no such plan)"}

// String returns the outcome in words.
func (o Outcome) String() string { return outcomeNames[o] }

// OutcomeOf returns the outcome of a decision on all tokens of a request.
func OutcomeOf(d runtime.Decision) Outcome {
	switch {
	case !d.Allowed:
		return Denied
	case d.Shadowed:
		return Shadowed
	case d.UsableAfter > 0:
		return Delayed
	}
	return Allowed
}

// outcomeOf returns the outcome of a line that was decided.
func outcomeOf(l *trace.Line, d runtime.Decision) Outcome {
	o := OutcomeOf(d)
	if o == Allowed && l.Op.UpTo() && d.Taken < l.Count {
		return Partly
	}
	return o
}

// outcomeOfError returns the outcome of a line that could not be decided.
func outcomeOfError(err error) Outcome {
	switch {
	case errors.Is(err, runtime.ErrExceedsCapacity):
		return TooLarge
	case errors.Is(err, runtime.ErrInvalidPlan):
		return NoPlan
	}
	return invalid
}

// Answer is the decision for a line, or the zero Answer of a side of a [Comparison] that does not decide it.
type Answer struct {
	runtime.Decision
	// Key is the key as a store encodes it.
	Key string
	// Answered is false if the side has no such limit, or one whose key has a different number of parts.
	Answered bool
	// Outcome may be [TooLarge] or [NoPlan] on one side of a comparison.
	Outcome Outcome
}
