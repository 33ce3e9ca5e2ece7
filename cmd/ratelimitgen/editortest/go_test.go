package editortest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/ratelimitgen/ratelimitgen"

// program is a Go file, with a line to be typed.
const program = `package main

import (
	"example.com/app/limits"
	plans "example.com/app/limits"
	"` + modulePath + `/runtime"
)

var _ plans.Plan

func main() {
	limits := limits.New(new(memstore.Store))
	LINE
}
`

// app creates a module with the limits of the example, and returns its folder.
func app(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		return string(text)
	}
	for name, text := range map[string]string{
		"limits.yaml": read("limits.example.yaml"),
		"go.sum":      read("go.sum"),
		"go.mod": strings.Replace(read("go.mod"), "module "+modulePath, "module example.com/app", 1) +
			"\nrequire " + modulePath + " v0.0.0\n\nreplace " + modulePath + " => " + root + "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	ratelimitgen(t, folder, "generate", "-o", "limits/limits.gen.go", "limits.yaml")
	return folder
}

// typed returns the program with a line inserted.
func typed(line string) string { return strings.Replace(program, "LINE", line, 1) }

// The completions after limits. are the limits, the groups, All, PeekAll, ReserveAll, WithConn and WithTx, each with its doc
// in the generated code.
func TestGoCompletesLimits(t *testing.T) {
	folder := app(t)
	offered := startGo(t, folder).open(filepath.Join(folder, "main.go"), "go", typed("limits."+cursor)).complete()
	docs, besides := methods(offered)
	assert.Equal(t, generated(t, filepath.Join(folder, "limits", "limits.gen.go")), docs)
	assert.Empty(t, besides)

	assert.Equal(t, "FailedLogins bounds wrong passwords for one account. Token bucket: 10 per hour, at most 10 at once. "+
		"Worst case: 20 in any hour.", docs["FailedLogins"])
	for name, doc := range docs {
		// A group refers to its limits for the worst case, and so do overrides.
		if !slices.Contains([]string{"All", "PeekAll", "ReserveAll", "WithConn", "WithTx", "Complete", "PartnerCall", "APICallsOverrides", "APICallsOverridesForAll"}, name) {
			assert.Contains(t, doc, " Worst case", name)
		}
	}
}

// generated returns the docs of the exported methods of Limits in the generated code, each on one line.
func generated(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	require.NoError(t, err)
	docs := map[string]string{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && types.ExprString(f.Recv.List[0].Type) == "*Limits" && f.Name.IsExported() {
			docs[f.Name.Name] = oneLine(f.Doc.Text())
		}
	}
	require.Contains(t, docs, "SendMessage")
	return docs
}

// oneLine returns a text on one line, without the backslashes that escape Markdown.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, `\`, "")), " ")
}

// Each kind of handle has only the methods that work on it.
func TestGoCompletesVerbs(t *testing.T) {
	every := []string{"Charge", "Erase", "Peek", "Refund", "RefundN", "Reset", "Wait", "WaitN"}
	takes := append([]string{"Allow", "AllowN", "AllowUpTo", "Check", "CheckN", "Require", "RequireN", "N", "Checked", "CheckedN"}, every...)
	reserves := []string{"Reserve", "ReserveN", "Resume", "WaitReserve", "WaitReserveN"}
	folder := app(t)
	d := startGo(t, folder).open(filepath.Join(folder, "main.go"), "go", typed(""))
	for _, row := range []struct {
		name, line string
		verbs      []string
	}{
		{"reservable", `limits.LLMTokens("red", "large").‸`, append(reserves, takes...)},
		{"no maxReserved", `limits.FailedLogins("gopher").‸`, takes},
		{"sliding window", "limits.Search(addr).‸", takes},
		{"with overrides", "limits.APICalls(7, plans.PlanPro).‸", takes},
		{"overrides", "limits.APICallsOverrides(7).‸", []string{"Set", "Block", "Unblock", "End", "History"}},
		{"capacity: 0", "limits.ExportData(7).‸", append(append(reserves, "N"), every...)},
		{"group", `limits.Complete("red", "large").‸`, []string{"Allow", "Check", "Require", "Reserve", "Wait", "WaitReserve"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d.change(typed(row.line))
			docs, besides := methods(d.complete())
			var verbs []string
			for name, doc := range docs {
				assert.True(t, strings.HasPrefix(doc, name+" "), "%s: %s", name, doc)
				verbs = append(verbs, name)
			}
			assert.ElementsMatch(t, row.verbs, verbs)
			assert.Empty(t, besides, "nothing else")
		})
	}
}

