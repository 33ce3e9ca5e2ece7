package sim

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// bucketOf returns one limit, send.
func bucketOf(capacity, maxReserved int64, key ...string) *spec.File {
	if key == nil {
		key = []string{"string"}
	}
	return fileOf(limitOf(runtime.Policy{
		Name: "send", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: capacity, MaxReserved: maxReserved}, key...))
}

// compare replays a trace on both sides, and returns the report.
func compare(t *testing.T, old, new *spec.File, lines ...string) (text string, faults []string) {
	t.Helper()
	c := NewComparison(old, new)
	require.NoError(t, traceOf(lines...).Replay(c.Decide, func(f *trace.Fault) error {
		faults = append(faults, f.Error())
		return nil
	}))
	var out strings.Builder
	require.NoError(t, c.WriteText(&out, false, 0))
	return out.String(), faults
}

func TestComparisonCountsChangesOfOutcomes(t *testing.T) {
	request := func(extra string) string { return `{"at":0,"limit":"send","key":"ann"` + extra + `}` }
	for _, test := range []struct {
		name     string
		old, new *spec.File
		line     string
		want     string
	}{
		{"looser", bucketOf(1, 0), bucketOf(2, 0), request(``), "1 of 2 requests (1 key) would change from denied to allowed"},
		{"tighter", bucketOf(2, 0), bucketOf(1, 0), request(``), "1 of 2 requests (1 key) would change from allowed to denied"},
		{"may reserve", bucketOf(1, 0), bucketOf(1, 1), request(`,"reserve":true`), "1 of 2 requests (1 key) would change from denied to delayed"},
		{"may not reserve", bucketOf(1, 1), bucketOf(1, 0), request(`,"reserve":true`), "1 of 2 requests (1 key) would change from delayed to denied"},
		{"need not reserve", bucketOf(1, 1), bucketOf(2, 1), request(`,"reserve":true`), "1 of 2 requests (1 key) would change from delayed to allowed"},
		{"must reserve", bucketOf(2, 1), bucketOf(1, 1), request(`,"reserve":true`), "1 of 2 requests (1 key) would change from allowed to delayed"},
		{"fits", bucketOf(1, 0), bucketOf(3, 0), request(`,"count":2`), "1 of 2 requests (1 key) would change from impossible (count exceeds capacity)\n  to allowed"},
		{"fits no more", bucketOf(3, 0), bucketOf(1, 0), request(`,"count":2`), "1 of 2 requests (1 key) would change from allowed to impossible (count exceeds\n  capacity)"},
	} {
		text, faults := compare(t, test.old, test.new, request(``), test.line)
		assert.Empty(t, faults, test.name)
		assert.Contains(t, text, "\n  "+test.want+"\n", test.name)
		assert.Contains(t, text, "\n    ann  1 of 2\n", test.name)
		assert.Equal(t, 1, strings.Count(text, " would change "), test.name)
	}
	text, faults := compare(t, bucketOf(2, 0), bucketOf(2, 0), request(``), request(``), request(``))
	assert.Empty(t, faults)
	assert.Contains(t, text, "send  nothing would change  3 requests\n")
	text, faults = compare(t, bucketOf(2, 0), bucketOf(3, 0), request(`,"count":4`))
	assert.Equal(t, []string{"1: send: count exceeds capacity: 4 is more than the capacity, 3"}, faults)
	assert.Equal(t, "no requests\n", text)
}

func TestComparisonOfAddedRemovedAndReshapedLimits(t *testing.T) {
	send, none := bucketOf(1, 0), &spec.File{}
	lines := []string{`{"at":0,"limit":"send","key":"ann"}`, `{"at":0,"limit":"send","key":"ann"}`, `{"at":0,"limit":"send","key":"bob"}`}
	text, faults := compare(t, send, none, lines...)
	assert.Empty(t, faults)
	assert.Contains(t, text, "send\n  old  Token bucket: 1 per hour, at most 1 at once.\n  3 requests (2 keys) would no longer be limited; the old rule denies 1 of them\n")
	text, faults = compare(t, none, send, lines...)
	assert.Empty(t, faults)
	assert.Contains(t, text, "send\n  new  Token bucket: 1 per hour, at most 1 at once.\n  not limited by this rule before; 1 of 3 requests (2 keys) would be denied\n")

	shared := bucketOf(1, 0, []string{}...)
	text, faults = compare(t, send, shared, `{"at":0,"limit":"send"}`, lines[0], `{"at":0,"limit":"send"}`)
	assert.Equal(t, []string{"2: the key has 1 part; send needs 0"}, faults)
	assert.Contains(t, text, "send\n  old  Token bucket: 1 per hour, at most 1 at once.\n  new  Token bucket: 1 per hour, at most 1 at once.\n"+
		"  the key has a different number of parts, so every count starts again; 1 of 2\n  requests would be denied\n")

	_, faults = compare(t, send, send, `{"at":0,"limit":"sent","key":"ann"}`)
	assert.Equal(t, []string{`1: unknown limit "sent"; the limits are send`}, faults)
}

func TestInvalidLineTakesNothingOnEitherSide(t *testing.T) {
	numbers := bucketOf(1, 0, "int64")
	for _, sides := range [][2]*spec.File{{bucketOf(1, 0), numbers}, {numbers, bucketOf(1, 0)}} {
		c := NewComparison(sides[0], sides[1])
		var faults []string
		require.NoError(t, traceOf(`{"at":0,"limit":"send","key":"ann"}`, `{"at":0,"limit":"send","key":"7"}`).Replay(c.Decide, func(f *trace.Fault) error {
			faults = append(faults, f.Error())
			return nil
		}))
		assert.Equal(t, []string{"1: part 1 of the key of send is not a valid int64"}, faults)
		assert.EqualValues(t, 1, c.old.byName["send"].requests)
		assert.EqualValues(t, 1, c.new.byName["send"].requests)
		assert.EqualValues(t, 1, c.span.requests)
	}
}

