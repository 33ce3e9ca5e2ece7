// Package printable makes untrusted text safe to print: file names, documents and the output of other programs.
//
// # Unsafe runes
//
// A rune is unsafe if it moves the cursor, changes colors, reorders a line or is invisible: controls (C0, DEL and
// C1), line and paragraph separators, bidirectional controls, zero width and other ignorable characters, spaces that
// look like U+0020, private and unassigned code points. Bytes that are not UTF-8 are unsafe too. A zero width joiner
// and a variation selector are safe after a symbol, where they form an emoji.
//
// # Choosing a function
//
//   - [Line] for a name or a value inside a line, [Flat] for a text that has to become one line.
//   - [Text] for text of several lines.
//   - [Mask] where columns are counted, because it keeps the number of runes.
//   - [JSON] for JSON, which has escapes of its own.
//   - [Code] and [Prose] for Markdown.
//   - [Writer] as the last line of defense: nothing that passes through it controls a terminal or a CI runner.
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
func Line(text string) string { return replaced(text, escaped) }

// Flat is [Line] with one space for each run of white space, and none at either end.
func Flat(text string) string { return Line(strings.Join(strings.Fields(text), " ")) }

// Text is [Line] for text of several lines: newlines and tabs stay.
func Text(text string) string {
	return replaced(text, func(encoded string) string {
		if encoded == "\n" || encoded == "\t" {
			return encoded
		}
		return escaped(encoded)
	})
}

// Mask returns text with U+FFFD in place of each unsafe rune or byte. Tabs stay.
func Mask(text string) string {
	return replaced(text, func(encoded string) string {
		if encoded == "\t" {
			return encoded
		}
		return string(unicode.ReplacementChar)
	})
}

// replaced returns a text with what unsafe returns in place of each rune or byte that is not safe.
func replaced(text string, unsafe func(encoded string) string) string {
	if plain(text) {
		return text
	}
	var out strings.Builder
	prev := rune(0)
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if safe(prev, r, n) {
			out.WriteString(text[:n])
		} else {
			out.WriteString(unsafe(text[:n]))
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

// JSON returns JSON with the same meaning, with the unsafe runes in its strings, and "##[", written as escapes.
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
		// Azure Pipelines runs "##[" in a log as a command.
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

// Code returns text as a Markdown code span on one line, which can also be a cell of a table. Inside a code span, @names
// and #numbers are not links. A text with a | or a backtick is written as HTML, with a character reference for each
// sign that Markdown could interpret. Code("") is "".
func Code(text string) string {
	text = Line(text)
	switch {
	case text == "":
		return ""
	case !strings.ContainsAny(text, "|`"):
		return "`" + text + "`"
	}
	var out strings.Builder
	for _, r := range text {
		if r > unicode.MaxASCII || r == ' ' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			out.WriteRune(r)
			continue
		}
		out.WriteString("&#" + strconv.Itoa(int(r)) + ";")
	}
	return "<code>" + out.String() + "</code>"
}

var proseEscapes = strings.NewReplacer(`\`, `\\`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "|", `\|`,
	"[", `\[`, "~", `\~`)

// Prose returns a sentence on one line in which Markdown finds no markup. The sentence must be ours: it may contain names
// of limits and of Go methods, but @names and #numbers would become links.
func Prose(text string) string { return proseEscapes.Replace(Line(text)) }

// sign returns a rune, given with its bytes, or the escape for it.
func sign(prev, r rune, encoded string) string {
	if safe(prev, r, len(encoded)) {
		return encoded
	}
	return escaped(encoded)
}

// escaped returns a rune or byte as an escape of Go.
func escaped(encoded string) string {
	quoted := strconv.QuoteToASCII(encoded)
	return quoted[1 : len(quoted)-1]
}

// safe reports whether a rune of n bytes, which follows prev, can be printed as it is.
func safe(prev, r rune, n int) bool {
	switch {
	case r < utf8.RuneSelf:
		return ' ' <= r && r <= '~'
	// A correctly encoded U+FFFD has three bytes and is safe.
	case r == utf8.RuneError && n == 1:
		return false
	case r == '\u200D', r == '\uFE0E', r == '\uFE0F':
		return prev > unicode.MaxASCII && unicode.In(prev, unicode.So, unicode.Sm, unicode.Sk) || r == '\u200D' && prev == '\uFE0F'
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// plain reports whether a text is printable ASCII, for which the slow path can be skipped.
func plain[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
