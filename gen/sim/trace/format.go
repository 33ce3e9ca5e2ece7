package trace

// Format is the format of a trace.
type Format string

// The formats of a trace.
const (
	// Recognized is the format that the first line of the trace has.
	Recognized Format = "auto"
	// JSONLines is the format of the package's own traces: see [Reader].
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
