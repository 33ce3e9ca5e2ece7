package runtime_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

func TestNegativeNumbersAreRefused(t *testing.T) {
	var fields func(v reflect.Value, name string)
	p := bucket("limit", 10)
	fields = func(v reflect.Value, name string) {
		for i := range v.NumField() {
			field, name := v.Field(i), name+"."+v.Type().Field(i).Name
			switch {
			case field.Kind() == reflect.Struct && field.Type() != reflect.TypeFor[runtime.Start]():
				fields(field, name)
			case field.CanInt() && field.CanSet():
				before := field.Int()
				field.SetInt(-1)
				require.ErrorIs(t, p.Validate(), runtime.ErrInvalidPolicy, "%s is -1: add a case to problem in runtime/policy.go", name)
				field.SetInt(before)
			}
		}
	}
	fields(reflect.ValueOf(p).Elem(), "Policy")
	require.NoError(t, p.Validate())
}

func TestInvalidPolicyIsRefused(t *testing.T) {
	valid := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Period: time.Second, Capacity: 10, MaxReserved: 10}
	require.NoError(t, valid.Validate())
	for _, row := range []struct {
		edit func(*runtime.Policy)
		want string
	}{
		{func(p *runtime.Policy) { p.Name = "" }, "the name is empty"},
		{func(p *runtime.Policy) { p.Kind = 0 }, "Kind(0) is not one of the kinds token bucket, fixed window, sliding window"},
		{func(p *runtime.Policy) { p.Kind = 200 }, "Kind(200) is not one of the kinds token bucket, fixed window, sliding window"},
		{func(p *runtime.Policy) { p.Rate = 0 }, "rate 0 is not between 1 and 1000000000000000"},
		{func(p *runtime.Policy) { p.Rate = runtime.MaxTokens + 1 }, "rate 1000000000000001 is not between 1 and 1000000000000000"},
		{func(p *runtime.Policy) { p.Period = 0 }, "period 0s is not between 1ns and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Period = runtime.MaxPeriod + 1 }, "period 87600h0m0.000000001s is not between 1ns and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Capacity = -1 }, "capacity -1 is not between 0 and 1000000000000000"},
		{func(p *runtime.Policy) { p.MaxReserved = -1 }, "maxReserved -1 is not between 0 and 1000000000000000"},
		{func(p *runtime.Policy) { p.Capacity, p.MaxReserved = 0, 0 }, "no request can pass with capacity 0 and maxReserved 0: raise one of them"},
		{func(p *runtime.Policy) { p.Kind, p.Capacity = runtime.SlidingWindow, 5 }, "the capacity of a sliding window must equal its rate, 10, but is 5"},
		{func(p *runtime.Policy) { p.Kind = runtime.SlidingWindow }, "a sliding window cannot be reserved ahead: leave MaxReserved at 0"},
		{func(p *runtime.Policy) { p.Kind, p.Start = runtime.TokenBucket, runtime.StartOffset(0) }, "a token bucket has no windows: leave Start out"},
		{func(p *runtime.Policy) {
			p.Kind, p.MaxReserved, p.Start = runtime.SlidingWindow, 0, runtime.StartFirstUse()
		}, "a sliding window cannot start at first use: give an offset, or leave Start out"},
		{func(p *runtime.Policy) { p.Shards = -1 }, "shards -1 is not between 0 and 1024"},
		{func(p *runtime.Policy) { p.Shards = runtime.MaxShards + 1 }, "shards 1025 is not between 0 and 1024"},
		{func(p *runtime.Policy) { p.Shards, p.Start = 2, runtime.StartFirstUse() }, "windows that start at first use cannot have shards: each shard would start its own window"},
		{func(p *runtime.Policy) { p.Shards, p.Capacity, p.MaxReserved = 11, 20, 20 }, "rate 10 over 11 shards leaves a shard without a token"},
		{func(p *runtime.Policy) { p.Shards, p.Capacity = 6, 5 }, "capacity 5 over 6 shards leaves a shard without a token"},
		{func(p *runtime.Policy) { p.Shards, p.MaxReserved = 6, 5 }, "maxReserved 5 over 6 shards leaves a shard without a token"},
		{func(p *runtime.Policy) { p.Timeout = -1 }, "timeout -1ns is not between 0s and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Jitter = -1 }, "jitter -1ns is not between 0s and 87600h0m0s"},
		{func(p *runtime.Policy) { p.DenyCache = -1 }, "denyCache -1ns is not between 0s and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Lease.Tokens = 5 }, "a lease for 0s is not between 1ns and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Lease.For = 5 }, "a lease of 0 tokens is not between 1 and the capacity, 10"},
		{func(p *runtime.Policy) { p.Lease = runtime.Lease{Tokens: 11, For: 1} }, "a lease of 11 tokens is not between 1 and the capacity, 10"},
		{func(p *runtime.Policy) { p.Lease, p.Start = runtime.Lease{Tokens: 1, For: 1}, runtime.StartFirstUse() }, "windows that start at first use cannot be leased: their end is not known in advance"},
		{func(p *runtime.Policy) { p.OnError = 3 }, "OnError(3) is not FailClosed, FailOpen or FailLocal"},
		{func(p *runtime.Policy) { p.Durability = 3 }, "Durability(3) is not DurabilityDefault, DurabilityRelaxed or DurabilityFull"},
	} {
		p := valid
		row.edit(&p)
		err := p.Validate()
		require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
		require.EqualError(t, err, "invalid policy: "+row.want)
	}
}

