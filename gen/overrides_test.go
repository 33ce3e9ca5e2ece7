package gen

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A limit without overrides in the file has no methods for them, and a plan is a typed one.
func TestMisuseOfOverridesDoesNotCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	files := map[string]string{"overrides/limits.gen.go": string(golden(t, "overrides"))}
	misuses := map[string]struct{ call, message string }{
		"plain":   {`limits.PlainOverrides(7)`, "limits.PlainOverrides undefined"},
		"block":   {`limits.SendMessage(7).Block(ctx, overrides.Block{})`, "limits.SendMessage(7).Block undefined"},
		"all":     {`limits.PlainOverridesForAll()`, "limits.PlainOverridesForAll undefined"},
		"keyless": {`limits.SignUpOverridesForAll()`, "limits.SignUpOverridesForAll undefined"},
		"reserve": {`limits.Login("ann").Reserve(ctx)`, `limits.Login("ann").Reserve undefined`},
		"allow":   {`limits.Exports().Allow(ctx)`, "limits.Exports().Allow undefined"},
		"text":    {`limits.APICallsOverrides(7).Set(ctx, overrides.Override{Plan: "pro"})`, `cannot use "pro"`},
		"period":  {`limits.SendMessageOverrides(7).Set(ctx, overrides.Override{Period: 1})`, "unknown field Period"},
	}
	for name, misuse := range misuses {
		files[name+"/misuse.go"] = "package misuse\n\nimport (\n\t\"context\"\n\n\t\"example.com/app/overrides\"\n)\n\n" +
			"func F(ctx context.Context, limits *overrides.Limits, plan overrides.Plan) {\n\t" + misuse.call + "\n}\n"
	}
	out, err := goTool(t, module(t, files), "build", "./...")
	require.Error(t, err)
	for name, misuse := range misuses {
		_, message, found := strings.Cut(out, filepath.Join(name, "misuse.go")+":")
		message, _, _ = strings.Cut(message, "\n")
		if assert.True(t, found, "%s compiles: %s", name, misuse.call) {
			assert.Contains(t, message, misuse.message, name)
		}
	}
}
