package spec

import "github.com/ratelimitgen/ratelimitgen/runtime"

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
