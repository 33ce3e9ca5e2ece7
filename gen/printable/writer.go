package printable

import (
	"io"
	"regexp"
	"unicode/utf8"
)

// Writer writes text of several lines so that nothing in it controls a terminal or a CI runner. Unsafe runes
// are written as escapes; newlines and tabs stay. No line begins with "::", not even after white space, and
// none has "##[" in it, since GitHub Actions and Azure Pipelines take these for commands: the last character of
// either is written as an escape.
type Writer struct {
	// Color lets the sequences pass that change colors, each of which must be written in one piece.
	Color bool

	w io.Writer
	// partial is the beginning of a rune whose end has not been written yet.
	partial []byte
	// begun says that the line has more than white space and one colon.
	begun bool
	// colon says that the colon is there.
	colon bool
	// hashes counts the # right before what comes next.
	hashes int
	prev   rune
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

var colorForm = regexp.MustCompile(`^\x1b\[[0-9;]*m`)

// Write implements [io.Writer]. It returns the error of the underlying writer.
func (w *Writer) Write(p []byte) (int, error) {
	text := append(w.partial, p...)
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 && utf8.FullRune(text) {
		if n := w.harmless(text); n > 0 {
			out, text = append(out, text[:n]...), text[n:]
			continue
		}
		if code := colorForm.Find(text); w.Color && text[0] == '\x1b' && code != nil {
			out, text = append(out, code...), text[len(code):]
			continue
		}
		r, n := utf8.DecodeRune(text)
		out = append(out, w.next(r, string(text[:n]))...)
		text = text[n:]
	}
	w.partial = append([]byte(nil), text...)
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// harmless returns how many bytes of a text can be written without a look at what is before or after them.
func (w *Writer) harmless(text []byte) int {
	if !w.begun {
		return 0
	}
	n := 0
	for n < len(text) && ' ' <= text[n] && text[n] <= '~' && text[n] != '#' && text[n] != '[' {
		n++
	}
	if n > 0 {
		w.prev, w.hashes = rune(text[n-1]), 0
	}
	return n
}

// Flush writes the rune that has no end, if there is one.
func (w *Writer) Flush() error {
	rest := Line(string(w.partial))
	w.partial = nil
	_, err := io.WriteString(w.w, rest)
	return err
}

// next returns what to write for a rune.
func (w *Writer) next(r rune, bytes string) string {
	out := sign(w.prev, r, bytes)
	hashes := w.hashes
	w.prev, w.hashes = r, 0
	switch r {
	case '\n':
		w.begun, w.colon = false, false
		return bytes
	case '\t', ' ':
		w.begun = w.begun || w.colon
		return bytes
	case '#':
		w.hashes = hashes + 1
	case '[':
		if hashes >= 2 {
			out = `\x5b`
		}
	case ':':
		if w.colon && !w.begun {
			out = `\x3a`
		}
		w.begun, w.colon = w.begun || w.colon, true
		return out
	}
	w.begun = true
	return out
}
