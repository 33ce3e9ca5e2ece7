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
func (j *JSONL) Write(l *Line, a Answer) error { return j.WriteBoth(l, Told{}, Told{a, true, true}) }

// WriteBoth writes a line with its answers on both sides of a [Comparison]: those of the old side as oldAllowed and
// so on. A side that was not asked has no answer, and one where the count never passes is only not allowed.
func (j *JSONL) WriteBoth(l *Line, old, new Told) error {
	out := l.appendGiven(append(j.out[:0], '{'))
	out = new.appendAnswer(out, fieldAllowed)
	out = old.appendAnswer(out, fieldOldAllowed)
	out[len(out)-1] = '}' // for the last comma
	j.out = append(out, '\n')
	_, err := j.w.Write(j.out)
	return err
}

// appendAnswer appends the fields of an answer, of which the first one is given, each with a comma after it.
func (t *Told) appendAnswer(out []byte, first int) []byte {
	if !t.Asked {
		return out
	}
	out = strconv.AppendBool(appendName(out, first), t.Allowed)
	out = append(out, ',')
	if !t.Fits {
		return out
	}
	if w := wait(t.Decision); w > 0 {
		out = append(appendMs(appendName(out, first+1), w), ',')
	}
	out = append(strconv.AppendInt(appendName(out, first+2), t.Remaining, 10), ',')
	return append(appendValue(appendName(out, first+3), t.Value), ',')
}

// appendName appends the name of a field, with its colon.
func appendName(out []byte, field int) []byte {
	out = append(out, '"')
	out = append(out, fields[field].name...)
	return append(out, `":`...)
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
