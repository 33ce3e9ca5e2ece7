package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
)

func TestMarkerIsOneHTMLCommentForAnyName(t *testing.T) {
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

func TestMarkdownLeavesPartsOutWhenTooLong(t *testing.T) {
	long := strings.Repeat(`@a <b> | `, 40)
	for _, n := range []int{1, 20, 60, 100, 1000} {
		r := judge.Review(parse(t, "old.yaml", manyLimits(n, "period: 1m")), parse(t, "new.yaml", manyLimits(n, "period: 2m, doc: '"+long+"'")))
		text := markdownOf(t, r)
		assert.Less(t, utf8.RuneCountInString(text), 60_000)
		shown, folded := strings.Count(text, "\n#### "), strings.Count(text, "\n<details>")
		switch {
		case shown < n:
			assert.Contains(t, text, "\nSections left out: "+words.Number(int64(n-shown))+", because this comment would be too long.")
		case folded < n:
			assert.Contains(t, text, "\nSections without details: "+words.Number(int64(n-folded))+", because this comment would be too long.")
		}
		assert.Equal(t, n < 1000, shown == n, n)
		assert.Equal(t, n < 60, folded == n, n)
	}
}

func TestMarkdownShowsMostSevereFirst(t *testing.T) {
	last := func(rate string) string {
		return "  last: {kind: token bucket, rate: " + rate + ", period: 1m, maxReserved: 0}\n"
	}
	old, new := manyLimits(400, "period: 1m")+last("10"), manyLimits(400, "period: 2m")+last("90")
	text := markdownOf(t, judge.Review(parse(t, "old.yaml", old), parse(t, "new.yaml", new)))
	assert.Contains(t, text, "\n**401 changes: 1 looser, 400 tighter**, compared with `old.yaml`.\n")
	first := text[strings.Index(text, "\n#### "):]
	assert.True(t, strings.HasPrefix(first, "\n#### `last`\nFor all callers together, at most, before (-) and now (+):\n```diff\n- at once        ████ 10\n"), first[:100])
	assert.Contains(t, text, "`ratelimitgen explain WORD`")
}

func TestMarkdownStaysShortWithLongNames(t *testing.T) {
	name := strings.Repeat("a", 255)
	text := func(rate int) string {
		return fmt.Sprintf("version: 1\nlimits:\n  %s: {kind: token bucket, rate: %d, period: 1m}\n", name, rate)
	}
	got := markdownOf(t, judge.Review(parse(t, "old.yaml", text(1)), parse(t, "new.yaml", text(2))))
	assert.Less(t, len(got), 60_000)
	got = markdownOf(t, judge.Review(parse(t, "old.yaml", text(1)), parse(t, "new.yaml", manyLimits(1, "period: 1m"))))
	assert.Less(t, len(got), 60_000)
}

func TestMarkdownPrintsHostileTextAsCode(t *testing.T) {
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

func TestMarkdownSaysWhatWasAdded(t *testing.T) {
	const limits = "version: 1\nlimits:\n  a: {kind: token bucket, rate: 1, period: 1s}\n  b: {kind: token bucket, rate: 1, period: 1m}\n"
	added := parse(t, "new.yaml", limits+"  c: {kind: token bucket, rate: 1, period: 1h}\ngroups:\n  both: {takes: [a, b]}\n")
	text := markdownOf(t, judge.Review(parse(t, "old.yaml", limits), added))
	require.Regexp(t, `\| .c. \| limit \| [^|]*\| .c. \| \*\*added\*\* .limit-added. `, text)
	require.Regexp(t, `\| .group both. \| group \| [^|]*\| .both. \| \*\*added\*\* .group-added. `, text)
}

func markdownOf(t testing.TB, r *review.Review) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, WriteMarkdown(&out, r, Options{}))
	return out.String()
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Only SQL statements may be longer than a line, because they are copied. Without its escape codes, colored text is the
// plain text.
func TestTextFitsTerminalWidth(t *testing.T) {
	eachCase(t, func(t *testing.T, _ string, _ []section, r *review.Review) {
		var plain, color bytes.Buffer
		require.NoError(t, WriteText(&plain, r, Options{}))
		require.NoError(t, WriteText(&color, r, Options{Color: true}))
		assert.Equal(t, plain.String(), escapes.ReplaceAllString(color.String(), ""))
		for line := range strings.Lines(plain.String()) {
			line = strings.TrimSuffix(line, "\n")
			assert.Equal(t, strings.TrimRight(line, " "), line)
			if !strings.HasSuffix(line, ";") {
				assert.LessOrEqual(t, cells.Of(line), cells.Line, line)
			}
		}
	})
}

func TestTextAlignsIDs(t *testing.T) {
	id, found := regexp.MustCompile(`^(.*)\[[a-z-]+\]( |$)`), 0
	eachCase(t, func(t *testing.T, _ string, _ []section, r *review.Review) {
		var out bytes.Buffer
		require.NoError(t, WriteText(&out, r, Options{}))
		for line := range strings.Lines(out.String()) {
			place := id.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if place == nil || place[1] == changeIndent { // or it is a limit that was added or removed
				continue
			}
			assert.Equal(t, endColumn, cells.Of(place[1]), line)
			found++
		}
	})
	assert.Greater(t, found, 50)
}

func TestTextEscapesHostileText(t *testing.T) {
	old := parse(t, "a\x1b[31m\u202eb.yaml", oneLimit("rate: 1"))
	r := judge.Review(old, parse(t, "c\nd.yaml", oneLimit("rate: 1, doc: \""+strings.Repeat("x", 300)+"\"")))
	var out bytes.Buffer
	require.NoError(t, WriteText(&out, r, Options{}))
	assert.NotContains(t, out.String(), "\x1b")
	assert.NotContains(t, out.String(), "\u202e")
	assert.Contains(t, out.String(), "c d.yaml against a\\x1b[31m\\u202eb.yaml\n")
	assert.Contains(t, out.String(), "x…\n")
}

// cases returns a file with one limit.
func oneLimit(rest string) string {
	return "version: 1\nlimits:\n  send: {kind: token bucket, period: 1m, " + rest + "}\n"
}

func TestJSONMatchesSchema(t *testing.T) {
	v := newValidator(t)
	eachCase(t, func(t *testing.T, _ string, _ []section, r *review.Review) {
		var out bytes.Buffer
		require.NoError(t, WriteJSON(&out, r, Options{}))
		assert.Empty(t, v.problems(out.String()))
	})
}

func TestJSONHasAWordForNoBound(t *testing.T) {
	const limit = "version: 1\nlimits:\n  send: {kind: token bucket, rate: 1, period: 1s%s}\n"
	r := judge.Review(parse(t, "old", fmt.Sprintf(limit, "")), parse(t, "new", fmt.Sprintf(limit, ", mode: shadow")))
	var out bytes.Buffer
	require.NoError(t, WriteJSON(&out, r, Options{}))
	require.Contains(t, out.String(), `"old": 1,
          "new": "unbounded"
`)
}

func TestSchemaRejectsInvalidDocuments(t *testing.T) {
	v := newValidator(t)
	r := judge.Review(parse(t, "old", oneLimit("rate: 10")), parse(t, "new", oneLimit("rate: 20")))
	var out bytes.Buffer
	require.NoError(t, WriteJSON(&out, r, Options{}))
	for _, edit := range [][2]string{
		{`"version": 1`, `"version": 2`}, {`"old": "old"`, `"old": null`}, {`"rate-changed"`, `"rate"`}, {`"loosened"`, `"looser"`},
		{`"line": 3`, `"line": 0`}, {`"given": true`, `"given": 1`}, {`"unit": "tokens"`, `"unit": "token"`}, {`"sql": []`, `"sql": null`},
		{`"about": "rule"`, `"about": "rules"`}, {`"limit": "send",`, ``}, {`"version": 1`, `"version": 1, "more": 1`},
	} {
		require.Contains(t, out.String(), edit[0])
		assert.NotEmpty(t, v.problems(strings.ReplaceAll(out.String(), edit[0], edit[1])), "%v", edit)
	}
}

// validator checks values against a schema. It supports the part of JSON Schema that [Schema] uses.
type validator struct {
	t    *testing.T
	root map[string]any
}

func newValidator(t *testing.T) validator {
	t.Helper()
	v := validator{t: t}
	require.NoError(t, json.Unmarshal(Schema(), &v.root))
	return v
}

// problems returns the words of the schema that a document violates.
func (v validator) problems(document string) []string {
	var value any
	require.NoError(v.t, json.Unmarshal([]byte(document), &value), document)
	return v.broken(v.root, value)
}

// broken returns the words of a schema that a value violates.
func (v validator) broken(schema, value any) (words []string) {
	for word, want := range schema.(map[string]any) {
		if !v.keeps(word, want, value) {
			words = append(words, word)
		}
	}
	return words
}

func (v validator) valid(schema, value any) bool { return len(v.broken(schema, value)) == 0 }

func (v validator) keeps(word string, want, value any) bool {
	object, isObject := value.(map[string]any)
	items, _ := value.([]any)
	switch word {
	case "$ref":
		return v.valid(v.root["definitions"].(map[string]any)[strings.TrimPrefix(want.(string), "#/definitions/")], value)
	case "type":
		return isType(want.(string), value)
	case "enum":
		return slices.Contains(want.([]any), value)
	case "const":
		return want == value
	case "minimum":
		number, isNumber := value.(float64)
		return !isNumber || number >= want.(float64)
	case "required":
		return !isObject || !slices.ContainsFunc(want.([]any), func(name any) bool { _, has := object[name.(string)]; return !has })
	case "anyOf":
		return slices.ContainsFunc(want.([]any), func(one any) bool { return v.valid(one, value) })
	case "items":
		return !slices.ContainsFunc(items, func(item any) bool { return !v.valid(want, item) })
	case "properties":
		for name, inside := range object {
			if property, ok := want.(map[string]any)[name]; !ok || !v.valid(property, inside) {
				return false
			}
		}
		return true
	}
	require.Contains(v.t, []string{"$schema", "title", "description", "definitions"}, word)
	return true
}

func isType(want string, value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return want == "object"
	case []any:
		return want == "array"
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case float64:
		return want == "integer" && value == float64(int64(value))
	}
	return want == "null" && value == nil
}

