package gen

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the generator needs becomes a requirement of every app that gets the tool, so it needs little.
func TestGenImportsLittle(t *testing.T) {
	out, err := goTool(t, root(t), "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./gen", "./cmd/...")
	require.NoError(t, err, out)
	allowed := []string{modulePath, "github.com/dave/jennifer/jen", "gopkg.in/yaml.v3"}
	for path := range strings.FieldsSeq(out) {
		assert.True(t, path == allowed[1] || path == allowed[2] || strings.HasPrefix(path, allowed[0]+"/"),
			"%s: apps that get the tool would have to require it", path)
		assert.NotContains(t, path, "/runtime/sqlstore/", "the tool prints the text of dialects, and must not need a driver")
	}
}

// The printer is a detail of this package: whatever else imports it writes Go code of its own.
func TestOnlyGenImportsThePrinter(t *testing.T) {
	out, err := goTool(t, root(t), "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	require.NoError(t, err, out)
	for line := range strings.Lines(out) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path != modulePath+"/gen" {
			assert.NotContains(t, imports, "dave/jennifer", "%s must leave printing to package gen", path)
		}
	}
}
