package sim

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
)

// Format is the format of a trace.
type Format string

// The formats of a trace.
const (
	// Recognized is the format that the first line of the trace has.
	Recognized Format = "auto"
	// JSONLines is the format of the package's own traces: see [Trace].
	JSONLines Format = "jsonl"
	// JSONLog has a JSON object per line, whose fields a [Mapping] names.
	JSONLog Format = "json"
	// AccessLog is the common or combined format of nginx and Apache, or the default format of Envoy or Istio. Its fields
	// have the names that the variables of nginx, or the JSON logs of Istio have, and numbers from 1.
	AccessLog Format = "access"
	// CSVTable is CSV with the names of the columns in the first line. The separator is the comma, semicolon or tab that
	// the first line has most of.
	CSVTable Format = "csv"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Recognized, JSONLines, JSONLog, AccessLog, CSVTable} }

// layout finds the values of a mapping in the lines of a log.
type layout interface {
	// read sets the values of a line, in the order of the mapping. Values that the line does not have stay absent. The
	// error is a [*Fault], or that of the reader.
	read(text []byte, values []value) error
}

// value is a value of a log; its text is nil if it is absent.
type value struct {
	text []byte
	// at is the place of the value in the line, in bytes; negative in a row of several lines.
	at int
}

// begin finds the format of the trace by its first line, and how to read it. It keeps the line if it is a request.
func (t *Trace) begin() error {
	text, err := t.lines.next()
	if t.line.Number = t.lines.number; err != nil {
		return err // a line that is too long is skipped: the next one is then the first
	}
	t.begun = true
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	format := t.Format
	if len(text) > 0 && (format == "" || format == Recognized) {
		if format, err = t.recognize(text); err != nil {
			return err
		}
	}
	if format != CSVTable {
		t.first = text
	}
	switch format {
	case JSONLines:
		if !t.Map.Empty() {
			return mappingErrorf("-map does not apply to traces of the format jsonl; use the format json")
		}
		return nil
	case JSONLog:
		return t.beginJSON(text)
	case AccessLog:
		return t.beginAccess(text)
	case CSVTable:
		return t.beginCSV(text)
	}
	return mappingErrorf("unknown format %q", format)
}

// recognize returns the format that a trace with this first line has.
func (t *Trace) recognize(text []byte) (Format, error) {
	switch {
	case text[0] == '{':
		// Also if the line has no time: the fault says so.
		if names := memberNames(text); t.Map.Empty() && (hasAny(names, []string{"at", "limit", "key"}) || !hasAny(names, timeNames)) {
			return JSONLines, nil
		}
		return JSONLog, nil
	case len(accessNames(text)) > 0:
		return AccessLog, nil
	case t.looksLikeCSV(text):
		return CSVTable, nil
	case t.Map.Empty():
		return JSONLines, nil // the fault says what a line must be, and what it is
	case text[0] == '[':
		return "", mappingErrorf("the trace begins with a JSON list; write its objects one per line: jq -c '.[]'")
	}
	return "", mappingErrorf("the first line has none of the known formats; pass -trace-format, one of json, access and csv")
}

func (t *Trace) looksLikeCSV(text []byte) bool {
	names, _, err := csvHeader(text)
	if err != nil || len(names) == 0 || bytes.ContainsAny(text[:1], "[{") {
		return false
	}
	mapped := slices.ContainsFunc(t.Map.entries, func(e mapEntry) bool { return slices.Contains(names, e.name) })
	return mapped || len(names) > 1 && hasAny(names, timeNames)
}

func hasAny(names, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(name string) bool { return slices.Contains(names, name) })
}

// read uses the layout with a mapping, completed for the fields that the log is known to have.
func (t *Trace) read(with layout, m Mapping) {
	t.layout, t.mapping, t.values = with, m, make([]value, len(m.entries))
}

func (t *Trace) beginJSON(text []byte) error {
	known := memberNames(text)
	m, err := t.Map.completed(t.AddressKey, known)
	if err != nil {
		return err
	}
	t.read(newJSONLayout(m), m)
	return nil
}

func (t *Trace) beginAccess(text []byte) error {
	names := accessNames(text)
	if len(names) == 0 {
		return mappingErrorf("the first line is not of an access log: it needs a time in brackets after three fields, as nginx and Apache write, or at the start, as Envoy does")
	}
	known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	m, err := t.Map.completed(t.AddressKey, append(slices.Clone(known), requestNames...))
	if err != nil {
		return err
	}
	with, err := newAccessLayout(m, names)
	if err != nil {
		return err
	}
	t.read(with, m)
	return nil
}

func (t *Trace) beginCSV(text []byte) error {
	names, separator, err := csvHeader(text)
	if err != nil {
		return mappingErrorf("the first line is not CSV: %s", err.(*Fault).Reason)
	}
	m := t.Map
	if m.Empty() {
		m = named(names)
	}
	if m, err = m.completed(t.AddressKey, names); err != nil {
		return err
	}
	with, err := newCSVLayout(m, names, separator, t.lines)
	if err != nil {
		return err
	}
	t.read(with, m)
	return nil
}

// gunzipped decompresses a trace if it begins as gzip data does.
type gunzipped struct {
	from    io.Reader
	started bool
}

// Read implements [io.Reader].
func (g *gunzipped) Read(p []byte) (int, error) {
	if !g.started {
		g.started = true
		var start [2]byte
		n, err := io.ReadFull(g.from, start[:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		g.from = io.MultiReader(bytes.NewReader(start[:n]), g.from)
		if string(start[:n]) == "\x1f\x8b" {
			unzipped, err := gzip.NewReader(g.from)
			if err != nil {
				return 0, gzipError(err)
			}
			g.from = &gzipFaults{unzipped}
		}
	}
	return g.from.Read(p)
}

// gzipFaults names the errors of gzip data.
type gzipFaults struct{ from io.Reader }

func (g *gzipFaults) Read(p []byte) (int, error) {
	n, err := g.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = gzipError(err)
	}
	return n, err
}

func gzipError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return mappingErrorf("the gzip data is cut off; decompress what there is with: zcat FILE 2>/dev/null")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), strings.HasPrefix(err.Error(), "flate:"):
		return mappingErrorf("the gzip data is damaged: %v", err)
	}
	return err
}
