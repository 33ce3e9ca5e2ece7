package sqlstore_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const runtimePath = "github.com/ratelimitgen/ratelimitgen/runtime"

func TestStoreImportsNoDriver(t *testing.T) {
	for _, path := range deps(t, ".") {
		assert.True(t, strings.HasPrefix(path, runtimePath), "sqlstore imports %s: users compile the database that they chose, and no other", path)
		assert.NotContains(t, path, "sqlstore/sqlite", "users compile the database that they chose, and no other")
	}
}

func TestSuiteImportsRuntimeOnly(t *testing.T) {
	for _, path := range deps(t, "../storetest") {
		assert.True(t, strings.HasPrefix(path, runtimePath), "storetest imports %s: the tests of other stores must not have to require it", path)
		assert.NotContains(t, path, "/sqlstore", "the tests of other stores must not have to require it")
	}
}

// deps returns the packages that a package is compiled with, except those of the standard library.
func deps(t *testing.T, pkg string) []string {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}
