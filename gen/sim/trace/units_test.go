package trace

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	limitfields "github.com/ratelimitgen/ratelimitgen/gen/fields"
)

// Otherwise a price could not be read from a trace.
func TestNoPriceHasTheNameOfAField(t *testing.T) {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	assert.Equal(t, names, limitfields.TraceFields)
}

// read returns the units of each line of a trace and the JSON of its request, or the faults.
func readUnits(t *testing.T, text string, set func(*Reader)) (lines []string) {
	t.Helper()
	r := NewReader(strings.NewReader(text))
	r.Default, r.Units = "spend", []string{"input", "output"}
	set(r)
	require.NoError(t, r.Replay(func(l *Line) error {
		for _, u := range l.Units {
			if u.Fault != nil {
				return u.Fault
			}
		}
		lines = append(lines, "{"+string(l.AppendRequest(nil)))
		return nil
	}, func(f *Fault) error {
		lines = append(lines, f.Error())
		return nil
	}))
	return lines
}

func TestLinesHaveUnits(t *testing.T) {
	const at = `{"at":"2030-01-01T00:00:00Z",`
	for _, row := range []struct{ line, want string }{
		{at + `"input":1200,"output":0}`, at + `"input":1200,"output":0,`},
		{at + `"output":5, "other":7,"cached":1}`, at + `"output":5,`},
		{at + `"count":2,"input":9223372036854775807}`, at + `"count":2,"input":9223372036854775807,`},
		{at + `"input":-1}`, "1:38: input is less than 0"},
		{at + `"input":1.5}`, "1:38: input must be a whole number in plain digits, such as 100"},
		{at + `"input":9223372036854775808}`, "1:38: input is too large"},
		{at + `"input":"5"}`, "1:38: input must be a whole number, not a string"},
		{at + `"input":null}`, "1:38: input must be a whole number, not null"},
		{at + `"input":1,"input":1}`, "1:40: input is given twice"},
	} {
		assert.Equal(t, []string{row.want}, readUnits(t, row.line, func(*Reader) {}), row.line)
	}
}

func TestLogsHaveUnits(t *testing.T) {
	const first = `{"at":"2030-01-01T00:00:00Z","limit":"spend",`
	mapped := func(text string) func(*Reader) {
		return func(r *Reader) { require.NoError(t, r.Map.Add(text)); require.NoError(t, r.Map.Check(r.Units)) }
	}
	for _, row := range []struct {
		log  string
		set  func(*Reader)
		want []string
	}{
		// The names of columns, and of fields in objects.
		{"time,input,output\n1893456000,5,7\n1893456000,,7\n", func(*Reader) {}, []string{first + `"input":5,"output":7,`, first + `"output":7,`}},
		{`{"time":1893456000,"usage":{"prompt_tokens":5,"completion_tokens":"7"}}`, mapped("input=usage.prompt_tokens,output=usage.completion_tokens"), []string{first + `"input":5,"output":7,`}},
		{`{"time":1893456000,"usage":{"prompt_tokens":-5}}`, mapped("input=usage.prompt_tokens"), []string{"1:45: input is less than 0, in its field usage.prompt_tokens"}},
		{"time,input\n1893456000,-1\n1893456000,x\n", func(*Reader) {}, []string{"2:12: input is less than 0, in its field input", "3:12: input must be a whole number in plain digits, such as 100, in its field input"}},
		// Late lines keep theirs.
		{"time,input\n1893456001,2\n1893456000,1\n", func(*Reader) {}, []string{first + `"input":1,`, strings.Replace(first, ":00Z", ":01Z", 1) + `"input":2,`}},
	} {
		assert.Equal(t, row.want, readUnits(t, row.log, row.set), row.log)
	}
	var m Mapping
	assert.NoError(t, m.Add("inptu=a"))
	assert.ErrorContains(t, m.Add("inptu=b"), "inptu is given twice")
	assert.EqualError(t, m.Check([]string{"input"}), `unknown field "inptu"; the fields are at, limit, key, count, reserve, plan, zone, anniversary, verb, running, priority and input`)
}
