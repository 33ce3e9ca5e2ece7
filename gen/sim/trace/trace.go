// Package trace reads recorded requests: a [Reader] gives one [Line] for each, from JSON Lines, CSV or the logs of programs
// and servers, which it recognizes by the first line; see [Mapping]. A line that is none is a [Fault].
package trace

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"
)

// Reader reads requests in order of time, in JSON Lines, one per line:
//
//	{"at": "2030-01-02T15:04:05Z", "limit": "sendMessage", "key": "42", "count": 1, "reserve": false, "plan": "pro"}
//
// Only at is required, plan for limits that depend on it, and zone or anniversary for a limit whose calendar has one per
// key. at is an RFC 3339 time, or a Unix time in milliseconds, or in seconds if it has a fraction and is
// below 10^10. A key is a string, or a number or boolean if the limit's key has that type; a key of several parts is a
// list. A line that names a group takes from all of its limits, or from none: its key has the parameters of the group in
// their order, and its count is that of the limits whose number of tokens is a parameter. The field verb is "allow", which
// is the default, "allowUpTo" or "charge": see runtime.TakeUpTo and runtime.Charge. The field running is for limits in
// flight: how long the request runs, as "1.5s" or in seconds; without it, its slot is held for the hold of the limit. For
// limits with prices, what a request uses are fields with the names of Units, in place of count. Empty lines, the fields of
// an answer, which sim.JSONL writes, and other fields are ignored.
//
// It also reads logs of other formats, whose lines may be out of order by [Reader.Late]: a JSON object per line, whose
// fields a [Mapping] names; the common or combined format of nginx and Apache, and the default formats of Envoy and Istio,
// whose fields have the names of the variables of nginx, or those in the JSON logs of Istio, and numbers from 1; and CSV
// with the names of the columns in the first line, after which the separator is the comma, semicolon or tab that it has most
// of.
type Reader struct {
	// Default is the limit of lines without the field limit; if it is "", such a line is a fault.
	Default string
	// DefaultPlan is the plan of lines without the field plan.
	DefaultPlan string
	// Renamed and RenamedPlans have the names of limits and plans by other names that lines use too, such as old ones.
	Renamed, RenamedPlans map[string]string
	// Units are the names of what requests of limits with prices use.
	Units []string
	// Only skips the lines of all other limits, if it is not "".
	Only string
	// LeftOut counts the lines that Only has skipped.
	LeftOut int64

	// Map has the names of the fields of a log.
	Map Mapping
	// AddressKey is set if the address of the client is the key where Map has none.
	AddressKey bool
	// Late is how far out of order lines may be: those of one request less than it after those of another are put in
	// order. A negative one is 0 for JSON Lines, and [DefaultLate] for logs.
	Late time.Duration

	lines *lineReader
	line  Line
	// layout reads the lines of a log, and is nil for JSON Lines; values are the fields of a line in the order of mapping.
	layout  layout
	mapping Mapping
	values  []value
	times   timeParser
	begun   bool
	// first is the first line, if begin has read it and it is a request that was not parsed yet.
	first []byte
	// last is the latest instant of a request that was read, in nanoseconds since 1970 UTC, and lastLine its line.
	last     int64
	lastLine int
	late     queue
	ended    bool
}

// maxLine bounds the memory of a lineReader, in bytes.
const maxLine = 1 << 20

// lineReader reads lines of any number in the memory of one. bufio.Scanner ends at a line that is too long, where this
// one goes on with the next.
type lineReader struct {
	from   *bufio.Reader
	number int
}

// next returns the next line that is not empty; it is valid until the next call. The error is a [*Fault] for a line
// that is too long, io.EOF after the last one, or that of the reader.
func (r *lineReader) next() ([]byte, error) {
	for {
		line, err := r.nextRaw()
		// The last line may end with io.EOF instead of a newline: return it first, and io.EOF at the next call.
		if line = bytes.TrimRight(line, " \t\r"); len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// nextRaw returns the next line, which may be empty, without its end. It returns io.EOF with the last line.
func (r *lineReader) nextRaw() ([]byte, error) {
	line, err := r.from.ReadSlice('\n')
	if len(line) > 0 {
		r.number++
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, r.skipRest()
	}
	return bytes.TrimRight(line, "\r\n"), err
}

// skipRest reads the rest of a line that is too long.
func (r *lineReader) skipRest() error {
	for {
		_, err := r.from.ReadSlice('\n')
		switch {
		case err == nil, errors.Is(err, io.EOF): // next returns io.EOF after this fault
			return Faultf("the line is longer than 1 MiB")
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
