package gen

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Generated code must not drop a field of the policy. The generated program checks the values, see [behaves].
func TestEveryPolicyFieldIsEmitted(t *testing.T) {
	for name := range exported[runtime.Policy]() {
		if name == "Priority" {
			continue // in a policy for each class, which the runtime makes
		}
		p := runtime.Policy{Kind: runtime.TokenBucket}
		setAny(t, reflect.ValueOf(&p).Elem().FieldByName(name), name)
		assert.Regexp(t, `\b`+name+`:`, fmt.Sprintf("%#v", policyLiteral(&p)), "generated code drops runtime.Policy.%s: see fields and literal in gen/policy.go", name)
	}
	var calendar runtime.Calendar
	var lease runtime.Lease
	setAny(t, reflect.ValueOf(&calendar).Elem(), "Calendar")
	setAny(t, reflect.ValueOf(&lease).Elem(), "Lease")
	code := fmt.Sprintf("%#v", policyLiteral(&runtime.Policy{Kind: runtime.FixedWindow, Calendar: calendar, Lease: lease}))
	_, calendarCode, _ := strings.Cut(code, "Calendar:")
	_, leaseCode, _ := strings.Cut(code, "Lease:")
	for name := range exported[runtime.Calendar]() {
		assert.Regexp(t, `\b`+name+`:`, calendarCode, "generated code drops runtime.Calendar.%s: see literal in gen/policy.go", name)
	}
	for name := range exported[runtime.Lease]() {
		assert.Regexp(t, `\b`+name+`:`, leaseCode, "generated code drops runtime.Lease.%s: see literal in gen/policy.go", name)
	}
}

// exported returns the exported fields of a struct.
func exported[T any]() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range reflect.TypeFor[T]().NumField() {
			if f := reflect.TypeFor[T]().Field(i); f.IsExported() && !yield(f.Name) {
				return
			}
		}
	}
}

// setAny sets a value to one that is not the default of its field.
func setAny(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[runtime.Start]():
		v.Set(reflect.ValueOf(runtime.StartFirstUse()))
	case v.Type() == reflect.TypeFor[runtime.Date]():
		v.Set(reflect.ValueOf(runtime.Date{Year: 2024, Month: time.April, Day: 6}))
	case v.Type() == reflect.TypeFor[runtime.Lease](), v.Type() == reflect.TypeFor[runtime.Numbers](), v.Type() == reflect.TypeFor[runtime.Calendar](), v.Type() == reflect.TypeFor[runtime.OverrideBounds](),
		v.Type() == reflect.TypeFor[runtime.Penalty]():
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				setAny(t, v.Field(i), v.Type().Field(i).Name)
			}
		}
	case v.Kind() == reflect.Array:
		setAny(t, v.Index(0), name)
	case v.CanInt() && name == "Shards":
		v.SetInt(2)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	default:
		require.Fail(t, "new type", "add a case for %s, %v, to setAny in gen/policy_test.go", name, v.Type())
	}
}

// The golden files must show each field and each word of a policy: only they are compiled and run.
func TestGoldenFilesHaveEveryPolicyField(t *testing.T) {
	var set []string
	words := map[string]bool{}
	for _, golden := range goldens {
		for _, l := range eachPlan(limitsOf(t, golden)) {
			v := reflect.ValueOf(l.Policy)
			for i := range v.NumField() {
				if !isDefault(v.Type().Field(i).Name, v.Field(i)) {
					set = append(set, v.Type().Field(i).Name)
				}
			}
			for _, word := range []fmt.Stringer{l.Policy.Kind, l.Policy.OnError, l.Policy.Mode, l.Policy.Durability} {
				words[fmt.Sprintf("%T %v", word, word)] = true
			}
		}
	}
	set = append(set, "Priority") // in a policy for each class, which the runtime makes
	for name := range exported[runtime.Policy]() {
		assert.Contains(t, set, name, "no golden file sets runtime.Policy.%s: add a limit to testdata/gen/kinds/limits.yaml", name)
	}
	for _, want := range allWords() {
		assert.True(t, words[want], "no golden file has the %s: add a limit to testdata/gen/kinds/limits.yaml", want)
	}
}

// eachPlan returns the limits for each of their plans.
func eachPlan(limits []*spec.Limit) (all []*spec.Limit) {
	for _, l := range limits {
		all = append(all, l.Each()...)
	}
	return all
}

// allWords lists the values of the types that limits.yaml writes in words.
func allWords() []string {
	return slices.Concat(texts(runtime.Kinds()), texts(runtime.OnErrors()), texts(runtime.Modes()), texts(runtime.Durabilities()))
}

// texts lists values with their type.
func texts[W fmt.Stringer](all []W) (list []string) {
	for _, w := range all {
		list = append(list, fmt.Sprintf("%T %v", w, w))
	}
	return list
}

func TestNumbersAndDurationsAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Hour: "time.Hour", 90 * time.Second: "90 * time.Second", 1500 * time.Microsecond: "1500 * time.Microsecond",
		1: "time.Nanosecond", runtime.MaxPeriod: "87600 * time.Hour", -90 * time.Minute: "-90 * time.Minute", 0: "0",
	} {
		assert.Equal(t, want, fmt.Sprintf("%#v", duration(d)))
	}
	for n, want := range map[int64]string{
		0: "0", 9999: "9999", 10_000: "10_000", 123_456: "123_456", 1_000_000: "1_000_000", runtime.MaxTokens: "1_000_000_000_000_000",
	} {
		assert.Equal(t, want, tokens(n))
	}
}
