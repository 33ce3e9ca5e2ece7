package gen

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// policyVariable is the policy of a limit, or those of its plans:
//
//	var policiesAPICalls = runtime.PlanPolicies{
//		PlanFree: {
//			Name: "apiCalls",
//			...
//		},
//	}
func policyVariable(l *spec.Limit) *jen.Statement {
	if len(l.Plans) == 0 {
		return policyLiteral(&l.Policy)
	}
	policies := jen.Qual(runtimePath, "PlanPolicies").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, plan := range l.Plans {
			g.Id(spec.PlanGoName(plan.Plan)).Op(":").Add(policyFields(&plan.Policy))
		}
	})
	if l.Overrides != nil {
		policies.Dot("Overridable").Call(jen.Id("planNames"))
	}
	return policies
}

// policyAddresses are the addresses of a limit's policies:
//
//	&policiesAPICalls[PlanFree]
func policyAddresses(l *spec.Limit) (list []jen.Code) {
	if len(l.Plans) == 0 {
		return []jen.Code{jen.Op("&").Id(policyName(l))}
	}
	for _, plan := range l.Plans {
		list = append(list, jen.Op("&").Id(policyName(l)).Index(jen.Id(spec.PlanGoName(plan.Plan))))
	}
	return list
}

// policyLiteral is a policy with its effective values. Defaults are left out.
//
//	runtime.Policy{
//		Name:     "sendMessage",
//		Kind:     runtime.TokenBucket,
//		Rate:     10,
//		Period:   time.Minute,
//		Capacity: 20,
//	}
func policyLiteral(p *runtime.Policy) *jen.Statement {
	return jen.Qual(runtimePath, "Policy").Add(policyFields(p))
}

// policyFields is a policy without its type.
func policyFields(p *runtime.Policy) *jen.Statement {
	return jen.CustomFunc(onePerLine, func(g *jen.Group) { literalFields(g, reflect.ValueOf(*p)) })
}

// literalFields writes the fields of a struct of package runtime. Reflection makes sure that no field is forgotten: one of a
// new type needs a case in [literal], and any other needs no code.
func literalFields(g *jen.Group, of reflect.Value) {
	policy, _ := of.Interface().(runtime.Policy) // the zero Policy for another struct
	for i := range of.NumField() {
		field, value := of.Type().Field(i), of.Field(i)
		switch c := policy.Calendar; {
		case !field.IsExported(): // which the runtime sets
		case field.Name == "Period" && c.Unit != 0:
			// The mean length of a month in seconds is a number that readers cannot recognize.
			unit := runtime.Calendar{Unit: c.Unit, Count: c.Count}
			g.Id("Period").Op(":").Add(literal("Calendar", reflect.ValueOf(unit)).Dot("Period").Call())
		case isDefault(field.Name, value), field.Name == "Capacity" && value.IsZero() &&
			(of.FieldByName("Rate").IsZero() || of.Type() == reflect.TypeFor[runtime.Numbers]()):
		default:
			g.Id(field.Name).Op(":").Add(literal(field.Name, value))
		}
	}
}

// isDefault reports whether a field can be left out.
func isDefault(name string, value reflect.Value) bool {
	// A capacity of 0 is written, because readers know the rate as the default of limits.yaml. One shard means none, as 0 does.
	return value.IsZero() && name != "Capacity" || name == "Shards" && value.Int() == 1
}

// literal is the value of a field, as people would write it.
func literal(name string, value reflect.Value) *jen.Statement {
	switch v := value.Interface().(type) {
	case string, int, bool:
		return jen.Lit(v)
	case int64:
		if name == "MaxReserved" && v == runtime.Unbounded {
			return jen.Qual(runtimePath, "Unbounded")
		}
		if v == runtime.MaxTokens {
			return jen.Qual(runtimePath, "MaxTokens")
		}
		return jen.Op(tokens(v))
	case time.Duration:
		return duration(v)
	case time.Month:
		return jen.Qual(timePath, v.String())
	case runtime.Start:
		return start(v)
	case runtime.Thresholds:
		return thresholds(v)
	case runtime.Penalty:
		return penalty(v)
	case runtime.Calendar, runtime.Date, runtime.Lease, runtime.Numbers, runtime.OverrideBounds:
		return jen.Qual(runtimePath, value.Type().Name()).ValuesFunc(func(g *jen.Group) { literalFields(g, value) })
	case runtime.Kind, runtime.CalendarUnit:
		return constant("", value)
	case runtime.OnError:
		return constant("Fail", value)
	case runtime.Durability, runtime.Mode:
		return constant(value.Type().Name(), value)
	default:
		panic(fmt.Sprintf("gen: no literal for the type %T of runtime.Policy.%s: add a case to literal in gen/policy.go", v, name))
	}
}

// constant is the constant of package runtime for a value that limits.yaml writes in words: runtime.TokenBucket for
// "token bucket".
func constant(prefix string, value reflect.Value) *jen.Statement {
	for word := range strings.FieldsSeq(fmt.Sprint(value)) {
		prefix += strings.ToUpper(word[:1]) + word[1:]
	}
	return jen.Qual(runtimePath, prefix)
}

// tokens is a number of tokens. Numbers of more than four digits have groups of three: 40_000.
func tokens(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	return words.Underscored(n)
}

// duration is a length of time in the longest unit of package time that divides it: time.Minute, 90 * time.Second.
func duration(d time.Duration) *jen.Statement {
	for _, unit := range words.Units {
		if unit.Length > time.Hour || d%unit.Length != 0 || d == 0 {
			continue
		}
		name := jen.Qual(timePath, spec.Capital(unit.Name))
		if n := int64(d / unit.Length); n != 1 {
			return jen.Op(strconv.FormatInt(n, 10)).Op("*").Add(name)
		}
		return name
	}
	return jen.Lit(0)
}

// penalty is a call of PenaltyOf.
func penalty(p runtime.Penalty) *jen.Statement {
	args := []jen.Code{duration(p.Forgive)}
	for _, step := range p.Steps[:p.Len()] {
		args = append(args, duration(step))
	}
	return jen.Qual(runtimePath, "PenaltyOf").Call(args...)
}

// thresholds is a list of percentages.
func thresholds(t runtime.Thresholds) *jen.Statement {
	return jen.Qual(runtimePath, "Thresholds").ValuesFunc(func(g *jen.Group) {
		for _, percent := range t[:t.Len()] {
			g.Lit(int(percent))
		}
	})
}

// start is the start of windows, as the author has probably written it: an offset of more than a year was a date.
func start(s runtime.Start) *jen.Statement {
	const year = 365 * 24 * time.Hour
	offset, _ := s.Offset()
	switch {
	case s.FirstUse():
		return jen.Qual(runtimePath, "StartFirstUse").Call()
	case offset.Abs() < year:
		return jen.Qual(runtimePath, "StartOffset").Call(duration(offset))
	}
	t := time.Unix(0, int64(offset)).UTC()
	return jen.Qual(runtimePath, "StartAt").Call(jen.Qual(timePath, "Date").Call(
		jen.Lit(t.Year()), jen.Qual(timePath, t.Month().String()), jen.Lit(t.Day()),
		jen.Lit(t.Hour()), jen.Lit(t.Minute()), jen.Lit(t.Second()), jen.Lit(t.Nanosecond()),
		jen.Qual(timePath, "UTC"),
	))
}
