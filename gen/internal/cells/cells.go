// Package cells lays out text for terminals, which show each rune in 0, 1 or 2 cells: widths, cut and wrapped lines,
// tables and colors.
package cells

import (
	"strings"
	"unicode"
)

// Line is the most cells in a line of text for people.
const Line = 80

// zeroWidthJoiner joins the runes around it to one glyph, as in many emoji.
const zeroWidthJoiner = '\u200D'

// wide are the runes that fill two cells of a terminal: those of East Asian width W and F, and emoji.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115F, Stride: 1}, {Lo: 0x231A, Hi: 0x231B, Stride: 1}, {Lo: 0x23E9, Hi: 0x23EC, Stride: 1},
		{Lo: 0x2E80, Hi: 0x303E, Stride: 1}, {Lo: 0x3041, Hi: 0x33FF, Stride: 1}, {Lo: 0x3400, Hi: 0x4DBF, Stride: 1},
		{Lo: 0x4E00, Hi: 0xA4CF, Stride: 1}, {Lo: 0xA960, Hi: 0xA97F, Stride: 1}, {Lo: 0xAC00, Hi: 0xD7A3, Stride: 1},
		{Lo: 0xF900, Hi: 0xFAFF, Stride: 1}, {Lo: 0xFE30, Hi: 0xFE6F, Stride: 1}, {Lo: 0xFF00, Hi: 0xFF60, Stride: 1},
		{Lo: 0xFFE0, Hi: 0xFFE6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x16FE0, Hi: 0x18DFF, Stride: 1}, {Lo: 0x1AFF0, Hi: 0x1B2FF, Stride: 1}, {Lo: 0x1F300, Hi: 0x1F64F, Stride: 1},
		{Lo: 0x1F680, Hi: 0x1F6FF, Stride: 1}, {Lo: 0x1F900, Hi: 0x1FAFF, Stride: 1}, {Lo: 0x20000, Hi: 0x3FFFD, Stride: 1},
	},
}

// Rune returns the number of cells that a rune fills.
func Rune(r rune) int {
	switch {
	case r < 0x300: // the first combining mark; no earlier rune is wide
		return 1
	case r == zeroWidthJoiner, unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// Of returns the number of cells that a text fills.
func Of(text string) int {
	n := 0
	for _, r := range text {
		n += Rune(r)
	}
	return n
}

// Blank returns spaces as wide as a text. Tabs stay tabs, because their width depends on the terminal.
func Blank(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == '\t' {
			out.WriteRune(r)
			continue
		}
		out.WriteString(strings.Repeat(" ", Rune(r)))
	}
	return out.String()
}

// Fit returns a text that fills a width exactly: padded with spaces, or cut, with "…" at its end.
func Fit(text string, width int) string {
	if of := Of(text); of <= width {
		return text + strings.Repeat(" ", width-of)
	}
	used := Of("…")
	for i, r := range text {
		if used+Rune(r) > width {
			return text[:i] + "…" + strings.Repeat(" ", max(0, width-used))
		}
		used += Rune(r)
	}
	return text
}

// Wrap breaks a text into lines of words, each after the indent. A word that is longer than a line stays whole.
func Wrap(text, indent string) string {
	var out strings.Builder
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && Of(indent+line+" "+word) > Line {
			out.WriteString(indent + line + "\n")
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return out.String() + indent + line + "\n"
}
