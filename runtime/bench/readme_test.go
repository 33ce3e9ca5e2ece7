package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var discard = io.Discard

func TestTablesAreReplacedInAText(t *testing.T) {
	const text = "# bench\n\n<!-- tables -->\nold\n<!-- /tables -->\n\nThe end.\n"
	want := "# bench\n\n<!-- tables -->\n| new |\n<!-- /tables -->\n\nThe end.\n"
	for _, from := range []string{text, want} {
		got, err := withTables(from, "| new |\n")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, from := range []string{"", "<!-- tables -->\n", "<!-- /tables -->\n<!-- tables -->\n"} {
		_, err := withTables(from, "| new |\n")
		require.EqualError(t, err, `there is no line "<!-- tables -->" with a line "<!-- /tables -->" after it`)
	}
}

func TestARunFillsTheReadme(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o644))
	o := options{readme: path}
	require.NoError(t, o.check())

	five := 5.0
	r := report{Verdicts: []verdict{{What: "this", Aim: "at least 4", Figure: &five, Reached: true}}}
	require.NoError(t, r.publish(o, discard))
	filled, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(filled), "| this | at least 4 | 5.00 | reached |")
	require.NotEqual(t, text, filled)
}

func TestAReadmeThatCannotBeFilledIsKnownBeforeTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	require.Error(t, options{readme: path}.check(), "there is no file")
	require.NoError(t, os.WriteFile(path, []byte("# bench\n"), 0o644))
	require.ErrorContains(t, run(t.Context(), options{readme: path}, discard), "there is no line")
	require.ErrorContains(t, options{readme: path, costs: true}.check(), "not of -costs")
	require.NoError(t, options{costs: true}.check())
}
