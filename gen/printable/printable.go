// Package printable makes text that others wrote safe to print: names of files, documents, and what other
// programs say.
//
// # What is unsafe
//
// A rune is unsafe if it moves the cursor, changes colors, reorders a line or cannot be seen: controls (C0,
// DEL and C1), line and paragraph separators, bidirectional controls, zero width and other ignorable
// characters, spaces that look like U+0020, private and unassigned code points. Bytes that are not UTF-8 are
// unsafe too. A zero width joiner and a variation selector are safe after a symbol, where they make an emoji.
//
// # What to use
//
// [Line] is for a name or a value inside a line, [Text] for text of several lines. [Mask] keeps the number of
// runes, so that columns still count. [JSON] is for JSON, which has escapes of its own. A [Writer] is the last
// line of defense: whatever is written to it cannot control a terminal or a CI runner.
package printable

import (
	"bytes"
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns text on one line: each unsafe rune or byte is written as an escape of Go, such as \n, \x1b or
// \u202e, and so is each tab.
func Line(text string) string {
	if plain(text) {
		return text
	}
	var out strings.Builder
	for sign := range Signs(text) {
		out.WriteString(sign)
	}
	return out.String()
}

// Text is [Line] for text of several lines: newlines and tabs stay.
func Text(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		rest, ended := strings.CutSuffix(line, "\n")
		for i, cell := range strings.Split(rest, "\t") {
			if i > 0 {
				out.WriteByte('\t')
			}
			out.WriteString(Line(cell))
		}
		if ended {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// Mask returns text with U+FFFD in place of each unsafe rune or byte. Tabs stay.
func Mask(text string) string {
	if plain(text) {
		return text
	}
	var out strings.Builder
	prev := rune(0)
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == '\t' || safe(prev, r, n) {
			out.WriteString(text[:n])
		} else {
			out.WriteRune(unicode.ReplacementChar)
		}
		prev, text = r, text[n:]
	}
	return out.String()
}

// Signs yields the runes of a text as [Line] writes them.
func Signs(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		prev := rune(0)
		for len(text) > 0 {
			r, n := utf8.DecodeRuneInString(text)
			if !yield(sign(prev, r, text[:n])) {
				return
			}
			prev, text = r, text[n:]
		}
	}
}

// JSON returns JSON that means the same, with the unsafe runes in its strings, and "##[", written as escapes.
// Newlines between tokens stay.
func JSON(text []byte) []byte {
	if plain(bytes.TrimSuffix(text, []byte("\n"))) && !bytes.Contains(text, []byte("##[")) {
		return text
	}
	var out []byte
	prev, hashes := rune(0), 0
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		switch {
		case r == '[' && hashes >= 2, r != '\n' && !safe(prev, r, n):
			for _, unit := range utf16.Encode([]rune{r}) {
				out = append(out, `\u`...)
				out = append(out, strconv.FormatUint(0x10000+uint64(unit), 16)[1:]...)
			}
		default:
			out = append(out, text[at:at+n]...)
		}
		hashes++
		if r != '#' {
			hashes = 0
		}
		prev, at = r, at+n
	}
	return out
}

// sign returns a rune, whose bytes are given, or the escape for it.
func sign(prev, r rune, encoded string) string {
	if safe(prev, r, len(encoded)) {
		return encoded
	}
	quoted := strconv.QuoteToASCII(encoded)
	return quoted[1 : len(quoted)-1]
}

// safe reports whether a rune of n bytes, which follows prev, can be printed as it is.
func safe(prev, r rune, n int) bool {
	switch {
	case r < utf8.RuneSelf:
		return ' ' <= r && r <= '~'
	case r == utf8.RuneError && n == 1:
		return false
	case r == '\u200D', r == '\uFE0E', r == '\uFE0F':
		return prev > unicode.MaxASCII && unicode.In(prev, unicode.So, unicode.Sm, unicode.Sk) || r == '\u200D' && prev == '\uFE0F'
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// plain reports whether a text is ASCII that can be printed as it is.
func plain[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
