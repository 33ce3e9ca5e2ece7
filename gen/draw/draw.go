// Package draw draws limits as SVG: the tokens of a key over time, with the requests that were allowed, denied or
// delayed, and the envelope, which is the most that a key can use in an interval as a function of its length.
//
// # The model
//
// A [Story] is a sequence of requests of one key, and [Replay] decides it by a policy. [Tokens] draws one or two such
// runs, an old version of a limit against a new one, and [Envelope] their bounds. Each returns a [Picture]: the SVG, and
// a [Table] with the same data in text.
//
// # Guarantees
//
// The same input yields the same bytes. Every decision is one of a sim.Key, and every bound one of
// [bounds.Within]. A picture is one svg element without ids, scripts, styles or references; its colors are the classes
// of [Style], and the shape of a mark, not only its color, says what became of a request.
//
// # Non-guarantees
//
// A limit with shards is drawn as one row, and leases, caches and failing stores are not drawn. Curves are drawn to
// about half a pixel; the table has the numbers.
package draw

import (
	"bytes"
	_ "embed"
	"strings"
	"time"
)

// Style is the style sheet of the pictures, with a palette for light and one for dark pages.
//
//go:embed style.css
var Style string

// Picture is a drawing.
type Picture struct {
	// SVG is the svg element.
	SVG string
	// Text describes what the drawing shows, in a sentence or two.
	Text string
	// Table has the data of the drawing.
	Table Table
}

// Table has the data of a drawing in text.
type Table struct {
	Head []string
	Rows [][]string
}

// Standalone returns the picture as a file: with the style sheet, so that it can be used by an img element.
func (p *Picture) Standalone() []byte {
	start, end := len("<svg"), strings.IndexByte(p.SVG, '>')+1
	return []byte(svgFile + p.SVG[start:end] + "<style>" + Style + "</style>" + p.SVG[end:] + "\n")
}

const svgFile = `<svg xmlns="http://www.w3.org/2000/svg"`

// IsFile reports whether a text is a drawing from [Picture.Standalone].
func IsFile(text []byte) bool { return bytes.HasPrefix(text, []byte(svgFile+` class="rl" `)) }

// version returns the name of one of several versions, the old one first; "" if there is only one.
func version(i, of int) string {
	if of == 1 {
		return ""
	}
	return [...]string{"old", "new"}[i]
}

// lineClass is the class of the line of a version.
func lineClass(version string) string {
	if version == "old" {
		return "line old"
	}
	return "line"
}

// begins returns the beginning of a sentence about a version: "Old version: ", or "".
func begins(version string) string {
	if version == "" {
		return ""
	}
	return strings.ToUpper(version[:1]) + version[1:] + " version: "
}

// epoch is the instant from which calendars are drawn, so that no picture depends on a clock.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
