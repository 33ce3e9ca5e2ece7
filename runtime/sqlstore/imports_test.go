package sqlstore_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/ratelimitgen/ratelimitgen"

// TestImports keeps drivers at the leaves: who has Postgres must not compile SQLite.
func TestImports(t *testing.T) {
	ours := []string{"", "/sqlstore", "/sqlstore/internal/group", "/sqlstore/internal/lease", "/sqlstore/internal/denycache"}
	for _, path := range deps(t, ".") {
		path, inside := strings.CutPrefix(path, module+"/runtime")
		assert.True(t, inside && slices.Contains(ours, path), "sqlstore brings %s along: users pay for the database that they chose, and for no other", path)
	}
}

// TestSuiteImports keeps the suite usable for the tests of any store, wherever it is.
func TestSuiteImports(t *testing.T) {
	ours := map[string]bool{module + "/runtime": true, module + "/runtime/storetest": true}
	for _, path := range deps(t, "../storetest") {
		assert.True(t, ours[path], "storetest brings %s along: who tests a store of their own must not have to require it", path)
	}
}

// deps returns what a package is compiled with, but for the standard library.
func deps(t *testing.T, pkg string) []string {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}
