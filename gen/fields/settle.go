package fields

import (
	"maps"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// settle fills in the defaults of a limit, and reports fields that contradict each other.
func (p *parser) settle(l *draft) {
	// With fields of another kind, the kind itself may be the error, and the checks below would be misleading.
	if l.gives("kind") && !p.fitsKind(l, l.given) {
		return
	}
	for _, f := range limitFields {
		if f.check != nil {
			f.check(p, l)
		}
	}
}

// settlePlans is settle for the limit of each plan, if the limit depends on the plan.
func (p *parser) settlePlans(l *draft) {
	p.checkCount(l)
	if len(l.byPlan) == 0 {
		p.settle(l)
		return
	}
	byPlan := maps.Clone(l.given)
	maps.DeleteFunc(byPlan, func(field string, _ document.Entry) bool { return l.byPlan[field].Value == nil })
	if len(p.plans) == 0 || p.plansUnknown || !p.fitsKind(l, byPlan) || !p.namesEveryPlan(l) {
		return
	}
	before := len(p.doc.Found)
	for _, plan := range p.plans {
		l.plans = append(l.plans, p.draftOf(l, plan.Name))
	}
	p.dropRepeated(before)
	limited := slices.IndexFunc(l.plans, func(plan *draft) bool { return !plan.numberless && !plan.countsOnly() })
	if limited < 0 {
		limited = slices.IndexFunc(l.plans, (*draft).countsOnly)
	}
	if limited < 0 {
		e := l.byPlan[numberOf(l.hasKind(runtime.InFlight))]
		zero := slices.ContainsFunc(l.plans, func(plan *draft) bool { return !plan.unlimited() })
		switch free := slices.ContainsFunc(l.plans, (*draft).unlimited); {
		case !zero:
			p.doc.Report(e.Named, ids.UnlimitedPlan, "leave the limit out, or give one of the plans a number",
				"a limit that is unlimited for all plans has no effect")
		case free:
			p.doc.Report(e.Named, ids.UnlimitedPlan, "give one of the plans a number", "no plan of the limit has a number")
		default:
			p.doc.Report(e.Named, ids.UnlimitedPlan, "to deny every request, give any "+e.Name+" and write mode: block",
				"the limit is 0 for all plans")
		}
		return
	}
	l.policy = l.plans[limited].policy
	for _, plan := range l.plans {
		if plan.countsOnly() {
			plan.policy.MaxReserved = l.policy.MaxReserved // whether a limit can be reserved is the same for all plans
		}
	}
	if l.policy.Mode == runtime.ModeBlock {
		// Blocking is for all plans. The numbers have no effect, but a policy needs some.
		for _, plan := range l.plans {
			if plan.limit.UnlimitedRate {
				plan.policy = l.policy
			}
		}
	}
}

// namesEveryPlan reports the maps that lack a plan, and those that have an unlimited one.
func (p *parser) namesEveryPlan(l *draft) bool {
	before := len(p.doc.Found)
	for _, f := range limitFields {
		e, ok := l.byPlan[f.name]
		if !ok {
			continue
		}
		var missing []string
		for _, plan := range p.planNames() {
			value, given := e.values[plan]
			number := numberOf(l.hasKind(runtime.InFlight))
			of := l.byPlan[number].values[plan]
			free, zero := false, false
			if f.name != number && of.Value != nil {
				free, zero = document.IsWord(of.Value, unlimited), isZero(of.Value)
			}
			switch {
			case given && free:
				p.doc.Report(value.Named, ids.UnlimitedPlan, "leave "+plan+" out here", "the plan %s is unlimited, so it has no %s",
					diag.Quote(plan), f.name)
				p.doc.Note(of.At, "its rate is given here")
			case given && zero && !isZero(value.Value):
				p.doc.Report(value.Named, ids.UnlimitedPlan, "leave "+plan+" out here", "the plan %s has the %s 0, so it has no %s",
					diag.Quote(plan), number, f.name)
				p.doc.Note(of.At, "its "+number+" is given here")
			case !given && !free && !zero && !e.meant[plan] && !e.anyPlan:
				missing = append(missing, plan)
			}
		}
		if len(missing) > 0 {
			p.doc.Report(e.Named, ids.MissingPlan, "give a value for every plan, or one value for all of them", "%s lacks %s", f.name,
				plansInWords(missing))
		}
	}
	return len(p.doc.Found) == before
}

func plansInWords(plans []string) string {
	if len(plans) == 1 {
		return "the plan " + plans[0]
	}
	return "the plans " + words.List(plans, "and")
}

// draftOf returns the limit of one plan: with the plan's values in place of the maps, which name every plan.
func (p *parser) draftOf(l *draft, plan string) *draft {
	own := *l
	own.plans, own.given, own.numberless = nil, map[string]document.Entry{}, false
	own.limit.Plan, own.limit.Places = plan, map[string]diag.Pos{}
	counted := false
	for _, f := range limitFields {
		e, ok := l.given[f.name]
		if !ok {
			continue
		}
		if byPlan, isMap := l.byPlan[f.name]; isMap {
			if e, ok = byPlan.values[plan]; !ok {
				continue // a plan without numbers is left out
			}
			switch number := f.name == numberOf(l.hasKind(runtime.InFlight)); {
			case number && isUnlimited(e):
				counted = l.counts() && l.hasKind(runtime.FixedWindow)
				own.limit.UnlimitedRate, own.numberless = !counted, !counted
			case number && isZero(e.Value):
				own.numberless = true
			default:
				f.read(p, &own, e)
			}
		}
		own.keep(f.name, e)
	}
	if own.numberless {
		mode := own.policy.Mode
		if own.limit.UnlimitedRate {
			mode = runtime.ModeUnlimited
		}
		// The plan has no rule, not even the numbers that all plans share. Its shards stay, because the rows of the other plans
		// have them.
		own.policy = unchecked{Name: own.policy.Name, Kind: own.policy.Kind, Precise: own.policy.Precise,
			Shards: own.policy.Shards, AtMost: own.policy.AtMost, Mode: mode}
		return &own
	}
	if counted {
		own.countUnlimited()
	}
	p.settle(&own)
	if counted {
		own.policy.Penalty = runtime.Penalty{}
	}
	return &own
}

// dropRepeated drops the diagnostics after the first n that several plans have in common.
func (p *parser) dropRepeated(n int) {
	kept := p.doc.Found[:n]
	for _, d := range p.doc.Found[n:] {
		if !slices.ContainsFunc(kept[n:], func(o diag.Diagnostic) bool { return o.ID == d.ID && o.Pos == d.Pos && o.Message == d.Message }) {
			kept = append(kept, d)
		}
	}
	p.doc.Found = kept
}

// finish makes the limit of a draft without diagnostics, and checks what must hold between its plans.
func (p *parser) finish(l *draft, e document.Entry) {
	limit := p.limitOf(l, e)
	for _, draft := range l.plans {
		plan := p.limitOf(draft, e)
		if limit == nil || plan == nil {
			return
		}
		limit.Plans = append(limit.Plans, plan)
	}
	if limit == nil || !p.sameMethods(l, limit) || !p.carryAlike(l, limit) {
		return
	}
	before := len(p.doc.Found)
	p.finishExceptions(l, limit)
	if p.finishPriorities(l, limit); len(p.doc.Found) == before {
		for _, plan := range limit.Plans {
			plan.Exceptions = limit.Exceptions
		}
		l.done = limit
	}
}

// limitOf returns the limit of a draft, or nil if the runtime would refuse it.
func (p *parser) limitOf(l *draft, e document.Entry) *spec.Limit {
	limit, err := spec.NewLimit(runtime.Policy(l.policy), l.limit)
	if err != nil {
		// A value that could not be read, or the plans of the file, may have a diagnostic already. The checks of fields and of
		// their combinations have better messages: this one is for cases that they miss.
		if len(p.doc.Found) == 0 {
			p.doc.Report(e.Named, ids.OutOfRange, "", "%v", err)
		}
		return nil
	}
	return limit
}
