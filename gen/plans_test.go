package gen

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// misuses are calls that must not compile, and a part of the compiler's message.
var misuses = map[string]struct{ call, message string }{
	"noplan":     {`limits.APICalls(7).Allow(ctx)`, "not enough arguments in call to limits.APICalls"},
	"text":       {`limits.APICalls(7, "free").Allow(ctx)`, `cannot use "free" (untyped string constant) as plans.Plan value`},
	"variable":   {`limits.APICalls(7, name).Allow(ctx)`, "cannot use name (variable of type string) as plans.Plan value"},
	"number":     {`limits.APICalls(7, count).Allow(ctx)`, "cannot use count (variable of type int) as plans.Plan value"},
	"lacking":    {`limits.APICalls(7, plans.PlanGold).Allow(ctx)`, "undefined: plans.PlanGold"},
	"before":     {`limits.APICalls(plans.PlanFree, 7).Allow(ctx)`, "cannot use plans.PlanFree (constant 1 of int type plans.Plan) as int64 value"},
	"otherlimit": {`limits.SignUp("ann", plans.PlanFree).Allow(ctx)`, "too many arguments in call to limits.SignUp"},
	"otherverb":  {`limits.Exports(plans.PlanFree).Allow(ctx)`, "limits.Exports(plans.PlanFree).Allow undefined"},
}

func TestMisuseOfPlansDoesNotCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	files := map[string]string{"plans/limits.gen.go": string(golden(t, "plans"))}
	program := func(call string) string {
		return "package misuse\n\nimport (\n\t\"context\"\n\n\t\"example.com/app/plans\"\n)\n\n" +
			"func F(ctx context.Context, limits *plans.Limits, name string, count int, plan plans.Plan) {\n\t" + call + "\n}\n"
	}
	for name, misuse := range misuses {
		files[name+"/misuse.go"] = program(misuse.call)
	}
	dir := module(t, files)
	out, err := goTool(t, dir, "build", "./...")
	require.Error(t, err)
	for name, misuse := range misuses {
		_, message, found := strings.Cut(out, filepath.Join(name, "misuse.go")+":")
		message, _, _ = strings.Cut(message, "\n")
		if assert.True(t, found, "%s compiles: %s", name, misuse.call) {
			assert.Contains(t, message, misuse.message, name)
		}
	}

	// The rest of the program is not what fails.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "noplan", "misuse.go"), []byte(program("limits.APICalls(7, plan).Allow(ctx)")), 0o644))
	out, err = goTool(t, dir, "build", "./noplan")
	assert.NoError(t, err, out)
}
