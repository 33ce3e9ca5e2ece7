package sim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Trace reads requests in order of time, in JSON Lines, one per line:
//
//	{"at": "2030-01-02T15:04:05Z", "limit": "sendMessage", "key": "42", "count": 1, "reserve": false, "plan": "pro"}
//
// Only at is required, plan for limits that depend on it, and zone or anniversary for a limit whose calendar has one per
// key. at is an RFC 3339 time, or a Unix time in milliseconds, or in seconds if it has a fraction and is
// below 10^10. A key is a string, or a number or boolean if the limit's key has that type; a key of several parts is a
// list. A line that names a group takes from all of its limits, or from none: its key has the parameters of the group in
// their order, and its count is that of the limits whose number of tokens is a parameter. The field verb is "allow", which is
// the default, "allowUpTo" or "charge": see [runtime.TakeUpTo] and [runtime.Charge]. Empty lines, the fields of an answer,
// which [JSONL] writes, and other fields are ignored.
//
// It also reads logs of other formats, whose lines may be out of order by [Trace.Late].
type Trace struct {
	// Default is the limit of lines without the field limit; if it is "", such a line is a fault.
	Default string
	// DefaultPlan is the plan of lines without the field plan.
	DefaultPlan string
	// Only skips the lines of all other limits, if it is not "".
	Only string
	// LeftOut counts the lines that Only has skipped.
	LeftOut int64

	// Format is the format of the trace; "" is [Recognized].
	Format Format
	// Map has the names of the fields of a log.
	Map Mapping
	// AddressKey is set if the address of the client is the key where Map has none.
	AddressKey bool
	// Late is how far out of order lines may be: those of one request less than it after those of another are put in
	// order. A negative one is 0 for [JSONLines], and [DefaultLate] for logs.
	Late time.Duration

	lines *lineReader
	line  Line
	// layout reads the lines of a log, and is nil for JSONLines; values are the fields of a line in the order of mapping.
	layout  layout
	mapping Mapping
	values  []value
	times   timeParser
	begun   bool
	// first is the first line, if it is a request that was not read yet.
	first []byte
	// last is the latest instant of a request that was read, in nanoseconds since 1970 UTC, and lastLine its line.
	last     int64
	lastLine int
	late     queue
	ended    bool
}

// NewTrace returns the trace that r holds, which may be compressed with gzip.
func NewTrace(r io.Reader) *Trace { return &Trace{lines: newLineReader(&gunzipped{from: r}), Late: -1} }

// Replay calls answer with each line, in order. It calls onFault with each invalid line, and with the [*Fault] that
// answer returns. It stops at the end of the trace, or at the first error of onFault, of the reader, or of answer if
// it is not a [*Fault], and returns that error.
func (t *Trace) Replay(answer func(*Line) error, onFault func(*Fault) error) error {
	for {
		line, err := t.next()
		number := t.line.Number
		if err == nil && line != nil {
			number = line.Number
			err = answer(line)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		default:
			fault := new(Fault)
			if !errors.As(err, &fault) {
				return err
			}
			fault.Line = number // a fault of answer does not have it yet
			if err := onFault(fault); err != nil {
				return err
			}
		}
	}
}

// next returns the next line in order of time, or nil for one that Only skips or that is held to be put in order.
func (t *Trace) next() (*Line, error) {
	if !t.begun {
		if err := t.begin(); err != nil {
			return nil, err
		}
	}
	late := t.lateness()
	if late == 0 {
		return t.parsed(0)
	}
	until := t.last - int64(late)
	if t.ended {
		until = t.last
	}
	if line := t.late.pop(until); line != nil {
		return line, nil
	}
	if t.ended {
		return nil, io.EOF
	}
	line, err := t.parsed(late)
	switch {
	case errors.Is(err, io.EOF):
		t.ended = true
		return nil, nil
	case err == nil && line != nil:
		t.late.push(line)
	}
	return nil, err
}

// lateness returns how far out of order the lines may be.
func (t *Trace) lateness() time.Duration {
	switch {
	case t.Late >= 0:
		return t.Late
	case t.layout != nil:
		return DefaultLate
	}
	return 0
}

// parsed returns the next line as it is read.
func (t *Trace) parsed(late time.Duration) (*Line, error) {
	text, err := t.first, error(nil)
	if t.first = nil; text == nil {
		text, err = t.lines.next()
	}
	l := &t.line
	if l.Number = t.lines.number; err != nil {
		return nil, err
	}
	if t.layout == nil {
		err = l.parse(text)
	} else {
		err = t.parseLog(text)
	}
	if err != nil {
		return nil, err
	}
	if !l.hasLimit {
		l.Limit = t.Default
	}
	if l.Plan == "" {
		l.Plan = t.DefaultPlan
	}
	switch {
	case l.Reserve && l.Op != runtime.Take:
		return nil, faultf("only the verb allow can reserve")
	case t.Only != "" && l.Limit != t.Only: // before the checks below, which do not concern the lines of other limits
		t.LeftOut++
		return nil, nil
	case !l.hasLimit && t.Default == "":
		return nil, faultf("the line has no field limit; add it, or name the limit of all such lines with -limit")
	case l.At < t.last-int64(late) && late > 0:
		return nil, faultf("at is %v earlier than on line %d, more than the %v that -late allows; sort the trace by time", time.Duration(t.last-l.At), t.lastLine, late)
	case l.At < t.last-int64(late):
		return nil, faultf("at is %v earlier than on line %d; sort the trace by time", time.Duration(t.last-l.At), t.lastLine)
	}
	if l.At >= t.last {
		t.last, t.lastLine = l.At, l.Number
	}
	return l, nil
}

// Fault is an error in a line of a trace.
type Fault struct {
	// Line counts from 1.
	Line int
	// Column is the place in the line, counted in runes from 1; 0 if the fault concerns the whole line.
	Column int
	// Reason describes the fault, without the value of a key.
	Reason string
	// Unknown is the limit of the line, if there is no limit of that name.
	Unknown string

	cause error
}

// Error returns the place and the reason: "3:17: count must be a whole number, not a string".
func (f *Fault) Error() string {
	if f.Column == 0 {
		return fmt.Sprintf("%d: %s", f.Line, f.Reason)
	}
	return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Reason)
}

// Unwrap returns the error of the limiter, if the fault is one: [runtime.ErrExceedsCapacity] or
// [runtime.ErrInvalidCount].
func (f *Fault) Unwrap() error { return f.cause }

func faultf(format string, args ...any) *Fault { return &Fault{Reason: fmt.Sprintf(format, args...)} }

// maxLine bounds the memory of a lineReader, in bytes.
const maxLine = 1 << 20

// lineReader reads lines of any number in the memory of one. bufio.Scanner ends at a line that is too long, where this
// one goes on with the next.
type lineReader struct {
	from   *bufio.Reader
	number int
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{from: bufio.NewReaderSize(r, maxLine)}
}

// next returns the next line that is not empty; it is valid until the next call. The error is a [*Fault] for a line
// that is too long, io.EOF after the last one, or that of the reader.
func (r *lineReader) next() ([]byte, error) {
	for {
		line, err := r.from.ReadSlice('\n')
		if len(line) > 0 {
			r.number++
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, r.skipRest()
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		// The last line may end with io.EOF instead of a newline: return it first, and io.EOF at the next call.
		if line = bytes.TrimRight(line, " \t\r\n"); len(line) > 0 {
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
			return faultf("the line is longer than 1 MiB")
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
