package gen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

var usageForm = regexp.MustCompile(`(?m)^(\w+), err := limit\.(\w+)\((.*?)\)\.(\w+)\((.*?)\)`)

// usageProgram returns a file of the generated package with a function that runs the calls of the package comment, each with
// arguments of any value. Its calls must return no error.
func usageProgram(t testing.TB, code string) string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", code, parser.ParseComments)
	require.NoError(t, err)
	methods := map[string]*ast.FuncDecl{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			methods[f.Name.Name] = f
		}
	}
	var usage strings.Builder
	for line := range strings.Lines(file.Doc.Text()) {
		if text, isCode := strings.CutPrefix(line, "\t"); isCode {
			usage.WriteString(text)
		}
	}
	calls := usageForm.FindAllStringSubmatchIndex(usage.String(), -1)
	require.NotEmpty(t, calls)
	body := strings.Replace(usage.String()[:calls[0][0]], file.Name.Name+".", "", 1)
	for i, at := range calls {
		end := usage.Len()
		if i+1 < len(calls) {
			end = calls[i+1][0]
		}
		part := func(n int) string { return usage.String()[at[2*n]:at[2*n+1]] }
		body += "func() {\n"
		for _, p := range methods[part(2)].Type.Params.List {
			of := code[files.Position(p.Type.Pos()).Offset:files.Position(p.Type.End()).Offset]
			for _, name := range p.Names {
				body += fmt.Sprintf("%s := part(reflect.TypeFor[%[2]s]()).Interface().(%[2]s)\n", name.Name, of)
				if of == "Plan" {
					body += name.Name + " = 1\n"
				}
			}
		}
		for _, count := range strings.Split(part(5), ", ")[1:] {
			of := "int64(1)"
			if count == spec.UsageArg {
				of = usageOf(methods[part(2)].Type.Results.List[0].Type, code) + "{}"
			}
			body += count + " := " + of + "\n"
		}
		body += usage.String()[at[0]:end] + "if _ = " + part(1) + "; err != nil {\npanic(err)\n}\n}()\n"
	}
	imports := "import (\n\"context\"\n\"reflect\"\n\"" + runtimePath + "\"\n"
	for _, i := range file.Imports {
		from, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(from)
		if i.Name != nil {
			name = i.Name.Name
		}
		if from != runtimePath && (strings.Contains(body, "["+name+".") || strings.Contains(body, "[*"+name+".")) {
			imports += name + " " + i.Path.Value + "\n"
		}
	}
	return "package " + file.Name.Name + "\n\n" + imports + ")\n\n" +
		"func Usage(store runtime.Store, part func(reflect.Type) reflect.Value) {\nctx := context.Background()\n" + body + "}\n"
}

// usageOf returns the type of the usage of a handle, PricedLimit[LLMSpendUsage] or that of a group.
func usageOf(handle ast.Expr, code string) string {
	if of, ok := handle.(*ast.IndexExpr); ok {
		return of.Index.(*ast.Ident).Name
	}
	of := regexp.MustCompile(`func \(g ` + handle.(*ast.Ident).Name + `\) Wait\(.* (\w+Usage)\) error`)
	return of.FindStringSubmatch(code)[1]
}

// The comment of an alias is all that the go command prints for it.
func TestEveryVerbIsListed(t *testing.T) {
	for _, handle := range []reflect.Type{
		reflect.TypeFor[limiter.Limit](), reflect.TypeFor[limiter.ReservableLimit](), reflect.TypeFor[limiter.ReserveOnlyLimit](),
		reflect.TypeFor[limiter.SlotLimit](), reflect.TypeFor[limiter.Overrides](), reflect.TypeFor[limiter.PricedLimit[limiter.Usage]](),
	} {
		doc := ""
		for _, a := range slices.Concat(handleAliases, pricedAliases) {
			if a.name == untyped(handle) {
				doc = a.doc
			}
		}
		for i := range handle.NumMethod() {
			method := handle.Method(i)
			form := regexp.MustCompile(`\n\t` + method.Name + `\(((?:\w+(?:, )?)*)\) .*  \w`)
			if found := form.FindStringSubmatch(doc); assert.Len(t, found, 2, "add %s of %v to verbs in gen/handles.go", method.Name, handle) {
				parameters := strings.Count(found[1], ",") + min(1, len(found[1]))
				assert.Equal(t, method.Type.NumIn()-1, parameters, "the parameters of %s of %v", method.Name, handle)
			}
		}
		assert.Equal(t, handle.NumMethod(), strings.Count(doc, "\n\t"), "%v", handle)
	}
}

func TestGoDocListsTheVerbs(t *testing.T) {
	for name, want := range map[string][]string{
		"Limit":           {"Allow(ctx) (Decision, error)", "AllowN(ctx, n) (Decision, error)", "Require(ctx) error", "Check(ctx) (Decision, error)"},
		"ReservableLimit": {"ReserveN(ctx, n) (*Reservation, error)", "Resume(text) (*Reservation, error)"},
		"SlotLimit":       {"WaitAcquire(ctx) (*Slot, error)", "Item() Item"},
	} {
		out, err := goTool(t, root(t), "doc", "./testdata/gen/kinds", name)
		require.NoError(t, err, out)
		assert.Contains(t, out, "type "+name+" = limiter."+name+"\n")
		for _, verb := range want {
			assert.Contains(t, out, verb)
		}
	}
}