// rowEnds matches the end of the row of a change.
var rowEnds = regexp.MustCompile("(?m) \\| \\*\\*[a-z, -]+\\*\\* `[a-z-]+` \\|$")

// What harms most is neither folded away nor below harmless changes.
func TestRisksComeFirst(t *testing.T) {
	seen := map[review.RiskKind]bool{}
	eachCase(t, func(t *testing.T, _ string, _ []section, r *review.Review) {
		var out bytes.Buffer
		require.NoError(t, WriteMarkdown(&out, r, Options{}))
		unfolded, _, _ := strings.Cut(out.String(), "<details>")
		harmless := false
		for _, s := range r.BySeverity() {
			require.False(t, harmless && len(s.Risks) > 0, "%s is behind a subject without a risk", NameOf(s))
			harmless = harmless || len(s.Risks) == 0
			for _, k := range s.Risks {
				seen[k.Kind] = true
				require.Contains(t, unfolded, "> - "+code(NameOf(s))+": "+riskInWords(s, k)+"\n")
			}
		}
		changes := 0
		for i := range r.Subjects {
			for _, f := range r.Subjects[i].Findings {
				changes += len(f.Changes)
			}
		}
		if !strings.Contains(out.String(), "Changes left out") {
			require.Equal(t, changes, len(rowEnds.FindAllString(unfolded, -1)), "a row for each change")
		}
		for _, q := range r.SQL() {
			if !strings.Contains(q.Text, "```") && !strings.Contains(out.String(), "Statements left out") {
				require.Contains(t, unfolded, q.Text)
			}
		}
	})
	require.Len(t, seen, 5, "a case for each kind of risk")
}
