package spec

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSize is the size of the largest file that is read, in bytes.
const maxSize = 4 << 20

// legible reports whether the file is text at all, before YAML is asked. It names the exact place, which
// the YAML reader does not.
func (p *parser) legible() bool {
	if len(p.src.text) > maxSize {
		p.report(span{Pos{1, 1}, Pos{1, 1}}, fileTooLarge, "split it into files with a package each",
			"the file is larger than %d MiB", maxSize>>20)
		return false
	}
	for i, line := range p.src.lines {
		if !p.utf8Line(i+1, line) {
			return false
		}
	}
	return len(p.found) == 0
}

// utf8Line reports the first rune of a line that has no place in a text. It is false if the text is not
// even UTF-8, so that the lines after it mean nothing.
func (p *parser) utf8Line(number int, line string) bool {
	for i, r := range line {
		bad := r == utf8.RuneError && !strings.HasPrefix(line[i:], "\uFFFD")
		if !bad && !Illegible(r) {
			continue
		}
		at := spanning(Pos{number, 1 + utf8.RuneCountInString(line[:i])}, " ")
		if bad {
			p.report(at, invalidUTF8, "save the file as UTF-8", "the byte 0x%02X is not valid UTF-8", line[i])
			return false
		}
		if unicode.Is(unicode.Bidi_Control, r) {
			p.report(at, controlCharacter, "delete it", "the character %U cannot be seen, and can show the text in another order than it is read in", r)
			return true
		}
		p.report(at, controlCharacter, "", "the character %U cannot stand in a text", r)
		return true
	}
	return true
}

// Illegible reports whether r has no place in a line that people review: YAML refuses it, takes it for the
// end of a line where editors see none, or it makes a line look other than it is. Tabs are fine.
func Illegible(r rune) bool {
	switch {
	case r < ' ' && r != '\t', r >= 0x7F && r <= 0x9F, r == '\u2028', r == '\u2029', unicode.Is(unicode.Bidi_Control, r):
		return true
	}
	return r == '\uFEFF' || r == '\uFFFE' || r == '\uFFFF'
}
