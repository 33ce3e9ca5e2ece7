package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// pricedFile has a limit with prices, one without, and a group of both.
func pricedFile(t *testing.T, prices string) *spec.File {
	t.Helper()
	file, ds := fields.Parse("limits.yaml", []byte(`version: 1
plans: [free, pro]
limits:
  spend: {key: team, kind: fixed window, rate: 1_000, period: 1h, start: 0s, prices: `+prices+`}
  tokens: {kind: token bucket, rate: 100, period: 1h}
  byPlan: {kind: fixed window, rate: {free: 10, pro: unlimited}, period: 1h, start: 0s, prices: {calls: 2.5}}
groups:
  complete: {takes: {spend: {team: team}, tokens: {n: count}}}
`))
	require.Empty(t, ds)
	return file
}

func pricedTrace(lines ...string) *trace.Reader {
	r := traceOf(lines...)
	r.Units = []string{"input", "output", "calls"}
	return r
}

func TestReplayTakesTheCost(t *testing.T) {
	for _, row := range []struct{ line, want string }{
		{`"limit":"spend","key":"a","input":100,"output":20`, `"allowed":true,"remaining":450,"value":450}`},
		{`"limit":"spend","key":"a","input":1`, `"allowed":true,"remaining":999,"value":999}`}, // 0.5 is rounded up
		{`"limit":"spend","key":"a","input":0`, `"allowed":true,"remaining":1000,"value":1000}`},
		{`"limit":"spend","key":"a","verb":"charge","output":44`, `"allowed":true,"remaining":0,"value":-100}`},
		{`"limit":"complete","key":"a","count":3,"input":2`, `"allowed":true,"remaining":97,"value":97}`},
		{`"limit":"byPlan","plan":"free","calls":3`, `"allowed":true,"remaining":2,"value":2}`},
		{`"limit":"byPlan","plan":"pro","calls":1000`, `"allowed":true,"remaining":1000000000000000,"value":1000000000000000}`},
		{`"limit":"spend","key":"a"`, "1: the line has no field input or output, of which spend has prices: add them in place of count, or name those of a log with -map input=NAME"},
		{`"limit":"spend","key":"a","count":5`, "1: the line has no field input or output, of which spend has prices: add them in place of count, or name those of a log with -map input=NAME"},
		{`"limit":"spend","key":"a","input":"a text"`, "1:64: input must be a whole number, not a string"},
		{`"limit":"spend","key":"a","verb":"allowUpTo","input":5`, "1: spend has prices, and no verb allowUpTo"},
		{`"limit":"spend","key":"a","output":41`, "1: spend: count exceeds capacity: 1025 is more than the capacity, 1000"},
		{`"limit":"spend","key":"a","output":9223372036854775807`, "1: spend: count exceeds capacity: the cost is more than 9223372036854775807"},
	} {
		const at = `{"at":"2030-01-01T00:00:00Z",`
		out, faults := replayText(t, pricedFile(t, "{input: 0.5, output: 25}"), pricedTrace(at+row.line+"}"))
		if len(faults) > 0 {
			assert.Equal(t, []string{row.want}, faults, row.line)
			continue
		}
		assert.Equal(t, at+row.line+","+row.want+"\n", out, row.line)
	}
}

// A field of that name may be something else in the lines of other limits.
func TestUnitsOfOtherLimitsAreIgnored(t *testing.T) {
	const line = `{"at":"2030-01-01T00:00:00Z","limit":"tokens",`
	out, faults := replayText(t, pricedFile(t, "{input: 1}"), pricedTrace(line+`"input":"a text"}`, line+`"input":7}`))
	assert.Empty(t, faults)
	assert.Equal(t, line+`"allowed":true,"remaining":99,"value":99}`+"\n"+line+`"input":7,"allowed":true,"remaining":98,"value":98}`+"\n", out)
}

// What a request used costs what each side's prices say, and the output is a trace.
func TestComparisonOfPrices(t *testing.T) {
	c := NewComparison(pricedFile(t, "{input: 3, output: 15}"), pricedFile(t, "{input: 3, output: 20}"))
	assert.Equal(t, []string{"input", "output", "calls"}, c.Units())
	in := traceOf(`{"at":0,"limit":"spend","key":"a","output":30}`, `{"at":1,"limit":"spend","key":"a","output":30}`)
	c.Prepare(in)
	var was, is []bool
	require.NoError(t, in.Replay(func(l *trace.Line) error {
		old, new, err := c.DecideBoth(l)
		was, is = append(was, old.Allowed), append(is, new.Allowed)
		return err
	}, func(f *trace.Fault) error { return f }))
	assert.Equal(t, []bool{true, true}, was)
	assert.Equal(t, []bool{true, false}, is)
}

func TestTrafficUsesUnits(t *testing.T) {
	file := pricedFile(t, "{input: 3, output: 15}")
	for _, row := range []struct{ limit, text, want string }{
		{"spend", "burst 1", `"limit":"spend","key":"1","input":1,"output":1,`},
		{"spend", "burst 1 using output=0", `"limit":"spend","key":"1","output":0,`},
		{"complete", "burst 1 taking 5 using input=7,output=9", `"limit":"complete","key":"1","count":5,"input":7,"output":9,`},
	} {
		traffic, err := NewTraffic(row.text, NewReplay(file), row.limit, "", 1)
		require.NoError(t, err, row.text)
		require.NoError(t, traffic.Replay(func(l *trace.Line) error {
			assert.Equal(t, `"at":"2030-01-01T00:00:00Z",`+row.want, string(l.AppendRequest(nil)), row.text)
			return nil
		}, func(f *trace.Fault) error { return f }))
	}
	for _, row := range []struct{ limit, text, problem, caret string }{
		{"spend", "burst 1 taking 5", "the limit has prices; write using input=1", "        ^"},
		{"tokens", "burst 1 using input=5", "the limit has no prices; write taking, and a number of tokens", "        ^"},
		{"spend", "burst 1 using", "expected what each request uses, such as input=100, of input and output, each once", "             ^"},
		{"spend", "burst 1 using input=5,input=6", "expected what each request uses, such as input=100, of input and output, each once", "              ^"},
		{"spend", "burst 1 using calls=5", "expected what each request uses, such as input=100, of input and output, each once", "              ^"},
		{"spend", "burst 1 using input=-5", "expected what each request uses, such as input=100, of input and output, each once", "              ^"},
	} {
		_, err := NewTraffic(row.text, NewReplay(file), row.limit, "", 1)
		assert.EqualError(t, err, row.problem+"\n  "+row.text+"\n  "+row.caret, row.text)
	}
}
