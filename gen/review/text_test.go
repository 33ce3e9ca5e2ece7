package review

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// A line is no wider than a terminal, but for a statement, which is to be copied. Colors change nothing else.
func TestTextFitsATerminal(t *testing.T) {
	eachCase(t, func(t *testing.T, _ string, _ []section, r *Review) {
		var plain, color bytes.Buffer
		require.NoError(t, r.WriteText(&plain, false))
		require.NoError(t, r.WriteText(&color, true))
		assert.Equal(t, plain.String(), escapes.ReplaceAllString(color.String(), ""))
		for line := range strings.Lines(plain.String()) {
			line = strings.TrimSuffix(line, "\n")
			assert.Equal(t, strings.TrimRight(line, " "), line)
			if !strings.HasSuffix(line, ";") {
				assert.LessOrEqual(t, cells.Of(line), width, line)
			}
		}
	})
}

// What an id says of a change begins in the same column for all changes.
func TestIDsStandBelowEachOther(t *testing.T) {
	id, found := regexp.MustCompile(`^(.*)\[[a-z-]+\]( |$)`), 0
	eachCase(t, func(t *testing.T, _ string, _ []section, r *Review) {
		var out bytes.Buffer
		require.NoError(t, r.WriteText(&out, false))
		for line := range strings.Lines(out.String()) {
			place := id.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if place == nil || place[1] == before { // or it is a limit that was added or removed
				continue
			}
			assert.Equal(t, column, cells.Of(place[1]), line)
			found++
		}
	})
	assert.Greater(t, found, 50)
}

// Whatever stands in a file leaves the terminal alone.
func TestTextOfHostileText(t *testing.T) {
	old := parse(t, "a\x1b[31m\u202eb.yaml", cases("rate: 1"))
	r := Of(old, parse(t, "c\nd.yaml", cases("rate: 1, doc: \""+strings.Repeat("x", 300)+"\"")))
	var out bytes.Buffer
	require.NoError(t, r.WriteText(&out, false))
	assert.NotContains(t, out.String(), "\x1b")
	assert.NotContains(t, out.String(), "\u202e")
	assert.Contains(t, out.String(), "c d.yaml against a\uFFFD[31m\uFFFDb.yaml\n")
	assert.Contains(t, out.String(), "x…\n")
}