func TestGoHover(t *testing.T) {
	folder := app(t)
	d := startGo(t, folder).open(filepath.Join(folder, "main.go"), "go", typed("_ = limits.LLM‸Tokens(\"red\", \"large\")"))
	shown := d.hover()
	for _, part := range []string{
		"LLMTokens(team string, model string) plans.ReservableLimit",
		"LLMTokens bounds the tokens of one team on one model, in and out together.",
		"Token bucket: 40,000 per minute, at most 40,000 at once. Callers may reserve at most 80,000 tokens ahead. Each count is split into 10 shards.",
		"Worst case: 160,000 in any minute, counting reserved tokens when their delay has passed.",
	} {
		assert.Contains(t, shown, part)
	}
}

// The hover text of a method has the type under which go doc lists it.
func TestGoHoverOfVerbs(t *testing.T) {
	folder := app(t)
	d := startGo(t, folder).open(filepath.Join(folder, "main.go"), "go", typed(""))
	for line, receiver := range map[string]string{
		"limits.SendMessage(7).Al‸low(nil)":      "func (l limiter.Limit) Allow(",
		`limits.LLMTokens("", "").Res‸erve(nil)`: "func (l limiter.ReservableLimit) Reserve(",
		"limits.ExportData(7).Pe‸ek(nil)":        "func (l limiter.ReserveOnlyLimit) Peek(",
	} {
		d.change(typed(line))
		assert.Contains(t, d.hover(), receiver)
	}
}

// The hover text of a handle's type has its methods.
func TestGoHoverOfHandles(t *testing.T) {
	folder := app(t)
	d := startGo(t, folder).open(filepath.Join(folder, "main.go"), "go", typed("var _ plans.Lim‸it"))
	shown := d.hover()
	assert.Contains(t, shown, "Limit is one key of a limit.")
	assert.Contains(t, shown, "AllowN(ctx, n) (Decision, error)")
}

// The constants of the plans are offered, each with its doc, where a plan is an argument.
func TestGoCompletesPlans(t *testing.T) {
	folder := app(t)
	d := startGo(t, folder).open(filepath.Join(folder, "main.go"), "go", typed("limits.APICalls(7, plans.Plan‸)"))
	docs := map[string]string{}
	for _, i := range d.complete() {
		if i.Kind == kindConstant {
			docs[i.Label] = oneLine(string(i.Documentation))
		}
	}
	assert.Equal(t, map[string]string{
		"PlanFree":       "PlanFree is the plan free.",
		"PlanPro":        "PlanPro is the plan pro.",
		"PlanEnterprise": "PlanEnterprise is the plan enterprise.",
	}, docs)
	d.change(typed("limits.API‸Calls(7, plans.PlanPro)"))
	shown := d.hover()
	assert.Contains(t, shown, "APICalls(org uint64, plan plans.Plan) plans.Limit")
	assert.Contains(t, shown, "pro: Token bucket: 600 per minute, at most 1,000 at once.")
}

// methods returns the docs of the methods in a completion list, by name, and the names of the other items, without
// the snippets of gopls, such as print!.
func methods(offered []item) (docs map[string]string, besides []string) {
	docs = map[string]string{}
	for _, i := range offered {
		switch i.Kind {
		case kindMethod:
			docs[i.Label] = oneLine(string(i.Documentation))
		case kindSnippet:
		default:
			besides = append(besides, i.Label)
		}
	}
	return docs, besides
}
