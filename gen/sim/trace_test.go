package sim

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// What is wrong with a line is told, and the lines after it are answered as if it were not there.
func TestTraceFaults(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`{"at":1000}`, `2: the line names no limit; name one for all of them with -limit`},
		{`{"at":1000,"limit":"bukcet","key":"a"}`, `2: there is no limit "bukcet", only bucket, window, sliding, shared, halves and 1 other`},
		{`{"at":1000,"limit":"\u001b[31m","key":"a"}`, `2: there is no limit "\x1b[31m", only bucket, window, sliding, shared, halves and 1 other`},
		{`{"at":999,"limit":"bucket","key":"a"}`, `2: at is 1ms before that of line 1; sort the trace by its times first`},
		{`{"at":1000,"limit":"bucket"}`, `2: the key of bucket has 1 part, not 0`},
		{`{"at":1000,"limit":"shared","key":"a"}`, `2: the key of shared has 0 parts, not 1`},
		{`{"at":1000,"limit":"window","key":"1"}`, `2: the key of window has 2 parts, not 1`},
		{`{"at":1000,"limit":"window","key":["secret","a"]}`, `2: part 1 of the key of window is not of type int64`},
		{`{"at":1000,"limit":"sliding","key":"secret"}`, `2: part 1 of the key of sliding is not of type netip.Addr`},
		{`{"at":1000,"limit":"halves","key":"TRUE"}`, `2: part 1 of the key of halves is not of type bool`},
		{`{"at":1000,"limit":"eighths","key":"-1"}`, `2: part 1 of the key of eighths is not of type uint64`},
		{`{"at":1000,"limit":"bucket","key":"a","count":0}`, `2: bucket: invalid count: 0 is less than 1`},
		{`{"at":1000,"limit":"bucket","key":"a","count":21}`, `2: bucket: count exceeds capacity: 21 is more than 20`},
		{`{"at":1000,"limit":"bucket","key":"a","count":51,"reserve":true}`, `2: bucket: count exceeds capacity: 51 is more than 50, which can be reserved`},
		{`{"at":1000,"limit":"eighths","key":"1","count":41}`, `2: eighths: count exceeds capacity: 41 is more than 40`},
		{`{"at":1000`, `2:11: there must be a comma or } here, not the end of the line`},
		{strings.Repeat("x", 3<<20), `2: the line is longer than 1 MiB`},
		{"\x1f\x8b\x08\x00\xff", `2:1: a line must be a JSON object, not compressed data`},
	} {
		out, faults := replayText(t, limitsForTest(), traceOf(
			`{"at":1000,"limit":"bucket","key":"a","count":2}`, test.line, `{"at":1000,"limit":"bucket","key":"a"}`))
		assert.Equal(t, []string{test.want}, faults)
		assert.Equal(t, 2, strings.Count(out, "\n"))
		assert.Contains(t, out, `"value":17`)
	}
}

func TestTraceStops(t *testing.T) {
	broken := errors.New("broken")
	ask := func(*Line) error { return nil }
	stop := func(f *Fault) error { return f }

	err := traceOf(`{}`, `{"at":0,"limit":"bucket"}`).Replay(ask, stop)
	assert.EqualError(t, err, "1: the line has no at, the time of the request")

	err = NewTrace(iotest.ErrReader(broken)).Replay(ask, stop)
	assert.ErrorIs(t, err, broken, "what cannot be read is not the end")

	long := io.MultiReader(strings.NewReader(strings.Repeat("x", 2<<20)), iotest.ErrReader(broken))
	err = NewTrace(long).Replay(ask, func(*Fault) error { return nil })
	assert.ErrorIs(t, err, broken)

	err = traceOf(`{"at":0,"limit":"bucket"}`).Replay(func(*Line) error { return broken }, stop)
	assert.Equal(t, broken, err)
}

func TestTraceNumbersEveryLine(t *testing.T) {
	var numbers []int
	err := NewTrace(iotest.OneByteReader(strings.NewReader("\n\r\n{\"at\":1,\"limit\":\"a\"}\r\n \t\n{\"at\":1,\"limit\":\"a\"}"))).Replay(func(l *Line) error {
		numbers = append(numbers, l.Number)
		return nil
	}, func(f *Fault) error { return f })
	require.NoError(t, err)
	assert.Equal(t, []int{3, 5}, numbers)
}

// Lines without a limit belong to the default one, and those of others can be left out unread.
func TestTraceOfOneLimit(t *testing.T) {
	trace := traceOf(`{"at":1000,"key":"a"}`, `{"at":1,"limit":"gone"}`, `{"at":1000,"limit":"bucket","key":"a"}`)
	trace.Default, trace.Only = "bucket", "bucket"
	out, faults := replayText(t, limitsForTest(), trace)
	assert.Empty(t, faults)
	assert.EqualValues(t, 1, trace.LeftOut)
	assert.Equal(t, `{"at":1000,"key":"a","allowed":true,"remaining":19,"value":19}
{"at":1000,"limit":"bucket","key":"a","allowed":true,"remaining":18,"value":18}
`, out)
}

// A key is the one that the generated code would make of the value, however it is written.
func TestKeys(t *testing.T) {
	for _, test := range []struct {
		typ, text string
		want      runtime.Key
	}{
		{"string", "a|b%\x00", runtime.KeyOf(runtime.String("a|b%\x00"))},
		{"string", "", runtime.KeyOf(runtime.String(""))},
		{"example.com/ids.User", "u-1", runtime.KeyOf(runtime.String("u-1"))},
		{"bool", "true", runtime.KeyOf(runtime.Bool(true))},
		{"int", "007", runtime.KeyOf(runtime.Int(7))},
		{"int64", "-42", runtime.KeyOf(runtime.Int64(-42))},
		{"uint64", "18446744073709551615", runtime.KeyOf(runtime.Uint64(1<<64 - 1))},
		{"netip.Addr", "2001:DB8::0:1", runtime.KeyOf(runtime.String("2001:db8::1"))},
		{"netip.Addr", "FE80::1%eth0", runtime.KeyOf(runtime.Addr(netip.MustParseAddr("fe80::1%eth0")))},
		{"netip.Addr", "::ffff:10.0.0.1", runtime.KeyOf(runtime.String("10.0.0.1"))},
	} {
		key, err := newReplayed(Limit{Policy: &runtime.Policy{}, Key: []string{test.typ}}).key(&Line{Key: []string{test.text}})
		require.NoError(t, err)
		assert.Equal(t, test.want.String(), key, test.typ)
	}
}
