package sim

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
)

// The lines before and after an invalid line are decided as if it were absent.
func TestInvalidLineIsAFaultAndSkipped(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`{"at":1000}`, `2: the line has no field limit; add it, or name the limit of all such lines with -limit`},
		{`{"at":1000,"limit":"bukcet","key":"a"}`, `2: unknown limit "bukcet"; the limits are bucket, window, sliding, shared, halves and 2 others`},
		{`{"at":1000,"limit":"\u001b[31m","key":"a"}`, `2: unknown limit "\x1b[31m"; the limits are bucket, window, sliding, shared, halves and 2 others`},
		{`{"at":999,"limit":"bucket","key":"a"}`, `2: at is 1ms earlier than on line 1; sort the trace by time`},
		{`{"at":1000,"limit":"bucket"}`, `2: the line has no key; bucket needs one of 1 part: add the field key, or name that of a log with -map key=NAME`},
		{`{"at":1000,"limit":"shared","key":"a"}`, `2: the key has 1 part; shared needs 0`},
		{`{"at":1000,"limit":"window","key":"1"}`, `2: the key has 1 part; window needs 2`},
		{`{"at":1000,"limit":"window","key":["secret","a"]}`, `2: part 1 of the key of window is not a valid int64`},
		{`{"at":1000,"limit":"sliding","key":"secret"}`, `2: part 1 of the key of sliding is not a valid netip.Addr`},
		{`{"at":1000,"limit":"halves","key":"TRUE"}`, `2: part 1 of the key of halves is not a valid bool`},
		{`{"at":1000,"limit":"eighths","key":"-1"}`, `2: part 1 of the key of eighths is not a valid uint64`},
		{`{"at":1000,"limit":"bucket","key":"a","count":-1}`, `2: bucket: invalid count: -1 is less than 0`},
		{`{"at":1000,"limit":"bucket","key":"a","count":21}`, `2: bucket: count exceeds capacity: 21 is more than the capacity, 20`},
		{`{"at":1000,"limit":"bucket","key":"a","count":51,"reserve":true}`, `2: bucket: count exceeds capacity: 51 is more than 50, the most that can be reserved`},
		{`{"at":1000,"limit":"eighths","key":"1","count":41}`, `2: eighths: count exceeds capacity: 41 is more than the capacity, 40`},
		{`{"at":1000`, `2:11: the line ends before its JSON object does`},
		{strings.Repeat("x", 3<<20), `2: the line is longer than 1 MiB`},
		{"\x1f\x8b\x08\x00\xff", `2:1: a line must be a JSON object, not gzip data (decompress it first)`},
	} {
		out, faults := replayText(t, limitsForTest(), traceOf(
			`{"at":1000,"limit":"bucket","key":"a","count":2}`, test.line, `{"at":1000,"limit":"bucket","key":"a"}`))
		assert.Equal(t, []string{test.want}, faults)
		assert.Equal(t, 2, strings.Count(out, "\n"))
		assert.Contains(t, out, `"value":17`)
	}
}

func TestTraceStopsAtTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	answer := func(*trace.Line) error { return nil }
	stop := func(f *trace.Fault) error { return f }

	err := traceOf(`{}`, `{"at":0,"limit":"bucket"}`).Replay(answer, stop)
	assert.EqualError(t, err, "1: the line has no field at, the time of the request")

	err = trace.NewReader(iotest.ErrReader(broken)).Replay(answer, stop)
	assert.ErrorIs(t, err, broken, "an error of the reader is not the end of the trace")

	long := io.MultiReader(strings.NewReader(strings.Repeat("x", 2<<20)), iotest.ErrReader(broken))
	err = trace.NewReader(long).Replay(answer, func(*trace.Fault) error { return nil })
	assert.ErrorIs(t, err, broken)

	err = traceOf(`{"at":0,"limit":"bucket"}`).Replay(func(*trace.Line) error { return broken }, stop)
	assert.Equal(t, broken, err)
}

func TestEmptyLinesAreNumberedToo(t *testing.T) {
	var numbers []int
	err := trace.NewReader(iotest.OneByteReader(strings.NewReader("\n\r\n{\"at\":1,\"limit\":\"a\"}\r\n \t\n{\"at\":1,\"limit\":\"a\"}"))).Replay(func(l *trace.Line) error {
		numbers = append(numbers, l.Number)
		return nil
	}, func(f *trace.Fault) error { return f })
	require.NoError(t, err)
	assert.Equal(t, []int{3, 5}, numbers)
}

// A line with a limit that does not exist is no fault if Only skips it.
func TestDefaultNamesTheLimitAndOnlySkipsOthers(t *testing.T) {
	trace := traceOf(`{"at":1000,"key":"a"}`, `{"at":1,"limit":"gone"}`, `{"at":1000,"limit":"bucket","key":"a"}`)
	trace.Default, trace.Only = "bucket", "bucket"
	out, faults := replayText(t, limitsForTest(), trace)
	assert.Empty(t, faults)
	assert.EqualValues(t, 1, trace.LeftOut)
	assert.Equal(t, `{"at":1000,"key":"a","allowed":true,"remaining":19,"value":19}
{"at":1000,"limit":"bucket","key":"a","allowed":true,"remaining":18,"value":18}
`, out)
}
