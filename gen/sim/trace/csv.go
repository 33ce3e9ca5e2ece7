package trace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// csvLayout reads CSV.
type csvLayout struct {
	columns []int
	width   int
	text    csvText
	rows    *csv.Reader
}

// csvText gives a [csv.Reader] a line, and those after it as long as a quoted field goes on.
type csvText struct {
	lines  *lineReader
	unread bytes.Buffer
	// size is the length of the row so far.
	size int
}

func (t *csvText) add(line []byte) {
	t.size += len(line) + 1
	t.unread.Write(line)
	t.unread.WriteByte('\n')
}

// Read implements [io.Reader].
func (t *csvText) Read(p []byte) (int, error) {
	if t.unread.Len() == 0 {
		if t.size >= maxLine {
			return 0, Faultf("a quoted field does not end within 1 MiB")
		}
		line, err := t.lines.nextRaw()
		if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
			return 0, err
		}
		t.add(line)
	}
	return t.unread.Read(p)
}

func newCSVReader(from io.Reader, separator byte) *csv.Reader {
	r := csv.NewReader(from)
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = rune(separator), -1, true
	return r
}

// csvHeader returns the names of the columns, and the separator.
func csvHeader(text []byte) (names []string, separator byte, err error) {
	separator, most := byte(','), 0
	for _, c := range []byte(",;\t") {
		if n := bytes.Count(text, []byte{c}); n > most {
			separator, most = c, n
		}
	}
	cells, err := newCSVReader(bytes.NewReader(text), separator).Read()
	for _, cell := range cells {
		names = append(names, strings.TrimSpace(cell))
	}
	return names, separator, csvFault(text, err)
}

// csvFault returns the error of a [csv.Reader] for a row that begins with a line.
func csvFault(text []byte, err error) error {
	e, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case !ok:
		return err
	case e.Line > e.StartLine, e.Column > len(text):
		return Faultf("a quoted field without a closing quote")
	case errors.Is(err, csv.ErrQuote):
		return columnFault(text, e.Column, "expected a separator after a quoted field")
	}
	return columnFault(text, e.Column-1,
		"a quote in a field without quotes; put the field in quotes, and write the quote twice")
}

func newCSVLayout(m Mapping, names []string, separator byte, lines *lineReader) (*csvLayout, error) {
	l := &csvLayout{width: len(names), text: csvText{lines: lines}}
	l.rows = newCSVReader(&l.text, separator)
	for _, e := range m.entries {
		i := slices.Index(names, e.name)
		if i < 0 {
			return nil, mappingErrorf("the CSV has no column %s; %s", Clip(e.name, 40), listed(names))
		}
		if slices.Contains(names[i+1:], e.name) {
			return nil, mappingErrorf("the CSV has two columns %s", Clip(e.name, 40))
		}
		l.columns = append(l.columns, i)
	}
	return l, nil
}

func (l *csvLayout) read(text []byte, values []value) error {
	line := l.text.lines.number
	l.text.size = 0
	l.text.add(text)
	cells, err := l.rows.Read()
	switch {
	case err != nil:
		return csvFault(text, err)
	case len(cells) != l.width:
		return Faultf("the row has %s; the first line has %d", words.Count(int64(len(cells)), "field"), l.width)
	}
	for i, column := range l.columns {
		if cells[column] == "" {
			continue
		}
		values[i] = value{[]byte(cells[column]), -1}
		if l.text.lines.number == line {
			_, at := l.rows.FieldPos(column)
			values[i].at = at - 1
		}
	}
	return nil
}
