package spec

import (
	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Exception is what a limit gives one key in place of its numbers.
type Exception struct {
	// Given is what the file gives: a plan, numbers or a mode.
	Given runtime.Exception
	// Parts are the parts of the key, as the file has them.
	Parts []string
	// Plan is the name of the plan, or "".
	Plan string
	// Pos is the place of the exception.
	Pos diag.Pos
}

// Except returns the limit as it is for the key of an exception: without plans if it is the same for all.
func (l *Limit) Except(x *Exception) *Limit {
	of := *l
	of.Exceptions = nil
	switch {
	case x.Plan != "":
		plan := *l.ForPlan(x.Plan)
		plan.Plan, plan.Exceptions = "", nil
		return &plan
	case x.Given.Mode == runtime.ModeBlock, x.Given.Numbers.Unlimited, len(l.Plans) == 0:
		of.Plans, of.Policy = nil, *l.Policy.Inside().With(x.Given)
		of.UnlimitedRate = of.Unlimited()
		return &of
	}
	of.Plans = nil
	for i := len(l.Plans) - 1; i >= 0; i-- {
		plan := *l.Plans[i]
		plan.Exceptions, plan.Policy = nil, *plan.Policy.Inside().With(x.Given)
		if of.Plans = append([]*Limit{&plan}, of.Plans...); !plan.Numberless() {
			of.Policy = plan.Policy
		}
	}
	return &of
}

// GivenExceptions returns what the file gives single keys, as the runtime takes it.
func (l *Limit) GivenExceptions() (list []runtime.Exception) {
	for _, x := range l.Exceptions {
		list = append(list, x.Given)
	}
	return list
}
