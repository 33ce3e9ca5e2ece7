package fields

import (
	"cmp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// refusal is a field, or some of its values, that limits of a kind, or precise limits, do not have.
type refusal struct {
	field string
	// message is what the limit does not have, and why is the rest of the diagnostic.
	message, why string
	// help is the remedy; "" to leave the field out.
	help string
	// applies selects the refused values, and schema is the schema of the others, with its own hint. Both are nil if only the
	// value in [withoutEffect] is allowed, or none.
	applies func(p *unchecked) bool
	schema  object
	// byPlan refuses only a map with a value for each plan.
	byPlan bool
}

// withoutEffect has the value with which a field is as if it were left out.
var withoutEffect = map[string]any{"shards": 1, "maxReserved": 0, "precise": false, "count": false}

// hasEffect reports whether a field of withoutEffect has another value.
func (p *unchecked) hasEffect(field string, value *yaml.Node) bool {
	switch field {
	case "shards":
		return p.Shards > 1
	case "maxReserved":
		return p.MaxReserved != 0
	case "count":
		return value.Value == "true"
	}
	return p.Precise
}

// refuses reports whether the refusal applies to a value of its field.
func (r *refusal) refuses(policy *unchecked, value *yaml.Node) bool {
	_, some := withoutEffect[r.field]
	switch isMap := value.Kind == yaml.MappingNode; {
	case r.byPlan:
		return isMap
	case isMap && !isAtMost(value):
		return !some && r.applies == nil // its values are refused for each plan
	case r.applies != nil:
		return r.applies(policy)
	}
	return !some || policy.hasEffect(r.field, value)
}

// allowed is the JSON Schema of limits that the refusal does not apply to.
func (r *refusal) allowed() object {
	then := object{"type": "object"}
	hint := spec.Capital(r.message) + "."
	if r.help != "" {
		hint += " " + spec.Capital(r.help) + "."
	}
	only, some := withoutEffect[r.field]
	switch {
	case r.schema != nil:
		then["properties"] = object{r.field: r.schema}
	case some:
		then["properties"] = object{r.field: object{"const": only, "errorMessage": hint}}
	default:
		then["properties"], then["errorMessage"] = object{r.field: false}, hint
	}
	return then
}

// conditions are the schemas of refusals in limits where a field has a schema.
func conditions(refusals []refusal, field string, value object) (list []any) {
	for _, r := range refusals {
		list = append(list, object{"if": having(field, value), "then": r.allowed()})
	}
	return list
}

// refuse reports the given fields that are refused because of another one, or of the zero entry for no note. It returns
// whether there are none.
func (p *parser) refuse(l *draft, given map[string]document.Entry, broken *ids.Meaning, refusals []refusal,
	because document.Entry) bool {
	before := len(p.doc.Found)
	for _, r := range refusals {
		e, ok := given[r.field]
		if !ok || !r.refuses(&l.policy, e.Value) {
			continue
		}
		help := cmp.Or(r.help, "leave "+r.field+" out")
		if c := l.policy.Calendar; c.Unit != 0 {
			help = strings.Replace(help, aFixedLength, fixedLength(c), 1)
		}
		p.doc.Report(e.At, broken, help, "%s", r.message+r.why)
		p.doc.Note(because.At, because.Name+" is given here")
	}
	return len(p.doc.Found) == before
}

// aFixedLength replaces in a help one that is about as long as the period.
const aFixedLength = "30d"

// kindNeeds reports whether the kind of a limit needs a field. A limit without a valid kind is taken for one that grants
// tokens, as most are, unless it has a hold.
func kindNeeds(field string) func(l *draft) bool {
	return func(l *draft) bool {
		kind := l.policy.Kind
		switch {
		case kind.Known() && !(l.limit.ByDefault["kind"] && l.has("hold")):
		case l.has("hold"):
			kind = runtime.InFlight
		default:
			kind = runtime.TokenBucket
		}
		return slices.Contains(needsOf[kind], field)
	}
}

// needsOf has the fields that each kind needs. It is no part of algorithms, which refer to the table of fields.
var needsOf = map[runtime.Kind][]string{
	runtime.TokenBucket:   {"rate", "period"},
	runtime.FixedWindow:   {"rate", "period"},
	runtime.SlidingWindow: {"rate", "period"},
	runtime.InFlight:      {"capacity", "hold"},
}

// exceptInFlight is what holds without a field that all other kinds need.
const exceptInFlight = "none; required, but not allowed for `in flight`"