// namesLikeHandles are limits, plans and groups with the names of handles, and keys with types of these names in the
// package.
const namesLikeHandles = `version: 1
package: limits
plans: [limit, overrides]
limits:
  limit: {kind: token bucket, rate: {limit: 1, overrides: 2}, period: 1m, key: {overrides: Limit}, overrides: {}}
  slotLimit: {kind: in flight, capacity: 5, hold: 1m, key: {limit: string}}
  reservableLimit: {kind: token bucket, rate: 1, period: 1m, maxReserved: 1, key: {limit: SlotLimit, limits: string}}
  reserveOnlyLimit: {kind: token bucket, rate: {at most: 5}, period: 1m, capacity: 0, maxReserved: 1}
  overrides: {kind: fixed window, rate: 1, period: 1m, key: {l: Overrides}, overrides: {}}
  pricedLimit: {kind: token bucket, rate: 5, period: 1m, key: {u: PricedLimit, limiter: string, err: PricedReservation}, prices: {u: 1, string: 2, type: 3, int64: 4, err: 5}}
groups:
  pricedReservation: {takes: {pricedLimit: [{u: usage, limiter: runtime, err: usageUsed}, {u: g, limiter: ctx, err: rs}]}}
  limits: {takes: {limit: {overrides: limit}, slotLimit: {limit: slot}}}
`

// A type of the generated package comes before the alias of a handle: methods then return the type of package limiter.
func TestHandlesDoNotCollide(t *testing.T) {
	file, diagnostics := fields.Parse("limits.yaml", []byte(namesLikeHandles))
	require.Empty(t, diagnostics)
	code, err := Generate(file, Options{})
	require.NoError(t, err)
	for _, want := range []string{
		"Limit(overrides Limit, plan Plan) limiter.Limit {", "SlotLimit(limit string) limiter.SlotLimit {",
		"ReservableLimit(limit SlotLimit, limits string) ReservableLimit {", ") limiter.Overrides {", ") limiter.PricedLimit[PricedLimitUsage] {",
		" *limiter.PricedReservation[PricedLimitUsage]\n", "\tReservableLimit = limiter.ReservableLimit\n",
	} {
		assert.Contains(t, string(code), want)
	}
	own := "package limits\n"
	for _, name := range []string{"Limit", "SlotLimit", "Overrides", "PricedLimit", "PricedReservation"} {
		own += "\ntype " + name + " string\n\nfunc (t " + name + ") MarshalText() ([]byte, error) { return []byte(t), nil }\n"
	}
	out, err := goTool(t, module(t, map[string]string{"limits/limits.gen.go": string(code), "limits/own.go": own}), "vet", "./limits")
	assert.NoError(t, err, out)
}

// The Go names that come from limits.yaml begin with Plan, or end as those of [spec.Group.GoTypes], [spec.Limit.NumbersType]
// and [spec.Limit.UsageType] do.
func TestAliasesAreNoNamesOfTheFile(t *testing.T) {
	of := regexp.MustCompile(`^Plan[A-Z0-9]|.(Numbers|Usage|Group|Decisions|Reservations)$`)
	for _, aliases := range [][]alias{typeAliases, handleAliases, pricedAliases, errorAliases} {
		for _, a := range aliases {
			if a.name != "ErrInvalidNumbers" { // which the check of limits.yaml refuses
				assert.NotRegexp(t, of, a.name)
			}
		}
	}
	assert.Regexp(t, of, (&spec.Limit{GoName: "A"}).NumbersType())
	assert.Regexp(t, of, (&spec.Limit{GoName: "A"}).UsageType())
	for _, name := range (&spec.Group{GoName: "A"}).GoTypes() {
		assert.Regexp(t, of, name)
	}
}

// A type of a key cannot have the name of a type that the package always declares.
func TestOwnTypesAreDeclared(t *testing.T) {
	declared := []string{"Limits"}
	for _, a := range typeAliases {
		if a.needed == nil {
			declared = append(declared, a.name)
		}
	}
	assert.ElementsMatch(t, declared, spec.OwnTypes)
}

func TestUsageFitsTheFile(t *testing.T) {
	const bucket = "kind: token bucket, rate: 1, period: 1m"
	for text, want := range map[string]string{
		"package: main\nlimits:\n  a: {" + bucket + "}":                              "limit := New(store)\n\td, err := limit.A().Allow(ctx)\n",
		"package: b\nlimits:\n  a: {" + bucket + ", capacity: 0, maxReserved: 2}":    "r, err := limit.A().Reserve(ctx) // later r.Settle or r.Cancel\n\tswitch {",
		"package: b\nlimits:\n  a: {kind: in flight, capacity: 2, hold: 1m, key: u}": "slot, err := limit.A(u).Acquire(ctx) // later slot.Release\n\tswitch {",
		"package: b\nlimits:\n  a: {" + bucket + "}\n  b: {key: b, " + bucket + "}":  "limit.B(b).Allow(ctx)",
	} {
		file, diagnostics := fields.Parse("limits.yaml", []byte("version: 1\n"+text))
		require.Empty(t, diagnostics)
		assert.Contains(t, usage(file, file.Package), want)
	}
}
