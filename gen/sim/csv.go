package sim

import (
	"cmp"
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
func NewCSV(w io.Writer) *CSV { return newCSV(w, fields[:fieldOldAllowed]) }

// NewComparisonCSV is [NewCSV] with the columns of both sides.
func NewComparisonCSV(w io.Writer) *CSV { return newCSV(w, fields[:]) }

func newCSV(w io.Writer, columns []field) *CSV {
	c := &CSV{csv.NewWriter(w)}
	names := make([]string, len(columns))
	for i, f := range columns {
		names[i] = f.name
	}
	c.w.Write(names) // Flush returns its error
	return c
}

// Write writes a line with its answer. The error is that of the writer.
func (c *CSV) Write(l *Line, a Answer) error {
	return c.w.Write(append(requestRow(l, a.Key), Told{a, true, true}.row()...))
}

// WriteBoth writes a line with its answers on both sides of a [Comparison], as [JSONL.WriteBoth] does.
func (c *CSV) WriteBoth(l *Line, old, new Told) error {
	row := append(requestRow(l, cmp.Or(new.Key, old.Key)), new.row()...)
	return c.w.Write(append(row, old.row()...))
}

func requestRow(l *Line, key string) []string {
	return []string{
		inert(strings.Trim(string(l.given[fieldAt]), `"`)),
		inert(l.Limit),
		inert(key),
		strconv.FormatInt(l.Count, 10),
		strconv.FormatBool(l.Reserve),
	}
}

// row is an answer as columns, with nothing in those that there are not.
func (t Told) row() []string {
	switch {
	case !t.Asked:
		return []string{"", "", "", ""}
	case !t.Fits:
		return []string{"false", "", "", ""}
	}
	retryAfter := ""
	if w := wait(t.Decision); w > 0 {
		retryAfter = string(appendMs(nil, w))
	}
	return []string{strconv.FormatBool(t.Allowed), retryAfter, strconv.FormatInt(t.Remaining, 10), string(appendValue(nil, t.Value))}
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
