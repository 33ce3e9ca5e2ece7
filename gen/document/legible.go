package document

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
)

// MaxSize is the size of the largest limits.yaml, in bytes.
const MaxSize = 4 << 20

// legible reports a file that is not text. It runs before the YAML reader, whose errors do not have the exact place.
func (d *Document) legible() bool {
	if len(d.Source.Text) > MaxSize {
		d.Report(diag.Spanning(diag.Pos{Line: 1, Column: 1}, ""), ids.FileTooLarge, "split it into files with a package each",
			"the file is larger than %d MiB", MaxSize>>20)
		return false
	}
	for i, line := range d.Source.Lines {
		if !d.legibleLine(i+1, line) {
			return false
		}
	}
	return len(d.Found) == 0
}

// legibleLine reports the first illegible rune of a line, and returns false if the line is not UTF-8.
func (d *Document) legibleLine(number int, line string) bool {
	for i, r := range line {
		bad := r == utf8.RuneError && !strings.HasPrefix(line[i:], "\uFFFD")
		if !bad && !Illegible(r) && !strayJoiner(line, i, r) {
			continue
		}
		at := diag.Spanning(diag.Pos{Line: number, Column: 1 + utf8.RuneCountInString(line[:i])}, " ")
		if bad {
			// In another encoding every later line would be reported too.
			d.Report(at, ids.InvalidUTF8, "save the file as UTF-8", "the byte 0x%02X is not valid UTF-8", line[i])
			return false
		}
		switch {
		case unicode.Is(unicode.Bidi_Control, r):
			d.Report(at, ids.ControlCharacter, "delete it",
				"the character %U is invisible and can reorder the text around it on the screen", r)
		// A joiner gets here only if it is stray.
		case invisible(r), isJoiner(r):
			d.Report(at, ids.ControlCharacter, "delete it", "the character %U is invisible", r)
		default:
			d.Report(at, ids.ControlCharacter, "delete it", "the character %U is not allowed in YAML text", r)
		}
		return true
	}
	return true
}

// noConflictMarkers reports the markers of a merge conflict, and an indentation with no-break spaces. The YAML reader
// would report them on a later line.
func (d *Document) noConflictMarkers() bool {
	for i, line := range d.Source.Lines {
		if diag.ConflictForm.MatchString(line) {
			d.Report(d.Source.WholeLine(i+1), ids.Syntax,
				"keep one of the two sides, and delete the lines with <<<<<<<, ======= and >>>>>>>",
				"the file has an unresolved merge conflict")
			return false
		}
		if indent := diag.IndentForm.FindStringSubmatchIndex(line); indent != nil {
			first, _ := utf8.DecodeRuneInString(line[indent[2]:])
			d.Report(diag.Spanning(diag.Pos{Line: i + 1, Column: 1 + indent[2]}, line[indent[2]:indent[3]]), ids.Syntax,
				"indent with spaces",
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
	return r < ' ' && r != '\t' || r >= 0x7F && r <= 0x9F || strings.ContainsRune("\u2028\u2029\uFFFE\uFFFF", r) ||
		unicode.Is(unicode.Bidi_Control, r) || invisible(r)
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
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) ||
		r >= '\U000E0000' && r <= '\U000E0FFF'
}
