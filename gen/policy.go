package gen

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// policyLiteral is a policy with its effective values, after its type. Defaults are left out.
//
//	runtime.Policy{
//		Name:     "sendMessage",
//		Kind:     runtime.TokenBucket,
//		Rate:     10,
//		Period:   time.Minute,
//		Capacity: 20,
//	}
func policyLiteral(of string, p *runtime.Policy) string {
	return onePerLine(of, literalFields(reflect.ValueOf(*p))...)
}

// literalFields returns the fields of a struct of package runtime. Reflection makes sure that no field is forgotten: one of a new
// type needs a case in [literal], and any other needs no code.
func literalFields(of reflect.Value) (list []string) {
	policy, _ := of.Interface().(runtime.Policy) // the zero Policy for another struct
	for i := range of.NumField() {
		field, value := of.Type().Field(i), of.Field(i)
		switch c := policy.Calendar; {
		case !field.IsExported(): // which the runtime sets
		case field.Name == "Period" && c.Unit != 0:
			// The mean length of a month in seconds is a number that readers cannot recognize.
			unit := runtime.Calendar{Unit: c.Unit, Count: c.Count}
			list = append(list, "Period: "+literal("Calendar", reflect.ValueOf(unit))+".Period()")
		case isDefault(field.Name, value), field.Name == "Capacity" && value.IsZero() && (policy.Mode == runtime.ModeUnlimited || of.Type() == reflect.TypeFor[runtime.Numbers]()):
		default:
			list = append(list, field.Name+": "+literal(field.Name, value))
		}
	}
	return list
}

// isDefault reports whether a field can be left out.
func isDefault(name string, value reflect.Value) bool {
	// A capacity of 0 is written, because readers know the rate as the default of limits.yaml. One shard means none, as 0 does.
	return value.IsZero() && name != "Capacity" || name == "Shards" && value.Int() == 1
}

// literal is the value of a field, as people would write it.
func literal(name string, value reflect.Value) string {
	switch v := value.Interface().(type) {
	case string:
		return strconv.Quote(v)
	case int, bool:
		return fmt.Sprint(v)
	case int64:
		if name == "MaxReserved" && v == runtime.Unbounded {
			return "runtime.Unbounded"
		}
		return tokens(v)
	case time.Duration:
		return duration(v)
	case time.Month:
		return "time." + v.String()
	case runtime.Start:
		return start(v)
	case runtime.Penalty:
		return "runtime.PenaltyOf(" + strings.Join(words.Of(append([]time.Duration{v.Forgive}, v.Steps[:v.Len()]...), duration), ", ") + ")"
	case runtime.Calendar, runtime.Date, runtime.Lease, runtime.Numbers, runtime.OverrideBounds:
		return "runtime." + value.Type().Name() + "{" + strings.Join(literalFields(value), ", ") + "}"
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
func constant(prefix string, value reflect.Value) string {
	for word := range strings.FieldsSeq(fmt.Sprint(value)) {
		prefix += strings.ToUpper(word[:1]) + word[1:]
	}
	return "runtime." + prefix
}

// tokens is a number of tokens. Numbers of more than four digits have groups of three: 40_000.
func tokens(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	return strings.ReplaceAll(words.Number(n), ",", "_")
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
func duration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	i := 0
	for d%units[i].length != 0 {
		i++
	}
	if n := int64(d / units[i].length); n != 1 {
		return strconv.FormatInt(n, 10) + " * time." + units[i].name
	}
	return "time." + units[i].name
}

// start is the start of windows, as the author has probably written it: an offset of more than a year was a date.
func start(s runtime.Start) string {
	const year = 365 * 24 * time.Hour
	offset, _ := s.Offset()
	switch {
	case s.FirstUse():
		return "runtime.StartFirstUse()"
	case offset.Abs() < year:
		return "runtime.StartOffset(" + duration(offset) + ")"
	}
	t := time.Unix(0, int64(offset)).UTC()
	return fmt.Sprintf("runtime.StartAt(time.Date(%d, time.%s, %d, %d, %d, %d, %d, time.UTC))",
		t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond())
}
