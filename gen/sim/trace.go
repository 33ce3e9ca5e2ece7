package sim

import (
	"errors"
	"io"
	"time"
)

// Trace reads requests, in JSON Lines:
//
//	{"at": "2030-01-02T15:04:05Z", "limit": "sendMessage", "key": "42", "count": 1, "reserve": false}
//
// Only at is required: an RFC 3339 time, or a Unix time, in milliseconds or, with a fraction and below 10^10, in
// seconds. A key is a string, or a number or boolean if the limit's key has that type; one of several parts is a
// list of them. The fields of an answer, which [JSONL] adds, other fields and empty lines are passed over.
type Trace struct {
	// Default is the limit of lines that name none; with "" these have a fault.
	Default string
	// Only leaves out the lines of all other limits, if it is not "".
	Only string
	// LeftOut counts them.
	LeftOut int64

	lines *lines
	line  Line
	// last is when the request before this one was made, on line lastLine.
	last     int64
	lastLine int
}

// NewTrace returns the trace that r holds.
func NewTrace(r io.Reader) *Trace { return &Trace{lines: newLines(r)} }

// Replay hands the lines to answer, in order, and what is wrong with a line to wrong: its own faults, and
// the [*Fault] that answer returns. An error of wrong, any other of answer and that of the reader end the
// replay, and are returned.
func (t *Trace) Replay(answer func(*Line) error, wrong func(*Fault) error) error {
	for {
		line, err := t.next()
		if err == nil && line != nil {
			err = answer(line)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		default:
			if err := t.refuse(err, wrong); err != nil {
				return err
			}
		}
	}
}

// refuse hands an error to wrong if it is a fault of the line.
func (t *Trace) refuse(err error, wrong func(*Fault) error) error {
	fault := new(Fault)
	if !errors.As(err, &fault) {
		return err
	}
	fault.Line = t.lines.number
	return wrong(fault)
}

// next returns the next line, nil for one that is left out.
func (t *Trace) next() (*Line, error) {
	text, err := t.lines.next()
	if err != nil {
		return nil, err
	}
	l := &t.line
	l.Number = t.lines.number
	if err := l.parse(text); err != nil {
		return nil, err
	}
	if l.given[fieldLimit] == nil {
		l.Limit = t.Default
	}
	switch {
	case t.Only != "" && l.Limit != t.Only:
		t.LeftOut++
		return nil, nil
	case l.given[fieldLimit] == nil && t.Default == "":
		return nil, faultf("the line names no limit; name one for all of them with -limit")
	case l.At < t.last:
		return nil, faultf("at is %v before that of line %d; sort the trace by its times first", time.Duration(t.last-l.At), t.lastLine)
	}
	t.last, t.lastLine = l.At, l.Number
	return l, nil
}
