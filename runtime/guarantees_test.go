package runtime_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each promise of GUARANTEES.md names tests that exist, in any module of the repository.
func TestGuaranteesHaveTests(t *testing.T) {
	text, err := os.ReadFile("GUARANTEES.md")
	require.NoError(t, err)
	exist := map[string]bool{}
	function, clause := regexp.MustCompile(`(?m)^func (Test\w+)\(`), regexp.MustCompile(`\bname: +"([A-Z]\w+)"`)
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		form := function
		switch clauses := filepath.ToSlash(filepath.Dir(path)) == "../runtime/storetest"; {
		case err != nil || entry.IsDir() || filepath.Ext(path) != ".go":
			return err
		case clauses && !strings.HasSuffix(path, "_test.go"):
			form = clause
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, name := range form.FindAllSubmatch(source, -1) {
			exist[string(name[1])] = true
		}
		return err
	}))
	promises, promising := 0, false
	for line := range strings.Lines(string(text)) {
		row, isRow := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if head := strings.HasPrefix(row, "guaranteed |"); head || !isRow {
			promising = head || strings.HasPrefix(line, "|---") && promising
			continue
		}
		if !promising {
			continue // a row of another table
		}
		cells := strings.Split(strings.TrimSuffix(row, "|"), "|")
		require.Len(t, cells, 3, "a row has a promise, its bounds and its tests: %s", line)
		promises++
		names := quoted.FindAllStringSubmatch(cells[2], -1)
		assert.NotEmpty(t, names, "no test of the promise: %s", cells[0])
		for _, name := range names {
			assert.True(t, exist[name[1]], "no test %s of the promise: %s", name[1], cells[0])
		}
	}
	assert.Greater(t, promises, 30)
}
