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

func TestStoreImportsNoDriver(t *testing.T) {
	ours := []string{"", "/sqlstore", "/sqlstore/internal/group", "/sqlstore/internal/lease", "/sqlstore/internal/denycache"}
	for _, path := range deps(t, ".") {
		path, inside := strings.CutPrefix(path, module+"/runtime")
		assert.True(t, inside && slices.Contains(ours, path), "sqlstore imports %s: users compile the database that they chose, and no other", path)
	}
}

func TestSuiteImportsRuntimeOnly(t *testing.T) {
	ours := map[string]bool{module + "/runtime": true, module + "/runtime/storetest": true}
	for _, path := range deps(t, "../storetest") {
		assert.True(t, ours[path], "storetest imports %s: the tests of other stores must not have to require it", path)
	}
}

// deps returns the packages that a package is compiled with, except those of the standard library.
func deps(t *testing.T, pkg string) []string {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}
