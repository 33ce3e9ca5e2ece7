package gen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

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

// literalFields writes the fields of a struct of package runtime. Reflection makes sure that no field is forgotten: one of a new
// type needs a case in [literal], and any other needs no code.
func literalFields(g *jen.Group, of reflect.Value) {
	for i := range of.NumField() {
		if !of.Type().Field(i).IsExported() {
			continue // which the runtime sets
		}
		name, value := of.Type().Field(i).Name, of.Field(i)
		if c := calendarOf(of); name == "Period" && c.Unit != 0 {
			// The mean length of a month in seconds is a number that readers cannot recognize.
			unit := runtime.Calendar{Unit: c.Unit, Count: c.Count}
			g.Id(name).Op(":").Add(literal("Calendar", reflect.ValueOf(unit)).Dot("Period").Call())
			continue
		}
		if !isDefault(name, value) && !(name == "Capacity" && unlimited(of)) {
			g.Id(name).Op(":").Add(literal(name, value))
		}
	}
}

// unlimited reports whether a struct is the policy of an unlimited plan, which has no numbers.
func unlimited(of reflect.Value) bool {
	p, ok := of.Interface().(runtime.Policy)
	return ok && p.Mode == runtime.ModeUnlimited
}

// calendarOf returns the calendar of a policy, and the zero Calendar for another struct.
func calendarOf(of reflect.Value) runtime.Calendar {
	p, _ := of.Interface().(runtime.Policy)
	return p.Calendar
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
		return tokens(v)
	case time.Duration:
		return duration(v)
	case runtime.Start:
		return start(v)
	case runtime.Calendar:
		return jen.Qual(runtimePath, "Calendar").ValuesFunc(func(g *jen.Group) { literalFields(g, value) })
	case runtime.CalendarUnit:
		return constant("", v)
	case runtime.Date:
		return jen.Qual(runtimePath, "Date").Values(
			jen.Id("Year").Op(":").Lit(v.Year), jen.Id("Month").Op(":").Qual(timePath, v.Month.String()), jen.Id("Day").Op(":").Lit(v.Day))
	case runtime.Kind:
		return constant("", v)
	case runtime.OnError:
		return constant("Fail", v)
	case runtime.Durability:
		return constant("Durability", v)
	case runtime.Mode:
		return constant("Mode", v)
	case runtime.OverrideBounds:
		return jen.Qual(runtimePath, "OverrideBounds").ValuesFunc(func(g *jen.Group) { literalFields(g, value) })
	case runtime.Lease:
		return jen.Qual(runtimePath, "Lease").ValuesFunc(func(g *jen.Group) { literalFields(g, value) })
	default:
		panic(fmt.Sprintf("gen: no literal for the type %T of runtime.Policy.%s: add a case to literal in gen/policy.go", v, name))
	}
}

// LostReservations returns the names of the limits that generated code lets callers reserve without a bound, although the
// file leaves out maxReserved: the code is from a version of this generator for which that meant unbounded.
func LostReservations(code []byte, file *spec.File) (names []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", code, 0)
	if err != nil {
		return nil // it may have been edited
	}
	unbounded := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if declared, ok := n.(*ast.ValueSpec); ok && len(declared.Values) == 1 {
			unbounded[declared.Names[0].Name] = reservesUnbounded(declared.Values[0])
		}
		return true
	})
	for _, l := range file.Limits {
		if _, given := l.Given["maxReserved"]; !given && unbounded[policyName(l)] {
			names = append(names, l.Policy.Name)
		}
	}
	return names
}

// reservesUnbounded reports whether an expression is the literal of a policy with unbounded reservations.
func reservesUnbounded(policy ast.Expr) bool {
	literal, ok := policy.(*ast.CompositeLit)
	return ok && slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
		field, ok := e.(*ast.KeyValueExpr)
		return ok && types.ExprString(field.Key) == "MaxReserved" && types.ExprString(field.Value) == "runtime.Unbounded"
	})
}

// constant is the constant of package runtime for a value that limits.yaml writes in words: runtime.TokenBucket for
// "token bucket".
func constant(prefix string, value fmt.Stringer) *jen.Statement {
	for word := range strings.FieldsSeq(value.String()) {
		prefix += strings.ToUpper(word[:1]) + word[1:]
	}
	return jen.Qual(runtimePath, prefix)
}

// tokens is a number of tokens. Numbers of more than four digits have groups of three: 40_000.
func tokens(n int64) *jen.Statement {
	digits := strconv.FormatInt(n, 10)
	if len(digits) > 4 {
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "_" + digits[i:]
		}
	}
	return jen.Op(digits)
}

var units = []struct {
	length time.Duration
	name   string
}{
	{time.Hour, "Hour"},
	{time.Minute, "Minute"},
	{time.Second, "Second"},
	{time.Millisecond, "Millisecond"},
	{time.Microsecond, "Microsecond"},
	{time.Nanosecond, "Nanosecond"},
}

// duration is a length of time in the longest unit that divides it: time.Minute, 90 * time.Second.
func duration(d time.Duration) *jen.Statement {
	if d == 0 {
		return jen.Lit(0)
	}
	i := 0
	for d%units[i].length != 0 {
		i++
	}
	unit := jen.Qual(timePath, units[i].name)
	if n := int64(d / units[i].length); n != 1 {
		return jen.Op(strconv.FormatInt(n, 10)).Op("*").Add(unit)
	}
	return unit
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
	return jen.Qual(runtimePath, "StartAt").Call(date(time.Unix(0, int64(offset)).UTC()))
}

// date is an instant: time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC).
func date(t time.Time) *jen.Statement {
	return jen.Qual(timePath, "Date").Call(
		jen.Lit(t.Year()), jen.Qual(timePath, t.Month().String()), jen.Lit(t.Day()),
		jen.Lit(t.Hour()), jen.Lit(t.Minute()), jen.Lit(t.Second()), jen.Lit(t.Nanosecond()),
		jen.Qual(timePath, "UTC"),
	)
}
