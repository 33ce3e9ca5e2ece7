package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExamplesOfFieldsAreValid(t *testing.T) {
	for _, f := range limitFields {
		lines := []string{"kind: fixed window", "rate: 10", "period: 1m"}
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, f.name+":") })
		parsed, ds := Parse("limits.yaml", []byte(limitOf(append(lines, f.name+": "+f.example)...)))
		require.Empty(t, ds, f.name)
		assert.Contains(t, parsed.Limits[0].Given, f.name)
	}
	for _, f := range leaseFields {
		assert.True(t, f.takes(f.example), f.name)
	}
	top := ""
	for _, f := range fileFields {
		top += f.name + ": " + f.example + "\n"
	}
	_, ds := Parse("limits.yaml", []byte(top))
	assert.Empty(t, ds)
}

// No cell of the reference is so long that the table cannot be read; what does not fit stands below it.
func TestReferenceCellsAreShort(t *testing.T) {
	cells := 0
	for line := range strings.Lines(Reference()) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for cell := range strings.SplitSeq(line, "|") {
			assert.LessOrEqual(t, len(strings.Fields(cell)), 40, cell)
			cells++
		}
	}
	assert.Greater(t, cells, 80)
}

// A name is enough to say which field is meant, whatever has it.
func TestFieldsHaveNamesOfTheirOwn(t *testing.T) {
	of := map[string]string{}
	for _, f := range Fields() {
		assert.Empty(t, of[f.Name], f.Name)
		of[f.Name] = f.Of
		assert.NotContains(t, f.Meaning+f.Accepts+f.Absent, "`", f.Name)
	}
	for _, name := range names(fileFields) {
		assert.Equal(t, "the file", of[name])
	}
	for _, name := range names(limitFields) {
		assert.Equal(t, "a limit", of[name])
	}
	for _, name := range names(leaseFields) {
		assert.Equal(t, "a lease", of[name])
	}
}

func TestCorpusHasEveryField(t *testing.T) {
	for _, name := range slices.Concat(names(fileFields), names(limitFields), names(leaseFields)) {
		assert.True(t, givenInGood(t, name), "no good file has %s", name)
		assert.True(t, faultyInBad(t, name), "no bad file has a faulty %s", name)
	}
}

func givenInGood(t *testing.T, field string) bool {
	for _, src := range corpus(t, "good") {
		if strings.Contains(string(src), field+":") {
			return true
		}
	}
	return false
}

// faultyInBad reports whether the corpus has a diagnostic at the value of a field.
func faultyInBad(t *testing.T, field string) bool {
	for name, src := range corpus(t, "bad") {
		_, ds := Parse(name, src)
		for _, d := range ds {
			if d.ID != syntax && strings.HasSuffix(strings.TrimRight(d.shown.before, " "), field+":") {
				return true
			}
		}
	}
	return false
}
