package printable

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnsafeRunesAreEscapedOrMasked(t *testing.T) {
	for _, test := range []struct{ text, line, mask string }{
		{"", "", ""},
		{"limits.yaml", "limits.yaml", "limits.yaml"},
		{"日本 é e\u0301", "日本 é e\u0301", "日本 é e\u0301"},
		{"a\tb\nc", `a\tb\nc`, "a\tb\uFFFDc"},
		{"\x1b[31mred\x7f", `\x1b[31mred\x7f`, "\uFFFD[31mred\uFFFD"},
		{"\u009b31m\u0085", `\u009b31m\u0085`, "\uFFFD31m\uFFFD"},
		{"\u202eab\u2066", `\u202eab\u2066`, "\uFFFDab\uFFFD"},
		{"a\u200bb\u00adc\ufeff", `a\u200bb\u00adc\ufeff`, "a\uFFFDb\uFFFDc\uFFFD"},
		{"\U000E0041\u3164\uE000\u2028", `\U000e0041\u3164\ue000\u2028`, "\uFFFD\uFFFD\uFFFD\uFFFD"},
		{"a\u00a0b", `a\u00a0b`, "a\uFFFDb"},
		{"\xff\xc3", `\xff\xc3`, "\uFFFD\uFFFD"},
		{"\uFFFD", "\uFFFD", "\uFFFD"},
		{"👩\u200d💻 ❤\uFE0F\u200d🔥 👍🏽", "👩\u200d💻 ❤\uFE0F\u200d🔥 👍🏽", "👩\u200d💻 ❤\uFE0F\u200d🔥 👍🏽"},
		{"a\u200db #\uFE0F", `a\u200db #\ufe0f`, "a\uFFFDb #\uFFFD"},
		{"👩\u200d\u200d", "👩\u200d" + `\u200d`, "👩\u200d\uFFFD"},
	} {
		assert.Equal(t, test.line, Line(test.text))
		assert.Equal(t, test.mask, Mask(test.text))
		assert.Equal(t, test.line, strings.ReplaceAll(strings.ReplaceAll(Text(test.text), "\n", `\n`), "\t", `\t`))
	}
	assert.Equal(t, "a\n\tb\n\nc\\r", Text("a\n\tb\n\nc\r"))
}

func TestJSONKeepsItsMeaning(t *testing.T) {
	text, err := json.Marshal([]any{"\x1b\u009b\u202e\U000E0041👩\u200d💻", "##[error]", []int{1}, "\u2028\x7f\n"})
	require.NoError(t, err)
	got := JSON(append(text, '\n'))
	assert.Equal(t, `["\u001b\u009b\u202e\udb40\udc41👩`+"\u200d"+`💻","##\u005berror]",[1],"\u2028\u007f\n"]`+"\n", string(got))
	assert.JSONEq(t, string(text), string(got))
}

func TestFlatJoinsLines(t *testing.T) {
	assert.Equal(t, `a b \x1b`, Flat("\n a\t\r\n b \x1b "))
	assert.Empty(t, Flat("\u00a0\n"))
}

func TestCodeIsOneSpanOfMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a b": "`a b`", "<!-- -->": "`<!-- -->`", "@team #1": "`@team #1`", "a\nb": "`a\\nb`",
		"a|b": "<code>a&#124;b</code>", "`": "<code>&#96;</code>", "é`<b>": "<code>é&#96;&#60;b&#62;</code>",
	} {
		assert.Equal(t, want, Code(text))
	}
}

func TestProseHasNoMarkup(t *testing.T) {
	assert.Equal(t, `a\_b \*c\* &lt;d> \[e](f) \|\~\\n`+"\\`", Prose("a_b *c* <d> [e](f) |~\n`"))
}

func TestWriterEscapesControlsAndCommands(t *testing.T) {
	for _, test := range []struct{ text, plain, colored string }{
		{"a: b\n\tc ::d #[ ## [\n", "a: b\n\tc ::d #[ ## [\n", ""},
		{"::error::x", `:\x3aerror::x`, ""},
		{"a\n \t::error::x\n", "a\n \t:\\x3aerror::x\n", ""},
		{": :x\n:\n::\n", ": :x\n:\n:\\x3a\n", ""},
		{"x ##[group]y ###[z]", `x ##\x5bgroup]y ###\x5bz]`, ""},
		{"\x1b[1;31mred\x1b[0m\x1b]0;title\x07\r\n", `\x1b[1;31mred\x1b[0m\x1b]0;title\a\r` + "\n", "\x1b[1;31mred\x1b[0m" + `\x1b]0;title\a\r` + "\n"},
		{"日本\u202e\xff", `日本\u202e\xff`, ""},
		{"\xe6", `\xe6`, ""},
		{":\uFE0F:error::", `:\ufe0f:error::`, ""},
	} {
		for _, color := range []bool{false, true} {
			want := test.plain
			if color && test.colored != "" {
				want = test.colored
			}
			assert.Equal(t, want, written(t, color, test.text))
			if !color {
				assert.Equal(t, want, written(t, color, strings.Split(test.text, "")...), "rune by rune")
			}
		}
	}
	assert.Equal(t, "日", written(t, false, "\xe6", "\x97", "\xa5"))
}

func written(t *testing.T, color bool, pieces ...string) string {
	t.Helper()
	var out strings.Builder
	w := NewWriter(&out)
	w.Color = color
	for _, piece := range pieces {
		n, err := w.Write([]byte(piece))
		require.NoError(t, err)
		require.Equal(t, len(piece), n)
	}
	require.NoError(t, w.Flush())
	return out.String()
}

func FuzzWriter(f *testing.F) {
	f.Add("\n ::error::\x1b[1m##[group]\u202e👩\u200d💻", 3)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		cut = min(max(cut, 0), len(text))
		got := written(t, false, text[:cut], text[cut:])
		require.NotContains(t, got, "##[")
		for line := range strings.Lines(got) {
			require.False(t, strings.HasPrefix(strings.TrimSpace(line), "::"), "%q", line)
		}
		for _, r := range got {
			require.True(t, r == '\n' || r == '\t' || unicode.IsPrint(r) || r == '\u200d', "%q", got)
		}
		require.Equal(t, got, written(t, false, text))
	})
}
