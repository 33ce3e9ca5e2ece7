package sim

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// JSONL writes each line with its decision as a line of JSON: the fields of the request as they were in the trace,
// and
//
//	allowed        whether the tokens were taken
//	retryAfterMs   for a denial, after how many milliseconds the same request passes; for a reservation, how long
//	               to wait before using the tokens; omitted if 0
//	remaining      how many whole tokens are left
//	value          how many tokens are left, with the fraction
//	shadowed       true if only shadow mode has allowed the request at once; omitted otherwise
//	taken          how many tokens a request with the verb allowUpTo got; omitted for the others
//
// The output is a trace again.
type JSONL struct {
	w   io.Writer
	out []byte
}

// NewJSONL returns a JSONL that writes to w.
func NewJSONL(w io.Writer) *JSONL { return &JSONL{w: w} }

// Write writes a line with its decision and, for a [Comparison], that of the old side in oldAllowed and so on. There are no
// fields for a side without the limit, and only the first for a side where the count never fits. The error is that of the
// writer.
func (j *JSONL) Write(l *trace.Line, old, new Answer) error {
	out := l.AppendRequest(append(j.out[:0], '{'))
	out = new.appendJSON(out, trace.FieldAllowed, l.Op)
	out = old.appendJSON(out, trace.FieldOldAllowed, l.Op)
	out[len(out)-1] = '}' // in place of the last comma
	j.out = append(out, '\n')
	_, err := j.w.Write(j.out)
	return err
}

// appendJSON appends the fields of an answer, beginning with the field first, each with a comma after it.
func (a *Answer) appendJSON(out []byte, first int, op runtime.Op) []byte {
	if !a.Answered {
		return out
	}
	out = strconv.AppendBool(trace.AppendName(out, first), a.Allowed)
	out = append(out, ',')
	if a.Outcome >= TooLarge { // a request that can never pass has no retryAfterMs, and was not decided
		return out
	}
	if w := wait(a.Decision); w > 0 {
		out = append(appendMs(trace.AppendName(out, first+1), w), ',')
	}
	out = append(strconv.AppendInt(trace.AppendName(out, first+2), a.Remaining, 10), ',')
	// The shortest number that parses to the same float64.
	out = append(strconv.AppendFloat(trace.AppendName(out, first+3), a.Value, 'f', -1, 64), ',')
	if a.Shadowed {
		out = append(trace.AppendName(out, first+4), "true,"...)
	}
	if op.UpTo() {
		out = append(strconv.AppendInt(trace.AppendName(out, first+5), a.Taken, 10), ',')
	}
	return out
}

// appendMs appends a duration in milliseconds. It keeps the nanoseconds, where a float64 would round long durations.
func appendMs(out []byte, d time.Duration) []byte {
	out = fmt.Appendf(out, "%d.%06d", d/time.Millisecond, d%time.Millisecond)
	return bytes.TrimSuffix(bytes.TrimRight(out, "0"), []byte("."))
}
