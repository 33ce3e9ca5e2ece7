package printable

import (
	"io"
	"regexp"
	"unicode/utf8"
)

// Writer writes text of several lines so that nothing in it controls a terminal or a CI runner. Unsafe runes
// are written as escapes; newlines and tabs stay. GitHub Actions runs a line that begins with "::", even after white
// space, as a command, and Azure Pipelines a line with "##[": the last character of either is written as an escape.
type Writer struct {
	// Color lets sequences that change colors pass. Each must be written in one call of Write.
	Color bool

	w io.Writer
	// partial is the beginning of a rune whose end has not been written yet.
	partial []byte
	// begun is set once the line has more than white space and one colon: no "::" can begin it any more.
	begun bool
	// colon is set once the line has its first colon.
	colon bool
	// hashes counts the # right before the next rune.
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
		// Most text is plain ASCII, which is copied in one go instead of rune by rune.
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
	// The caller may reuse the array of p.
	w.partial = append([]byte(nil), text...)
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// harmless returns the length in bytes of the prefix that is safe whatever precedes or follows it.
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

// Flush writes the incomplete rune at the end of the text, if any, as an escape.
func (w *Writer) Flush() error {
	rest := Line(string(w.partial))
	w.partial = nil
	_, err := io.WriteString(w.w, rest)
	return err
}

// next returns the bytes of a rune, or its escape, and updates the state of the line.
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
