package sim

import (
	"encoding/csv"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// CSV writes each line with its answer, as a row of a table with the columns of [JSONL]. A key is written as
// it is stored, its parts joined with "|". A text that a spreadsheet could take for a formula has a ' before
// it.
type CSV struct {
	w *csv.Writer
}

// NewCSV returns a CSV that writes to w, once it has written the names of the columns.
func NewCSV(w io.Writer) *CSV {
	c := &CSV{csv.NewWriter(w)}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	c.w.Write(names) // Flush returns its error
	return c
}

// Write writes a line with its answer. The error is that of the writer.
func (c *CSV) Write(l *Line, a Answer) error {
	retryAfter := ""
	if w := wait(a.Decision); w > 0 {
		retryAfter = string(appendMs(nil, w))
	}
	return c.w.Write([]string{
		inert(strings.Trim(string(l.given[fieldAt]), `"`)),
		inert(l.Limit),
		inert(a.Key),
		strconv.FormatInt(l.Count, 10),
		strconv.FormatBool(l.Reserve),
		strconv.FormatBool(a.Allowed),
		retryAfter,
		strconv.FormatInt(a.Remaining, 10),
		string(appendValue(nil, a.Value)),
	})
}

// Flush writes what is still in memory, and returns the first error of the writer.
func (c *CSV) Flush() error {
	c.w.Flush()
	return c.w.Error()
}

// formulaForm is how a text begins that a spreadsheet calculates; a plain number is none.
var (
	formulaForm = regexp.MustCompile(`^\s*[=+\-@＝＋－＠]`)
	wholeForm   = regexp.MustCompile(`^[-+]?[0-9]+$`)
)

// inert returns a text so that a spreadsheet takes it for one.
func inert(text string) string {
	if formulaForm.MatchString(text) && !wholeForm.MatchString(text) {
		return "'" + text
	}
	return text
}
