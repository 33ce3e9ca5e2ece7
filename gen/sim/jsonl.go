package sim

import (
	"io"
	"strconv"
	"time"
)

// JSONL writes each line with its answer, as a line of JSON: the fields of the request as they were given,
// and
//
//	allowed        whether the tokens were taken
//	retryAfterMs   of a denial, after how many milliseconds the same request passes; of a reservation, how
//	               long to wait before using the tokens; left out if 0
//	remaining      how many whole tokens are left
//	value          how many tokens are left, to the fraction
type JSONL struct {
	w   io.Writer
	out []byte
}

// NewJSONL returns a JSONL that writes to w.
func NewJSONL(w io.Writer) *JSONL { return &JSONL{w: w} }

// Write writes a line with its answer. The error is that of the writer.
func (j *JSONL) Write(l *Line, a Answer) error {
	out := l.appendGiven(append(j.out[:0], '{'))
	out = strconv.AppendBool(append(out, `"allowed":`...), a.Allowed)
	if w := wait(a.Decision); w > 0 {
		out = appendMs(append(out, `,"retryAfterMs":`...), w)
	}
	out = strconv.AppendInt(append(out, `,"remaining":`...), a.Remaining, 10)
	out = appendValue(append(out, `,"value":`...), a.Value)
	j.out = append(out, '}', '\n')
	_, err := j.w.Write(j.out)
	return err
}

// appendMs appends a duration in milliseconds, to the nanosecond.
func appendMs(out []byte, d time.Duration) []byte {
	out = strconv.AppendInt(out, int64(d/time.Millisecond), 10)
	rest := int64(d % time.Millisecond)
	if rest == 0 {
		return out
	}
	out = append(out, '.')
	for unit := int64(time.Millisecond) / 10; rest > 0; unit /= 10 {
		out = append(out, '0'+byte(rest/unit))
		rest %= unit
	}
	return out
}

// appendValue appends a number of tokens so that reading it gives the same number.
func appendValue(out []byte, value float64) []byte {
	return strconv.AppendFloat(out, value, 'f', -1, 64)
}
