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

func TestRunesFillZeroOneOrTwoCells(t *testing.T) {
	assert.Equal(t, 5, Of("a\u0301é日"+"\u200D"+"b"))
	assert.Equal(t, "\t    ", Blank("\t日ab"))
}

func TestTableAlignsAndCutsColumns(t *testing.T) {
	rows := [][]string{{"limit", "per", "rate"}, {"日本", "user", "1,000"}, {"x", "", "7"}}
	assert.Equal(t, "> limit  per    rate\n> 日本   user  1,000\n> x                7\n", Table(rows, "llr", "> "))
	assert.Equal(t, "a  b\n", Table([][]string{{"a", "b", ""}}, "lrl", ""))

	long := [][]string{{strings.Repeat("n", 40), strings.Repeat("k", 60), "9"}}
	assert.Equal(t, strings.Repeat("n", 40)+"  "+strings.Repeat("k", 34)+"…  9\n", Table(long, "llr", "", 1, 0))
	long = [][]string{{strings.Repeat("n", 90), "kkkkkk", "9"}}
	assert.Equal(t, strings.Repeat("n", 68)+"…  kkkkkk  9\n", Table(long, "llr", "", 0))
	assert.Equal(t, strings.Repeat("n", 69)+"…  kkkk…  9\n", Table(long, "llr", "", 1, 0))
}

func TestInkWithoutColorIsEmpty(t *testing.T) {
	assert.Equal(t, Ink{}, InkFor(false))
	assert.Equal(t, "\x1b[1;31m", InkFor(true).Red)
}
