package review

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func markdownOf(t testing.TB, r *Review) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, r.WriteMarkdown(&out))
	return out.String()
}

func TestMarkerIsOneCommentWhateverTheName(t *testing.T) {
	for name, want := range map[string]string{
		"limits.yaml":        "<!-- ratelimitgen diff limits.yaml -->",
		"app/my-limits.yaml": "<!-- ratelimitgen diff app/my-limits.yaml -->",
		"a b\n.yaml":         "<!-- ratelimitgen diff a%20b%0A.yaml -->",
		"--><b>.yaml":        "<!-- ratelimitgen diff %2D%2D%3E%3Cb%3E.yaml -->",
		"é.yaml":             "<!-- ratelimitgen diff %C3%A9.yaml -->",
	} {
		assert.Equal(t, want, Marker(name))
		assert.Equal(t, 1, strings.Count(Marker(name), "-->"))
	}
}

// manyLimits returns a file of n limits with a long doc.
func manyLimits(n int, rest string) string {
	var text strings.Builder
	text.WriteString("version: 1\nlimits:\n")
	for i := range n {
		fmt.Fprintf(&text, "  limit%d: {kind: token bucket, rate: %d, key: {userID: int64}, %s}\n", i, i+1, rest)
	}
	return text.String()
}

func TestMarkdownIsNeverTooLong(t *testing.T) {
	long := strings.Repeat(`@a <b> | `, 40)
	for _, n := range []int{1, 20, 60, 100, 1000} {
		r := Of(parse(t, "old.yaml", manyLimits(n, "period: 1m")), parse(t, "new.yaml", manyLimits(n, "period: 2m, doc: '"+long+"'")))
		text := markdownOf(t, r)
		assert.Less(t, utf8.RuneCountInString(text), 60_000)
		shown, folded := strings.Count(text, "\n#### "), strings.Count(text, "\n<details>")
		switch {
		case shown < n:
			assert.Contains(t, text, "\n"+grouped(n-shown)+" of these are not shown for lack of room")
		case folded < n:
			assert.Contains(t, text, "\nThe details of "+grouped(n-folded)+" are not shown for lack of room")
		}
		assert.Equal(t, n < 1000, shown == n, n)
		assert.Equal(t, n < 60, folded == n, n)
	}
}

// Where there is no room for all, the gravest are shown, wherever they stand in the file.
func TestMarkdownShowsTheGravestFirst(t *testing.T) {
	last := func(rate string) string {
		return "  last: {kind: token bucket, rate: " + rate + ", period: 1m, maxReserved: 0}\n"
	}
	old, new := manyLimits(400, "period: 1m")+last("10"), manyLimits(400, "period: 2m")+last("90")
	text := markdownOf(t, Of(parse(t, "old.yaml", old), parse(t, "new.yaml", new)))
	assert.Contains(t, text, "\n**1 loosened, 400 tightened** compared with `old.yaml`:\n")
	first := text[strings.Index(text, "\n#### "):]
	assert.True(t, strings.HasPrefix(first, "\n#### `last`: loosened\nFor all callers together: at once 10 → 90 (×9); "), first[:100])
	assert.Contains(t, text, "`ratelimitgen explain WORD`")
}

func grouped(n int) string { return Number{Unit: Tokens}.words(ref64(int64(n))) }

func ref64(n int64) *int64 { return &n }

// A long name does not make it longer either.
func TestMarkdownOfLongNames(t *testing.T) {
	name := strings.Repeat("a", 255)
	text := func(rate int) string {
		return fmt.Sprintf("version: 1\nlimits:\n  %s: {kind: token bucket, rate: %d, period: 1m}\n", name, rate)
	}
	got := markdownOf(t, Of(parse(t, "old.yaml", text(1)), parse(t, "new.yaml", text(2))))
	assert.Less(t, len(got), 60_000)
	got = markdownOf(t, Of(parse(t, "old.yaml", text(1)), parse(t, "new.yaml", manyLimits(1, "period: 1m"))))
	assert.Less(t, len(got), 60_000)
}

// Whatever a file says stands in code, and no code ends before it.
func TestMarkdownOfHostileText(t *testing.T) {
	for _, text := range []string{"a|b", "`", "``` |", `\`, `a\|b`, "<!-- -->", "@team #1", "a\nb", "[x](y)", "&amp;", "\u00a0", "~~~"} {
		got := code(text)
		require.NotContains(t, got, "\n")
		switch {
		case strings.HasPrefix(got, "<code>"):
			inside := strings.TrimSuffix(strings.TrimPrefix(got, "<code>"), "</code>")
			assert.NotContains(t, inside, "<", text)
			assert.NotContains(t, inside, "|", text)
			assert.NotContains(t, inside, "`", text)
		case got != "":
			assert.Equal(t, 2, strings.Count(got, "`"), text)
			assert.NotContains(t, got, "|", text)
		}
	}
}
