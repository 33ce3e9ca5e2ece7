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
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
)

func TestNegativeNumbersAreRefused(t *testing.T) {
	var fields func(v reflect.Value, name string)
	p := runtimetest.Bucket("limit", 10)
	fields = func(v reflect.Value, name string) {
		for i := range v.NumField() {
			field, name := v.Field(i), name+"."+v.Type().Field(i).Name
			switch {
			case field.Kind() == reflect.Struct && field.Type() != reflect.TypeFor[runtime.Start]():
				fields(field, name)
			case field.CanInt() && field.CanSet():
				before := field.Int()
				field.SetInt(-1)
				require.ErrorIs(t, p.Validate(), runtime.ErrInvalidPolicy, "%s is -1: add a case to problem in runtime/validate.go", name)
				field.SetInt(before)
			}
		}
	}
	fields(reflect.ValueOf(p).Elem(), "Policy")
	require.NoError(t, p.Validate())
}

// A policy that is valid becomes invalid by each of the edits.
func TestInvalidPolicyIsRefused(t *testing.T) {
	type edits []struct {
		edit func(*runtime.Policy)
		want string
	}
	refused := func(valid runtime.Policy, rows edits) {
		require.NoError(t, valid.Validate())
		for _, row := range rows {
			p := valid
			row.edit(&p)
			err := p.Validate()
			require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
			require.EqualError(t, err, "invalid policy: "+row.want)
		}
	}
	refused(runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Period: time.Second, Capacity: 10, MaxReserved: 10}, edits{
		{func(p *runtime.Policy) { p.Name = "" }, "the name is empty"},
		{func(p *runtime.Policy) { p.Kind = 0 }, "Kind(0) is not one of the kinds token bucket, fixed window, sliding window, in flight"},
		{func(p *runtime.Policy) { p.Kind = 200 }, "Kind(200) is not one of the kinds token bucket, fixed window, sliding window, in flight"},
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
		{func(p *runtime.Policy) { p.Start = runtime.StartAt(time.Time{}) }, "the start is not of the years 1678 to 2262"},
		{func(p *runtime.Policy) { p.Start = runtime.StartAt(time.Date(2263, 1, 1, 0, 0, 0, 0, time.UTC)) }, "the start is not of the years 1678 to 2262"},
		{func(p *runtime.Policy) { p.OnError = 3 }, "OnError(3) is not FailClosed, FailOpen or FailLocal"},
		{func(p *runtime.Policy) { p.Slots = 1 }, "a limit of the kind fixed window has no Slots: leave Slots out"},
		{func(p *runtime.Policy) { p.Hold = 1 }, "a limit of the kind fixed window has no Hold: leave Hold out"},
		{func(p *runtime.Policy) { p.Durability = 3 }, "Durability(3) is not DurabilityDefault, DurabilityRelaxed or DurabilityFull"},
	})
	refused(*runtimetest.Overridable(), edits{
		{func(p *runtime.Policy) { p.Overrides.Rate = 9 }, "the bounds of overrides have the rate 9, which is less than the limit's own, 10"},
		{func(p *runtime.Policy) { p.Overrides.Rate = 0 }, "the bounds of overrides have the rate 0, which is less than the limit's own, 10"},
		{func(p *runtime.Policy) { p.Overrides.Capacity = 5 }, "the bounds of overrides have the capacity 5, which is less than the limit's own, 10"},
		{func(p *runtime.Policy) { p.Overrides.MaxReserved = 5 }, "overrides cannot give maxReserved to a limit with maxReserved 0"},
		{func(p *runtime.Policy) { p.Overrides.Rate = runtime.MaxTokens + 1 }, "the bounds of overrides have the rate 1000000000000001, which is more than 1000000000000000"},
		{func(p *runtime.Policy) { p.Capacity, p.MaxReserved, p.Overrides.MaxReserved = 0, 1, 1 }, "overrides cannot give capacity to a limit with capacity 0"},
		{func(p *runtime.Policy) { p.Kind, p.Overrides.Capacity = runtime.SlidingWindow, 50 }, "the bounds of overrides of a sliding window must have equal rate and capacity"},
	})
	refused(runtime.Policy{Name: "limit", Kind: runtime.InFlight, Slots: 5, Hold: time.Minute, Overrides: runtime.OverrideBounds{Slots: 9}}, edits{
		{func(p *runtime.Policy) { p.Slots = 0 }, "slots 0 is not between 1 and 1000"},
		{func(p *runtime.Policy) { p.Slots = runtime.MaxSlots + 1 }, "slots 1001 is not between 1 and 1000"},
		{func(p *runtime.Policy) { p.Hold = 0 }, "hold 0s is not between 1ns and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Hold = runtime.MaxPeriod + 1 }, "hold 87600h0m0.000000001s is not between 1ns and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Rate = 5 }, "a limit of the kind in flight has no Rate: leave Rate out"},
		{func(p *runtime.Policy) { p.Period = 5 }, "a limit of the kind in flight has no Period: leave Period out"},
		{func(p *runtime.Policy) { p.Capacity = 5 }, "a limit of the kind in flight has no Capacity: leave Capacity out"},
		{func(p *runtime.Policy) { p.MaxReserved = 5 }, "slots cannot be reserved ahead, because it is not known when they are free: leave MaxReserved at 0"},
		{func(p *runtime.Policy) { p.AtMost.Slots = 6 }, "the policy's own numbers, {Rate:0 Capacity:0 MaxReserved:0 Slots:5 Unlimited:false}, must be those of AtMost, {Rate:0 Capacity:0 MaxReserved:0 Slots:6 Unlimited:false}"},
		{func(p *runtime.Policy) { p.Overrides.Slots = 4 }, "the bounds of overrides have the slots 4, which is less than the limit's own, 5"},
		{func(p *runtime.Policy) { p.Overrides.Slots = runtime.MaxSlots + 1 }, "overrides can give at most 1000 slots, not 1001"},
		{func(p *runtime.Policy) { p.Overrides.Rate = 9 }, "overrides cannot give rate to a limit with rate 0"},
	})
	refused(runtimetest.Once(runtime.Calendar{Unit: runtime.Month, Zone: "Europe/Berlin"}), edits{
		{func(p *runtime.Policy) { p.Kind = runtime.TokenBucket }, "only a fixed window can have a Calendar, not a token bucket"},
		{func(p *runtime.Policy) { p.Calendar.Unit = 9 }, "the calendar's unit CalendarUnit(9) is not Day, Week, Month or Year"},
		{func(p *runtime.Policy) { p.Calendar.Count = -1 }, "a window of -1 times a month is not between 1 of them and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Calendar.Count = 120 }, "a window of 120 times a month is not between 1 of them and 87600h0m0s"},
		{func(p *runtime.Policy) { p.Period = 720 * time.Hour }, "with this calendar, the period must be the mean length of a window, 730h29m6s, not 720h0m0s"},
		{func(p *runtime.Policy) { p.Start = runtime.StartFirstUse() }, "a calendar has From and At: leave Start out"},
		{func(p *runtime.Policy) { p.Calendar.From = runtime.Date{Year: 2023, Month: 2, Day: 29} }, "the day 2023-02-29 does not exist in the years 1 to 9999"},
		{func(p *runtime.Policy) {
			p.Calendar.Anniversary, p.Calendar.From = true, runtime.DateOf(runtimetest.Epoch)
		}, "a calendar with an Anniversary has no From: each key has its own"},
		{func(p *runtime.Policy) {
			*p = runtimetest.Once(runtime.Calendar{Unit: runtime.Day, Zone: "UTC"})
			p.Calendar.Anniversary = true
		}, "a calendar of single days has no Anniversary: every day begins alike"},
		{func(p *runtime.Policy) { p.Calendar.At = 24 * time.Hour }, "the time of day 24h0m0s is not a number of whole seconds below 24h"},
		{func(p *runtime.Policy) { p.Calendar.ZonePerKey = true }, "a calendar with ZonePerKey has no Zone: each key has its own"},
		{func(p *runtime.Policy) { p.Calendar.Zone = "" }, `the time zone "" is not a name of the IANA database, such as UTC or Europe/Berlin`},
		{func(p *runtime.Policy) { p.Calendar.Zone = "Local" }, `the time zone "Local" is not a name of the IANA database, such as UTC or Europe/Berlin`},
		{func(p *runtime.Policy) { p.Calendar.Zone = "Europe/Atlantis" }, `the time zone "Europe/Atlantis" cannot be loaded: correct the name, or import time/tzdata (unknown time zone Europe/Atlantis)`},
	})
	refused(runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 5, Period: time.Minute, Capacity: 5, AtMost: runtime.Numbers{Rate: 5, Capacity: 5}}, edits{
		{func(p *runtime.Policy) { p.AtMost.Rate = -1 }, "AtMost {Rate:-1 Capacity:5 MaxReserved:0 Slots:0 Unlimited:false} is not between 0 and 999999999999999"},
		{func(p *runtime.Policy) { p.AtMost.MaxReserved = runtime.Unbounded }, "AtMost {Rate:5 Capacity:5 MaxReserved:1000000000000000 Slots:0 Unlimited:false} is not between 0 and 999999999999999"},
		{func(p *runtime.Policy) { p.Rate = 6 }, "the policy's own numbers, {Rate:6 Capacity:5 MaxReserved:0 Slots:0 Unlimited:false}, must be those of AtMost, {Rate:5 Capacity:5 MaxReserved:0 Slots:0 Unlimited:false}"},
		{func(p *runtime.Policy) { p.Lease = runtime.Lease{Tokens: 1, For: time.Second} }, "a limit with numbers of its callers cannot be leased: a block taken by the numbers of one request would be spent by those of another"},
		{func(p *runtime.Policy) { p.Kind, p.AtMost.Capacity = runtime.SlidingWindow, 0 }, "the capacity of a sliding window is its rate: AtMost must have both"},
		{func(p *runtime.Policy) { p.MaxReserved = 1 }, "with numbers of its callers, the capacity and maxReserved of a fixed window must not be more than its rate, 5: " +
			"a window that ends with a smaller capacity forgets what was used beyond it, so that changing to it and back would grant tokens again"},
	})
	refused(runtime.Policy{Name: "limit", Kind: runtime.SlidingWindow, Rate: 5, Period: time.Minute, Capacity: 5, Precise: true}, edits{
		{func(p *runtime.Policy) { p.Kind = runtime.TokenBucket }, "a token bucket cannot be precise: leave Precise out, or use a sliding window"},
		{func(p *runtime.Policy) { p.Shards = 2 }, "a precise sliding window cannot have shards: each would count only its own tokens"},
		{func(p *runtime.Policy) { p.Start = runtime.StartOffset(1) }, "a precise sliding window has no aligned windows: leave Start out"},
		{func(p *runtime.Policy) { p.Lease = runtime.Lease{Tokens: 1, For: time.Second} }, "a precise sliding window cannot be leased: its tokens count from when they are taken, not from when they are used"},
	})
}

