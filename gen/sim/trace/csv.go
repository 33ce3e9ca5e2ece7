package trace

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// csvLayout reads CSV.
type csvLayout struct {
	columns   []int
	width     int
	separator byte
	lines     *lineReader
	cells     []value
	joined    []byte
}

// csvHeader returns the names of the columns, and the separator.
func csvHeader(text []byte) (names []string, separator byte, err error) {
	separator, most := byte(','), 0
	for _, c := range []byte(",;\t") {
		if n := bytes.Count(text, []byte{c}); n > most {
			separator, most = c, n
		}
	}
	cells, _, err := splitCSV(text, separator, nil)
	for _, cell := range cells {
		names = append(names, strings.TrimSpace(string(cell.text)))
	}
	return names, separator, err
}

func newCSVLayout(m Mapping, names []string, separator byte, lines *lineReader) (*csvLayout, error) {
	l := &csvLayout{width: len(names), separator: separator, lines: lines}
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

func (l *csvLayout) read(text []byte, values []value) (err error) {
	var complete bool
	if l.cells, complete, err = splitCSV(text, l.separator, l.cells[:0]); err == nil && !complete {
		if text, err = l.join(text); err != nil {
			return err
		}
		l.cells, complete, err = splitCSV(text, l.separator, l.cells[:0])
		for i := range l.cells {
			l.cells[i].at = -1
		}
	}
	switch {
	case err != nil:
		return err
	case !complete:
		return Faultf("a quoted field without a closing quote")
	case len(l.cells) != l.width:
		return Faultf("the row has %s; the first line has %d", words.Count(int64(len(l.cells)), "field"), l.width)
	}
	for i, column := range l.columns {
		if cell := l.cells[column]; len(cell.text) > 0 {
			values[i] = cell
		}
	}
	return nil
}

// join returns a row with the lines after it, up to the one in which its quoted field ends.
func (l *csvLayout) join(text []byte) ([]byte, error) {
	l.joined = append(l.joined[:0], text...)
	for len(l.joined) < maxLine {
		line, err := l.lines.nextRaw()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		l.joined = append(append(l.joined, '\n'), line...)
		if bytes.Count(line, []byte{'"'})%2 == 1 || err != nil {
			return bytes.TrimRight(l.joined, " \t\r\n"), nil
		}
	}
	return nil, Faultf("a quoted field does not end within 1 MiB")
}

// splitCSV splits a row, as RFC 4180 describes. It is not complete if a quoted field does not end.
func splitCSV(text []byte, separator byte, cells []value) (_ []value, complete bool, err error) {
	for i := 0; ; {
		if i < len(text) && text[i] == '"' {
			cell, end, err := quotedCell(text, i)
			if err != nil || end < 0 {
				return cells, false, err
			}
			if i = end; i < len(text) && text[i] != separator {
				return cells, true, columnFault(text, i, "expected a separator after a quoted field")
			}
			cells = append(cells, cell)
		} else {
			end := bytes.IndexByte(text[i:], separator)
			if end < 0 {
				end = len(text) - i
			}
			cell := text[i : i+end]
			if at := bytes.IndexByte(cell, '"'); at >= 0 {
				return cells, true, columnFault(text, i+at, "a quote in a field without quotes; put the field in quotes, and write the quote twice")
			}
			cells = append(cells, value{cell, i})
			i += end
		}
		if i == len(text) {
			return cells, true, nil
		}
		i++
	}
}

// quotedCell reads a quoted field that begins at from, and returns the end, or -1 if it does not end.
func quotedCell(text []byte, from int) (cell value, end int, err error) {
	var unescaped []byte // only a field with quotes needs memory of its own
	start := from + 1
	for i := start; ; {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return value{}, -1, nil
		}
		if i += n; i+1 == len(text) || text[i+1] != '"' {
			cell := text[start:i]
			if unescaped != nil {
				cell = append(unescaped, cell...)
			}
			return value{cell, from}, i + 1, nil
		}
		unescaped = append(unescaped, text[start:i+1]...)
		i += 2
		start = i
	}
}