func TestStartReportsItsMode(t *testing.T) {
	offset, aligned := runtime.StartAt(time.Unix(90, 0)).Offset()
	require.True(t, aligned)
	require.Equal(t, 90*time.Second, offset)
	_, aligned = runtime.Start{}.Offset()
	require.False(t, aligned)
	require.True(t, runtime.StartFirstUse().FirstUse())
	require.False(t, runtime.StartOffset(0).FirstUse())
}

func TestStringsAreTheWordsOfLimitsYAML(t *testing.T) {
	require.Equal(t, "[token bucket fixed window sliding window]", fmt.Sprint(runtime.Kinds()))
	require.Equal(t, "[closed open local]", fmt.Sprint(runtime.OnErrors()))
	require.Equal(t, "[relaxed full]", fmt.Sprint(runtime.Durabilities()))
}

// unknownKind is the first Kind that is not declared.
var unknownKind = runtime.Kind(len(runtime.Kinds()) + 1)

// An unknown Op is an error, neither an allowance nor a denial, by every way to execute a request.
func TestUnknownOpIsAnError(t *testing.T) {
	ops := len(constants(t, "Op"))
	unknown := runtime.Request{Op: runtime.Op(ops), Count: 1}
	require.Equal(t, fmt.Sprintf("Reset Op(%d)", ops), fmt.Sprint(runtime.Reset, unknown.Op))
	for _, kind := range runtime.Kinds() {
		p := bucket("limit", 10)
		p.Kind, p.Rate = kind, 10
		rule := meter.RuleOf(p, "")
		s := runtime.State{Value: -5, TS: epoch.UnixNano(), Exists: true}
		after, d, err := rule.Step(s, epoch.UnixNano(), unknown)
		require.ErrorIs(t, err, runtime.ErrInvalidCall)
		require.False(t, d.Allowed)
		require.Equal(t, s, after)
		_, ok := rule.Upsert(epoch.UnixNano(), unknown)
		require.False(t, ok)

		p.Shards = 4
		answer := do(t, still(), call(request(p, unknown)))[0]
		require.ErrorIs(t, answer.Err, runtime.ErrInvalidCall)
		_, err = meter.StepShards(p, make([]runtime.State, 4), "", epoch.UnixNano(), unknown, 1)
		require.ErrorIs(t, err, runtime.ErrInvalidCall)
	}
}

func TestUnknownKindIsAnError(t *testing.T) {
	for _, kind := range []runtime.Kind{0, unknownKind} {
		rule := meter.Rule{Kind: kind, Rate: 10, Capacity: 10, Period: int64(time.Second)}
		for op := range runtime.Op(len(constants(t, "Op"))) {
			_, d, err := rule.Step(runtime.State{}, epoch.UnixNano(), runtime.Request{Op: op, Count: 1})
			require.ErrorIs(t, err, runtime.ErrInvalidPolicy, "%v", op)
			require.False(t, d.Allowed)
		}
		_, ok := rule.Upsert(epoch.UnixNano(), take(1))
		require.False(t, ok)
	}
}

// Rules made by hand can have any Kind. Where there is no error to return, an unknown Kind panics: if it behaved like one of
// the others, a new kind without an algorithm would pass the tests.
func TestUnknownKindHasNoArithmetic(t *testing.T) {
	for _, kind := range []runtime.Kind{0, unknownKind, 255} {
		rule := meter.Rule{Kind: kind, Rate: 10, Capacity: 10, Period: int64(time.Second)}
		message := fmt.Sprintf("runtime: Kind(%d) has no algorithm: add it to algorithms in meter/kinds.go", kind)
		require.PanicsWithValue(t, message, func() { rule.Full(runtime.State{Exists: true}, 0) })
		require.PanicsWithValue(t, message, func() { rule.WindowEnd(0) })
		require.False(t, kind.Linear())
		require.False(t, kind.Windowed())
	}
}