func TestUnlimitedPolicyNeedsNoNumbers(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Mode: runtime.ModeUnlimited}
	require.ErrorIs(t, p.Validate(), runtime.ErrInvalidPolicy, "the kind is missing")
	for _, p.Kind = range runtime.Kinds() {
		require.NoError(t, p.Validate())
	}
	p.Shards = -1
	require.EqualError(t, p.Validate(), "invalid policy: shards -1 is not between 0 and 1024")
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
	require.Equal(t, "[token bucket fixed window sliding window in flight]", fmt.Sprint(runtime.Kinds()))
	require.Equal(t, "[closed open local]", fmt.Sprint(runtime.OnErrors()))
	require.Equal(t, "[relaxed full]", fmt.Sprint(runtime.Durabilities()))
}

// The names of constants and their words in limits.yaml must match, and lists must have all of them.
func TestConstantsAreListedAndNamed(t *testing.T) {
	const where = "add it to the list of its type, beside its constants, before the end of the constants"
	var kinds, ops, onErrors, durabilities []string
	for _, kind := range runtime.Kinds() {
		kinds = append(kinds, strings.ReplaceAll(titled(kind.String()), " ", ""))
	}
	for _, op := range runtime.Ops() {
		ops = append(ops, op.String())
	}
	for _, o := range runtime.OnErrors() {
		onErrors = append(onErrors, "Fail"+titled(o.String()))
	}
	for _, d := range append([]runtime.Durability{runtime.DurabilityDefault}, runtime.Durabilities()...) {
		durabilities = append(durabilities, "Durability"+titled(d.String()))
	}
	for typ, names := range map[string][]string{"Kind": kinds, "Op": ops, "OnError": onErrors, "Durability": durabilities} {
		require.Equal(t, constants(t, typ), names, "a constant of type %s: %s", typ, where)
	}
	p := runtimetest.Bucket("limit", 1)
	for _, p.OnError = range runtime.OnErrors() {
		require.NoError(t, p.Validate(), where)
	}
	for _, p.Durability = range runtime.Durabilities() {
		require.NoError(t, p.Validate(), where)
	}
	require.Equal(t, fmt.Sprintf("Op(%d)", len(ops)), runtime.Op(len(ops)).String())
}

// titled returns a text with a capital letter at the start of each word.
func titled(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, " ")
}

// constants returns the names of the exported constants of a type in this package, in the order of their declaration.
// They are read from the source, because a constant that is forgotten elsewhere is found nowhere else.
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
