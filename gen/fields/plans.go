package fields

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var plansField = fileField{
	name: "plans", synonyms: []string{"plan", "tiers", "tier"},
	about:     "The plans of your customers. `rate`, `capacity`, `hold`, `maxReserved`, `penalty` and, for a token bucket, `period` may be a map with a value for each. The method of such a limit takes the plan as its last parameter.",
	more:      "Each map has every plan, except that a plan whose rate is `unlimited` or 0 has no other numbers. A key has one count, whatever its plan.",
	accepts:   "a list of names: each begins with a letter and has letters, digits, and single dashes or underscores between them",
	absent:    "limits are the same for all callers",
	example:   "[free, pro]",
	schema:    plansSchema,
	read:      (*parser).readPlans,
	change:    ids.PlansChanged,
	effective: func(f *spec.File) string { return Listed(f.PlanNames()) },
}

// maxPlans bounds what every number by plan, and every limit with one, costs.
const maxPlans = 100

// readPlans reads the plans of the file.
func (p *parser) readPlans(file *spec.File, e document.Entry) bool {
	before := len(p.doc.Found)
	switch {
	case e.Value.Kind != yaml.SequenceNode:
		p.doc.WrongType(e, "a list of names", "write plans: [free, pro]")
	case len(e.Value.Content) == 0:
		p.doc.Report(e.At, ids.BadPlan, "name at least one, or leave plans out", "plans must not be empty")
	case len(e.Value.Content) > maxPlans:
		p.doc.Report(e.At, ids.BadPlan, "give customers with numbers of their own overrides",
			"a file has at most %d plans, not %s", maxPlans, words.Number(int64(len(e.Value.Content))))
	default:
		file.Plans = p.readPlanNames(e.Value.Content)
	}
	ok := len(p.doc.Found) == before
	if !e.Again {
		p.plans = file.Plans
		p.plansUnknown = !ok ||
			slices.ContainsFunc(e.Value.Content, func(item *yaml.Node) bool { return p.doc.Muted(item) })
	}
	return ok
}

func (p *parser) readPlanNames(items []*yaml.Node) (plans []spec.Plan) {
	names := map[string]diag.Span{}
	for _, item := range items {
		at := p.doc.Source.At(item)
		if p.doc.Muted(item) || !p.planName(item, at) {
			continue
		}
		plan := spec.Plan{Name: item.Value, GoName: spec.PlanGoName(item.Value), Pos: at.Pos}
		if p.doc.Twice(names, plan.Name, at, "the plan ") {
			continue
		}
		p.claim(owner{what: "the plan " + diag.Quote(plan.Name), at: at, plan: true}, "name "+plan.GoName)
		plans = append(plans, plan)
	}
	return plans
}

func (p *parser) planNames() []string { return spec.PlanNames(p.plans) }

var planForm = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]*([-_][a-zA-Z0-9]+)*$`)

// longestPlan is the length of the longest name of a plan, which is printed in columns and in names of constants.
const longestPlan = 40

const planHelp = "begin with a letter, and use letters and digits, with single dashes or underscores between them"

// planName reports the name of a plan that is not valid.
func (p *parser) planName(item *yaml.Node, at diag.Span) bool {
	switch {
	case !document.IsString(item):
		p.doc.Report(at, ids.BadPlan, planHelp, "the name of a plan must be text, not %s", document.Describe(item))
		if item.Kind == yaml.ScalarNode && planForm.MatchString(item.Value) {
			p.doc.Offer(strconv.Quote(item.Value)) // such as true, which is a name in quotes
		}
	case len(item.Value) > longestPlan:
		p.doc.Report(at, ids.BadPlan, "choose a shorter name", "the name of a plan has at most %d characters, and %s has %d",
			longestPlan, diag.Quote(item.Value), len([]rune(item.Value)))
	case !planForm.MatchString(item.Value):
		p.doc.Report(at, ids.BadPlan, planHelp,
			"the name of a plan must have letters and digits only, with dashes or underscores between them, not %s", diag.Quote(item.Value))
		if better := strings.Join(spec.PlanWords(item.Value), "-"); planForm.MatchString(better) {
			p.doc.Offer(better)
		}
	default:
		return true
	}
	return false
}

var plansSchema = object{
	"type": "array", "minItems": 1, "maxItems": maxPlans, "uniqueItems": true,
	"items": object{"type": "string", "pattern": planForm.String(), "maxLength": longestPlan, "patternErrorMessage": spec.Capital(planHelp) + "."},
}

// Listed is a list as limits.yaml writes it; "" for an empty one.
func Listed(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "[" + strings.Join(names, ", ") + "]"
}
