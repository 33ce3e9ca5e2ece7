package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// Mapping has the names that the fields of a request have in a log. A name with dots, such as user.id, is that of a
// field, or of a field in an object. Only the fields of a mapping are read, and the time.
type Mapping struct {
	entries []mapEntry
}

// mapEntry says which field of a log is a field of a request. Several entries of the key are its parts in order.
type mapEntry struct {
	field int
	name  string
	// unit is the name of what the request uses, if field is fieldUnit.
	unit string
}

// fieldUnit is the field of a mapEntry for units, whose names depend on the limits.
const fieldUnit = -1

// Add adds names such as "at=ts,key=org.id,key=user.id". The names on the left are those of a trace. A backslash before a
// comma in a name keeps it from ending the name.
func (m *Mapping) Add(text string) error {
	for _, entry := range splitEscaped(text) {
		to, name, ok := strings.Cut(entry, "=")
		to, name = strings.TrimSpace(to), strings.TrimSpace(name)
		if !ok || name == "" {
			return fmt.Errorf("%q must be FIELD=NAME, such as at=ts", entry)
		}
		i := slices.IndexFunc(fields[:requestFields], func(f field) bool { return f.name == to })
		switch {
		case i < 0 && slices.ContainsFunc(m.entries, func(e mapEntry) bool { return e.unit == to }),
			i >= 0 && i != fieldKey && m.has(i):
			return fmt.Errorf("%s is given twice", to)
		case i < 0:
			m.entries = append(m.entries, mapEntry{fieldUnit, name, to})
		default:
			m.entries = append(m.entries, mapEntry{i, name, ""})
		}
	}
	return nil
}

// Check returns an error if the mapping has a field that requests do not have, given the names of what those of limits with
// prices use.
func (m *Mapping) Check(units []string) error {
	for _, e := range m.entries {
		if e.field == fieldUnit && !slices.Contains(units, e.unit) {
			known := append(words.Of(fields[:requestFields], func(f field) string { return f.name }), units...)
			return fmt.Errorf("unknown field %q; the fields are %s", e.unit, words.List(known, "and"))
		}
	}
	return nil
}

// Empty reports whether the mapping has no names.
func (m *Mapping) Empty() bool { return len(m.entries) == 0 }

func (m *Mapping) has(field int) bool {
	return slices.ContainsFunc(m.entries, func(e mapEntry) bool { return e.field == field })
}

// splitEscaped splits a text at its commas, but for those after a backslash.
func splitEscaped(text string) (list []string) {
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && text[i+1] == ',':
			i++
			part.WriteByte(',')
		case c == ',':
			list = append(list, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	return append(list, part.String())
}

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

// Names of the time and of the client's address in logs, the most specific first. A log without a mapping for them is
// searched for these.
var (
	timeNames    = []string{"at", "time_iso8601", "start_time", "time_local", "@timestamp", "timestamp", "ts", "time", "msec"}
	addressNames = []string{"remote_addr", "downstream_remote_address"}
)

// completed returns the mapping with the time, and with the address as the key if that is wanted, if the log has such
// names. known lists the fields of the log.
func (m Mapping) completed(addressKey bool, known []string) (Mapping, error) {
	full := Mapping{slices.Clone(m.entries)}
	if !m.has(fieldAt) {
		i := slices.IndexFunc(timeNames, func(name string) bool { return slices.Contains(known, name) })
		if i < 0 {
			return m, mappingErrorf("no field of the log is known to be the time: pass -map at=NAME; %s", listed(known))
		}
		full.entries = append(full.entries, mapEntry{fieldAt, timeNames[i], ""})
	}
	if addressKey && !m.has(fieldKey) {
		if i := slices.IndexFunc(addressNames, func(name string) bool { return slices.Contains(known, name) }); i >= 0 {
			full.entries = append(full.entries, mapEntry{fieldKey, addressNames[i], ""})
		}
	}
	return full, nil
}

// named returns a mapping of the fields of a request, and of units, to themselves, as far as a log has them.
func named(known, units []string) (m Mapping) {
	for i, f := range fields[:requestFields] {
		if slices.Contains(known, f.name) {
			m.entries = append(m.entries, mapEntry{i, f.name, ""})
		}
	}
	for _, unit := range units {
		if slices.Contains(known, unit) {
			m.entries = append(m.entries, mapEntry{fieldUnit, unit, unit})
		}
	}
	return m
}

// MappingError reports that a log has no field that a mapping needs, or that its format is unknown. No line of the log
// can be read.
type MappingError struct{ Reason string }

// Error returns the reason.
func (e *MappingError) Error() string { return e.Reason }

func mappingErrorf(format string, args ...any) error {
	return &MappingError{fmt.Sprintf(format, args...)}
}

// listed lists fields of a log for an error.
func listed(names []string) string {
	const most = 24
	if len(names) == 0 {
		return "the log has no fields"
	}
	var list []string
	for _, name := range names[:min(len(names), most)] {
		list = append(list, Clip(name, 40))
	}
	if rest := len(names) - most; rest > 0 {
		list = append(list, words.Count(int64(rest), "other"))
	}
	return "the log has " + words.List(list, "and")
}