func TestEveryKindHasAnAlgorithm(t *testing.T) {
	names := constants(t, "Kind")
	require.Len(t, runtime.Kinds(), len(names), "a constant of type Kind is missing in Kinds: declare it before endOfKinds in "+
		"policy.go, and add it to the table kinds there. The constants are %v", names)
	for i, kind := range runtime.Kinds() {
		where := fmt.Sprintf("%s needs an entry in the table kinds in policy.go, and one in algorithms in meter/kinds.go", names[i])
		require.Equal(t, strings.ToLower(kind.String()), kind.String(), where)
		require.Equal(t, names[i], strings.ReplaceAll(titled(kind.String()), " ", ""), "the constant and the name in limits.yaml differ. "+where)
		p := bucket("limit", 10)
		p.Kind, p.Rate = kind, 10
		require.NoError(t, p.Validate(), "a plain policy must be valid for every kind. "+where)
		rule, s := meter.RuleOf(p, "key"), runtime.State{Value: -5, TS: epoch.UnixNano(), Exists: true}
		require.NotPanics(t, func() {
			rule.Full(s, epoch.UnixNano())
			rule.WindowEnd(epoch.UnixNano())
			_, ok := rule.Upsert(epoch.UnixNano(), take(1))
			require.Equal(t, kind.Linear(), ok, "%v: a single statement decides the linear kinds", kind)
		}, where)
	}
}

func TestEveryOpIsExecuted(t *testing.T) {
	for i, name := range constants(t, "Op") {
		op := runtime.Op(i)
		require.Equal(t, name, op.String(), "%s needs an entry in the table ops in request.go, and must be declared before endOfOps", name)
		for _, kind := range runtime.Kinds() {
			p := bucket("limit", 10)
			p.Kind, p.Rate = kind, 10
			rule, s := meter.RuleOf(p, ""), runtime.State{Value: -5, TS: epoch.UnixNano(), Exists: true}
			require.NotPanics(t, func() {
				_, d, err := rule.Step(s, epoch.UnixNano(), runtime.Request{Op: op, Count: 1})
				require.NoError(t, err, "%s on a %v", name, kind)
				require.True(t, d.Allowed, "%s on a %v", name, kind)
			}, "%s needs a case in Rule.Step in meter/step.go", name)
		}
	}
}

func TestEveryOnErrorAndDurabilityIsNamedAndValid(t *testing.T) {
	const where = "add it to String, to the list of its type and to Policy.problem, all in policy.go"
	onErrors, durabilities := constants(t, "OnError"), constants(t, "Durability")
	require.Len(t, runtime.OnErrors(), len(onErrors), where)
	require.Len(t, runtime.Durabilities(), len(durabilities)-1, "%s: all but DurabilityDefault", where)
	for i, name := range onErrors {
		p := bucket("limit", 1)
		p.OnError = runtime.OnError(i)
		require.NoError(t, p.Validate(), where)
		require.Equal(t, name, "Fail"+titled(p.OnError.String()), where)
	}
	for i, name := range durabilities {
		p := bucket("limit", 1)
		p.Durability = runtime.Durability(i)
		require.NoError(t, p.Validate(), where)
		require.Equal(t, name, "Durability"+titled(p.Durability.String()), where)
	}
}

// titled returns a text with a capital letter at the start of each word.
func titled(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, " ")
}

// constants returns the names of the exported constants of a type in this package, in the order of their declaration. They
// are read from the source, because a constant that is forgotten elsewhere is found nowhere else.
func constants(t *testing.T, typeName string) []string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var names []string
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range f.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST || f.Name.Name != "runtime" {
				continue
			}
			var typ ast.Expr
			for _, spec := range group.Specs {
				// A constant without type and value repeats those before it.
				if v := spec.(*ast.ValueSpec); v.Type != nil || v.Values != nil {
					typ = v.Type
				}
				if id, ok := typ.(*ast.Ident); ok && id.Name == typeName {
					for _, name := range spec.(*ast.ValueSpec).Names {
						if name.IsExported() {
							names = append(names, name.Name)
						}
					}
				}
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}
