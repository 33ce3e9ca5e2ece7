package fields

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
)

var update = flag.Bool("update", false, "rewrite the .want files and the reference in README.md")

// corpus returns the files of one side of the corpus, "bad" or "good", by name.
func corpus(t testing.TB, side string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "testdata", "spec", side, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	files := map[string][]byte{}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		files[filepath.Base(path)] = src
	}
	return files
}

// excerpted are the bad files whose .want has the printed text: those with characters that are hard to show, to count or
// to underline, one with several errors, and one with notes. For the others it has the places, the underlined texts and the
// sentences.
var excerpted = []string{"all-at-once", "bidi-comment", "bidi-text", "bom", "combining-caret", "control-alone", "control-characters", "crlf",
	"deep-flow", "duplicate-limit", "emoji-caret", "empty", "huge-field", "huge-name", "invalid-utf8", "invisible", "long-line",
	"no-break-space", "nul-character", "tab-caret", "utf16", "wide-caret"}

// writeList writes diagnostics without the lines of the file.
func writeList(w io.Writer, source *diag.Source, ds diag.Diagnostics) {
	for _, d := range ds {
		fmt.Fprintf(w, "%d:%d-%d %#q: %s [%s]\n", d.Pos.Line, d.Pos.Column, d.End.Column, source.Between(d.Span), d.Message, d.ID)
		for _, n := range d.Notes {
			fmt.Fprintf(w, "  %d:%d-%d %#q: %s\n", n.Pos.Line, n.Pos.Column, n.End.Column, source.Between(n.Span), n.Message)
		}
		if d.Help != "" {
			fmt.Fprintf(w, "  help: %s\n", d.Help)
		}
	}
	if errors := ds.Errors(); errors > len(ds) {
		fmt.Fprintf(w, "%d errors\n", errors)
	}
}

func TestBadFilesHaveTheWantedDiagnostics(t *testing.T) {
	for name, src := range corpus(t, "bad") {
		t.Run(name, func(t *testing.T) {
			file, ds := Parse(name, src)
			assert.Nil(t, file)
			var got bytes.Buffer
			stem := strings.TrimSuffix(name, ".yaml")
			if slices.Contains(excerpted, stem) {
				require.NoError(t, ds.WriteText(&got, false))
			} else {
				writeList(&got, diag.NewSource(name, string(src)), ds)
			}
			want := filepath.Join("..", "..", "testdata", "spec", "bad", stem+".want")
			if *update {
				require.NoError(t, os.WriteFile(want, got.Bytes(), 0o644))
			}
			text, err := os.ReadFile(want)
			require.NoError(t, err)
			assert.Equal(t, string(text), got.String(), "after an intended change, run go test ./gen/fields -run BadFiles -update")
			seen := map[string]bool{}
			for _, d := range ds {
				id := fmt.Sprint(d.Pos, d.ID, d.Message)
				assert.False(t, seen[id], "reported twice: %s", id)
				seen[id] = true
			}
		})
	}
}

func TestGoodFilesHaveNoDiagnostics(t *testing.T) {
	for name, src := range corpus(t, "good") {
		t.Run(name, func(t *testing.T) {
			file, ds := Parse(name, src)
			assert.Empty(t, ds)
			require.NotNil(t, file)
			for _, limit := range file.Limits {
				assert.NoError(t, limit.Policy.Validate())
			}
		})
	}
}

func TestEveryRuleIsBrokenByABadFile(t *testing.T) {
	broken := map[string]bool{ids.FileTooLarge.ID: true} // such a file would be too large for the corpus
	for name, src := range corpus(t, "bad") {
		_, ds := Parse(name, src)
		for _, d := range ds {
			broken[d.ID] = true
		}
	}
	for _, rule := range ids.Rules() {
		assert.True(t, broken[rule.ID], "no file breaks %s: add one to testdata/spec/bad, then go test ./gen/fields -run BadFiles -update", rule.ID)
	}
}

func TestExamplesOfRulesBreakAndKeepThem(t *testing.T) {
	for _, rule := range ids.Rules() {
		if rule.Before == "" {
			continue
		}
		t.Run(rule.ID, func(t *testing.T) {
			_, wrong := Parse("limits.yaml", []byte(rule.Before))
			assert.Contains(t, idsOf(wrong), rule.ID)
			_, right := Parse("limits.yaml", []byte(rule.After))
			assert.Empty(t, right)
			assert.NotEmpty(t, rule.Summary)
		})
	}
}

func idsOf(ds diag.Diagnostics) []string {
	var list []string
	for _, d := range ds {
		list = append(list, d.ID)
	}
	return list
}

// Each byte that begins a comment is one that the reader of YAML skips: without the comments, the file says the same.
func TestFilesWithoutCommentsSayTheSame(t *testing.T) {
	for name, src := range corpus(t, "good") {
		file, _ := Parse(name, src)
		text := string(src)
		for _, comment := range document.Comments(src) {
			text = strings.Replace(text, "#"+comment, "", 1)
		}
		without, ds := Parse(name, []byte(text))
		assert.Empty(t, ds, name)
		if assert.NotNil(t, without, name) {
			assert.Empty(t, document.Comments([]byte(text)), name)
			assert.Equal(t, file, without, name)
		}
	}
}
