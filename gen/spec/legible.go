package spec

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxSize is the size of the largest limits.yaml, in bytes.
const MaxSize = 4 << 20

// legible reports a file that is not text. It runs before the YAML reader, whose errors do not have the exact place.
func (p *document) legible() bool {
	if len(p.src.text) > MaxSize {
		p.report(span{Pos{1, 1}, Pos{1, 1}}, fileTooLarge, "split it into files with a package each",
			"the file is larger than %d MiB", MaxSize>>20)
		return false
	}
	for i, line := range p.src.lines {
		if !p.legibleLine(i+1, line) {
			return false
		}
	}
	return len(p.found) == 0
}

// legibleLine reports the first illegible rune of a line, and returns false if the line is not UTF-8.
func (p *document) legibleLine(number int, line string) bool {
	for i, r := range line {
		bad := r == utf8.RuneError && !strings.HasPrefix(line[i:], "\uFFFD")
		if !bad && !Illegible(r) && !strayJoiner(line, i, r) {
			continue
		}
		at := spanning(Pos{number, 1 + utf8.RuneCountInString(line[:i])}, " ")
		if bad {
			// In another encoding every later line would be reported too.
			p.report(at, invalidUTF8, "save the file as UTF-8", "the byte 0x%02X is not valid UTF-8", line[i])
			return false
		}
		switch {
		case unicode.Is(unicode.Bidi_Control, r):
			p.report(at, controlCharacter, "delete it", "the character %U is invisible and can reorder the text around it on the screen", r)
		// A joiner gets here only if it is stray.
		case invisible(r), isJoiner(r):
			p.report(at, controlCharacter, "delete it", "the character %U is invisible", r)
		default:
			p.report(at, controlCharacter, "delete it", "the character %U is not allowed in YAML text", r)
		}
		return true
	}
	return true
}

// noConflictMarkers reports the markers of a merge conflict, and an indentation with no-break spaces. The YAML reader
// would report them on a later line.
func (p *document) noConflictMarkers() bool {
	for i, line := range p.src.lines {
		if conflictForm.MatchString(line) {
			p.report(p.src.wholeLine(i+1), syntax, "keep one of the two sides, and delete the lines with <<<<<<<, ======= and >>>>>>>",
				"the file has an unresolved merge conflict")
			return false
		}
		if indent := indentForm.FindStringSubmatchIndex(line); indent != nil {
			first, _ := utf8.DecodeRuneInString(line[indent[2]:])
			p.report(spanning(Pos{i + 1, 1 + indent[2]}, line[indent[2]:indent[3]]), syntax, "indent with spaces",
				"the indentation has the character %U, which looks like a space but is not one", first)
			return false
		}
	}
	return true
}

// Illegible reports whether people cannot review a line with r in it: YAML forbids r, or ends a line there where editors
// do not, or r reorders the line, or is invisible. Tabs are legible, and so are the joiners of emoji and of Persian and
// Indic words.
func Illegible(r rune) bool {
	switch {
	case r < ' ' && r != '\t', r >= 0x7F && r <= 0x9F, r == '\u2028', r == '\u2029', unicode.Is(unicode.Bidi_Control, r):
		return true
	}
	return invisible(r) || r == '\uFFFE' || r == '\uFFFF'
}

func isJoiner(r rune) bool { return r == '\u200C' || r == '\u200D' }

// strayJoiner reports whether r, at offset i of a line, is a joiner without effect: only emoji and letters beyond ASCII
// have joined forms.
func strayJoiner(line string, i int, r rune) bool {
	if !isJoiner(r) {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(line[:i])
	after, _ := utf8.DecodeRuneInString(line[i+utf8.RuneLen(r):])
	return i == 0 || before < utf8.RuneSelf || after < utf8.RuneSelf
}

// invisible reports whether r has no width on the screen, or is a blank other than the space: text can be hidden in such
// characters. See Unicode Technical Standard 39.
func invisible(r rune) bool {
	switch {
	case isJoiner(r):
		return false
	case strings.ContainsRune("\u115F\u1160\u3164\uFFA0", r): // Hangul fillers, which count as letters
		return true
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) || r >= '\U000E0000' && r <= '\U000E0FFF'
}
