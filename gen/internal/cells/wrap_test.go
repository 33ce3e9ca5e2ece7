package cells

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWrap(t *testing.T) {
	text := strings.TrimSpace(strings.Repeat("日本 words ", 30))
	got := Wrap(text, "  ")
	assert.Equal(t, text, strings.Join(strings.Fields(got), " "))
	for line := range strings.Lines(got) {
		assert.LessOrEqual(t, Of(strings.TrimSuffix(line, "\n")), Line)
		assert.Regexp(t, "^  [日w]", line)
	}
	assert.Equal(t, "  one two\n", Wrap("one two", "  "))
	assert.Equal(t, "  "+strings.Repeat("x", 90)+"\n  y\n", Wrap(strings.Repeat("x", 90)+" y", "  "))
}

func TestFit(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 2, "  "}, {"ann", 3, "ann"}, {"ann", 5, "ann  "}, {"annette", 4, "ann…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日… "},
	} {
		got := Fit(test.text, test.width)
		assert.Equal(t, test.want, got)
		assert.Equal(t, test.width, Of(got))
	}
}