func TestComparisonCountsAKeyOnce(t *testing.T) {
	ann, bob := `{"at":0,"limit":"send","key":"ann"}`, `{"at":0,"limit":"send","key":"bob"}`
	text, faults := compare(t, bucketOf(3, 0), bucketOf(1, 0), ann, ann, ann, bob, bob, bob, `{"at":0,"limit":"send","key":"eve"}`)
	assert.Empty(t, faults)
	assert.Contains(t, text, "\n  4 of 7 requests (2 keys) would change from allowed to denied\n")
	assert.Contains(t, text, "\n    ann  2 of 3\n    bob  2 of 3\n")
	assert.NotContains(t, text, "eve")
}

// JSONL writes the answers of the sides that have the limit, and its output is a trace again.
func TestComparisonWritesBothAnswersOfEachLine(t *testing.T) {
	old, new := bucketOf(3, 0), bucketOf(1, 1)
	other := new.Limits[0].Policy
	other.Name = "other"
	new.Limits = append(new.Limits, limitOf(other))
	var jsonl bytes.Buffer
	c := NewComparison(old, new)
	require.NoError(t, traceOf(
		`{"at":0,"limit":"send","key":"ann"}`,
		`{"at":0,"limit":"send","key":"ann","reserve":true}`,
		`{"at":0,"limit":"send","key":"ann"}`,
		`{"at":0,"limit":"send","key":"ann"}`,
		`{"at":0,"limit":"send","key":"ann","count":3}`,
		`{"at":0,"limit":"other"}`,
	).Replay(func(l *trace.Line) error {
		old, new, err := c.DecideBoth(l)
		require.NoError(t, err)
		return NewJSONL(&jsonl).Write(l, old, new)
	}, func(f *trace.Fault) error { return f }))
	want := `{"at":0,"limit":"send","key":"ann","allowed":true,"remaining":0,"value":0,"oldAllowed":true,"oldRemaining":2,"oldValue":2}
{"at":0,"limit":"send","key":"ann","reserve":true,"allowed":true,"retryAfterMs":3600000,"remaining":0,"value":-1,"oldAllowed":true,"oldRemaining":1,"oldValue":1}
{"at":0,"limit":"send","key":"ann","allowed":false,"retryAfterMs":7200000,"remaining":0,"value":-1,"oldAllowed":true,"oldRemaining":0,"oldValue":0}
{"at":0,"limit":"send","key":"ann","allowed":false,"retryAfterMs":7200000,"remaining":0,"value":-1,"oldAllowed":false,"oldRetryAfterMs":3600000,"oldRemaining":0,"oldValue":0}
{"at":0,"limit":"send","key":"ann","count":3,"allowed":false,"oldAllowed":false,"oldRetryAfterMs":10800000,"oldRemaining":0,"oldValue":0}
{"at":0,"limit":"other","allowed":true,"remaining":0,"value":0}
`
	assert.Equal(t, want, jsonl.String())
	again := NewComparison(old, new)
	require.NoError(t, traceOf(want).Replay(again.Decide, func(f *trace.Fault) error { return f }))
	assert.Equal(t, c.span, again.span)
}

func TestComparisonCountsLinesOnBothSidesOrOnNeither(t *testing.T) {
	perKey := fileOf(limitOf(runtime.Policy{Name: "send", Kind: runtime.FixedWindow, Rate: 1, Capacity: 1, Period: 730*time.Hour + 29*time.Minute + 6*time.Second,
		Calendar: runtime.Calendar{Unit: runtime.Month, ZonePerKey: true, Anniversary: true}}, "string"))
	lines := []string{
		`{"at":0,"limit":"send","key":"ann"}`,
		`{"at":0,"limit":"send","key":"ann","zone":"UTC"}`,
		`{"at":0,"limit":"send","key":"ann","zone":"Mars","anniversary":"2020-01-31"}`,
		`{"at":0,"limit":"send","key":"ann","zone":"UTC","anniversary":"2020-01-31"}`,
	}
	for _, sides := range [][2]*spec.File{{bucketOf(1, 0), perKey}, {perKey, bucketOf(1, 0)}} {
		text, faults := compare(t, sides[0], sides[1], lines...)
		assert.Len(t, faults, 3)
		assert.Contains(t, text, "send  nothing would change  1 request\n")
	}
}

// A renamed limit has the windows of its new name with every plan: the old name would begin them at other times.
func TestRenamedLimitsHaveOneNameForEveryPlan(t *testing.T) {
	parse := func(name string) *spec.File {
		file, diagnostics := fields.Parse("limits.yaml", []byte(`version: 1
plans: [free, pro]
limits:
  `+name+`: {doc: bounds posts., kind: fixed window, rate: {free: 1, pro: 2}, period: 1h}
`))
		require.Empty(t, diagnostics)
		return file
	}
	var lines []string
	for minute := range 200 {
		lines = append(lines, fmt.Sprintf(`{"at":%d,"limit":"post","plan":"pro"}`, 60_000*(minute+1)))
	}
	c := NewComparison(parse("send"), parse("post"))
	assert.Equal(t, map[string]string{"send": "post"}, c.Renamed)
	require.NoError(t, traceOf(lines...).Replay(c.Decide, func(f *trace.Fault) error { return f }))
	var out strings.Builder
	require.NoError(t, c.WriteText(&out, false, 0))
	assert.Contains(t, out.String(), "post  nothing would change  200 requests\n")
}
