package spec

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxSize is the size of the largest limits.yaml, in bytes.
const MaxSize = 4 << 20

// legible reports whether the file is text at all, before YAML is asked. It names the exact place, which
// the YAML reader does not.
func (p *parser) legible() bool {
	if len(p.src.text) > MaxSize {
		p.report(span{Pos{1, 1}, Pos{1, 1}}, fileTooLarge, "split it into files with a package each",
			"the file is larger than %d MiB", MaxSize>>20)
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
		if !bad && !Illegible(r) && !strayJoiner(line, i, r) {
			continue
		}
		at := spanning(Pos{number, 1 + utf8.RuneCountInString(line[:i])}, " ")
		if bad {
			p.report(at, invalidUTF8, "save the file as UTF-8", "the byte 0x%02X is not valid UTF-8", line[i])
			return false
		}
		switch {
		case unicode.Is(unicode.Bidi_Control, r):
			p.report(at, controlCharacter, "delete it", "the character %U cannot be seen, and can show the text in another order than it is read in", r)
		case invisible(r), isJoiner(r):
			p.report(at, controlCharacter, "delete it", "the character %U cannot be seen", r)
		default:
			p.report(at, controlCharacter, "", "the character %U cannot stand in a text", r)
		}
		return true
	}
	return true
}

var (
	// indentForm is an indentation with a character that looks like a space and is none in YAML.
	indentForm = regexp.MustCompile(`^[ \t]*([\x{A0}\x{1680}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}]+)`)
	// conflictForm is a line that git writes where two branches changed the same lines.
	conflictForm = regexp.MustCompile(`^(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|)( |$)|^=======$`)
)

// wellLaid reports what YAML would complain about only on a later line: the marks of a merge conflict, and
// an indentation with no-break spaces. It is false if there is any.
func (p *parser) wellLaid() bool {
	for i, line := range p.src.lines {
		if conflictForm.MatchString(line) {
			p.report(p.src.wholeLine(i+1), syntax, "keep one of the two sides, and delete the lines with <<<<<<<, ======= and >>>>>>>",
				"a merge conflict is not resolved")
			return false
		}
		if indent := indentForm.FindStringSubmatchIndex(line); indent != nil {
			first, _ := utf8.DecodeRuneInString(line[indent[2]:])
			p.report(spanning(Pos{i + 1, 1 + indent[2]}, line[indent[2]:indent[3]]), syntax, "indent with spaces",
				"the indentation has the character %U, which looks like a space", first)
			return false
		}
	}
	return true
}

// Illegible reports whether r has no place in a line that people review: YAML refuses it, takes it for the
// end of a line where editors see none, it makes a line look other than it is, or it cannot be seen. Tabs are
// fine, and so are the joiners of emoji and of Persian and Indic words.
func Illegible(r rune) bool {
	switch {
	case r < ' ' && r != '\t', r >= 0x7F && r <= 0x9F, r == '\u2028', r == '\u2029', unicode.Is(unicode.Bidi_Control, r):
		return true
	}
	return invisible(r) || r == '\uFFFE' || r == '\uFFFF'
}

func isJoiner(r rune) bool { return r == '\u200C' || r == '\u200D' }

// strayJoiner reports whether r, at i in a line, is a joiner that joins nothing: only letters beyond ASCII and
// emoji have joined forms.
func strayJoiner(line string, i int, r rune) bool {
	if !isJoiner(r) {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(line[:i])
	after, _ := utf8.DecodeRuneInString(line[i+utf8.RuneLen(r):])
	return i == 0 || before < utf8.RuneSelf || after < utf8.RuneSelf
}

// invisible reports whether r takes no room on the screen, or shows as a blank that is no space: a text can hide
// in such characters. See Unicode Technical Standard 39.
func invisible(r rune) bool {
	switch {
	case isJoiner(r):
		return false
	case strings.ContainsRune("\u115F\u1160\u3164\uFFA0", r): // Hangul fillers, which count as letters
		return true
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) || r >= '\U000E0000' && r <= '\U000E0FFF'
}
