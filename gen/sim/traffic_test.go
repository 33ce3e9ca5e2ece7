package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func generate(t *testing.T, text string, limit *spec.Limit, seed uint64) string {
	t.Helper()
	traffic, err := NewTraffic(text, NewReplay(fileOf(limit)), limit.Policy.Name, "", seed)
	require.NoError(t, err)
	return textOf(t, traffic)
}

// textOf returns generated requests as a trace.
func textOf(t testing.TB, traffic *Traffic) string {
	t.Helper()
	var out []byte
	require.NoError(t, traffic.Replay(func(l *trace.Line) error {
		out = l.AppendRequest(append(out, '{'))
		out = append(out[:len(out)-1], "}\n"...) // in place of the last comma
		return nil
	}, nil))
	return string(out)
}

func TestTrafficIsGenerated(t *testing.T) {
	limits := limitsForTest().Limits
	for _, test := range []struct {
		text  string
		limit *spec.Limit
		want  string
	}{
		{"steady 3/s for 1s", limits[0], `{"at":"2030-01-01T00:00:00Z","limit":"bucket","key":"1"}
{"at":"2030-01-01T00:00:00.333333333Z","limit":"bucket","key":"1"}
{"at":"2030-01-01T00:00:00.666666666Z","limit":"bucket","key":"1"}
`},
		{"steady 1/10s for 20s over 2 keys;burst 2 at 10s taking 5", limits[1], `{"at":"2030-01-01T00:00:00Z","limit":"window","key":["1","1"]}
{"at":"2030-01-01T00:00:10Z","limit":"window","key":["2","2"]}
{"at":"2030-01-01T00:00:10Z","limit":"window","key":["1","1"],"count":5}
{"at":"2030-01-01T00:00:10Z","limit":"window","key":["1","1"],"count":5}
`},
		{"burst 2 over 300 keys", limits[2], `{"at":"2030-01-01T00:00:00Z","limit":"sliding","key":"10.0.0.1"}
{"at":"2030-01-01T00:00:00Z","limit":"sliding","key":"10.0.0.2"}
`},
		{"burst 1", limits[3], `{"at":"2030-01-01T00:00:00Z","limit":"shared"}
`},
		{"burst 2 over 2 keys", limits[4], `{"at":"2030-01-01T00:00:00Z","limit":"halves","key":"true"}
{"at":"2030-01-01T00:00:00Z","limit":"halves","key":"false"}
`},
		{"burst 1", limitOf(runtime.Policy{Name: "export", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, MaxReserved: 5}), `{"at":"2030-01-01T00:00:00Z","limit":"export","reserve":true}
`},
	} {
		assert.Equal(t, test.want, generate(t, test.text, test.limit, 1), test.text)
	}
}

// Generated requests are valid and in order, and JSONL writes a trace with the same decisions.
// Generated keys have the zone and the anniversary that the calendars of the limit, or of a group, need.
func TestTrafficHasZonesAndAnniversaries(t *testing.T) {
	file, diagnostics := fields.Parse("limits.yaml", []byte("version: 1\nlimits:\n"+
		"  daily: {kind: fixed window, rate: 1, period: day, zone: per key}\n"+
		"  monthly: {kind: fixed window, rate: 1, period: month, zone: UTC, start: anniversary}\n"+
		"groups:\n  both: {takes: [daily, monthly]}\n"))
	require.Empty(t, diagnostics)
	for name, want := range map[string]string{
		"daily": `"zone":"UTC"}`, "monthly": `"anniversary":"2030-01-01"}`, "both": `"zone":"UTC","anniversary":"2030-01-01"}`,
	} {
		traffic, err := NewTraffic("burst 1", NewReplay(file), name, "", 1)
		require.NoError(t, err)
		text := textOf(t, traffic)
		assert.Contains(t, text, want)
		_, faults := replayText(t, file, traceOf(text))
		require.Empty(t, faults)
	}
}

func TestTrafficReplaysWithoutFaults(t *testing.T) {
	text := "steady 7/3s for 10m over 3 keys; burst 20 at 2m; poisson 2/s over 4 keys taking 2; poisson 1/m at 9m for 1h"
	for _, limit := range limitsForTest().Limits {
		if len(limit.Key) == 0 {
			continue
		}
		file := fileOf(limit)
		out, faults := replayText(t, file, traceOf(generate(t, text, limit, 1)))
		require.Empty(t, faults)
		again, faults := replayText(t, file, traceOf(out))
		require.Empty(t, faults)
		assert.True(t, out == again, limit.Policy.Name)
	}
}

func TestTrafficDependsOnTheSeedOnly(t *testing.T) {
	limit := limitsForTest().Limits[0]
	assert.Equal(t, generate(t, "poisson 5/s over 9 keys", limit, 7), generate(t, "poisson 5/s over 9 keys", limit, 7))
	assert.NotEqual(t, generate(t, "poisson 5/s", limit, 7), generate(t, "poisson 5/s", limit, 8))
	assert.Equal(t, generate(t, "steady 5/s over 9 keys", limit, 7), generate(t, "steady 5/s over 9 keys", limit, 8))
}

// A request that cannot be replayed has the number that its line would have.
func TestTrafficReportsFaults(t *testing.T) {
	limit := limitsForTest().Limits[0]
	replay := NewReplay(fileOf(limit))
	traffic, err := NewTraffic("burst 1; burst 1 at 1s taking 1000", replay, limit.Policy.Name, "", 1)
	require.NoError(t, err)
	var faults []string
	require.NoError(t, traffic.Replay(func(l *trace.Line) error {
		_, err := replay.Decide(l)
		return err
	}, func(f *trace.Fault) error { faults = append(faults, f.Error()); return nil }))
	assert.Equal(t, []string{"2: bucket: count exceeds capacity: 1000 is more than the capacity, 20"}, faults)
}

// An hour has the expected number of requests, within five standard deviations, and the gaps have the standard
// deviation of an exponential distribution.
func TestPoissonTrafficIsAPoissonProcess(t *testing.T) {
	s := newStream(clause{kind: poisson, n: 20, per: time.Second, length: time.Hour, keys: 1}, 1, 0)
	n, sum, squares, before := 0.0, 0.0, 0.0, time.Duration(0)
	for ; !s.done(); s.advance() {
		gap := (s.next - before).Seconds()
		before = s.next
		n, sum, squares = n+1, sum+gap, squares+gap*gap
	}
	assert.InDelta(t, 72_000, n, 5*math.Sqrt(72_000))
	mean := sum / n
	assert.InDelta(t, 1, math.Sqrt(squares/n-mean*mean)/mean, 0.02)
}

func TestClauseWithoutForEndsWithTheLastOther(t *testing.T) {
	for _, test := range []struct {
		text string
		want []time.Duration
	}{
		{"steady 5/s for 10m; burst 100 at 2m; poisson 20/s", []time.Duration{10 * time.Minute, 0, 10 * time.Minute}},
		{"burst 100 at 2m; poisson 20/s at 30s", []time.Duration{0, 90 * time.Second}},
		{"poisson 20/s", []time.Duration{time.Minute}},
		{"poisson 20/s at 5m; steady 1/s for 1d at 1w", []time.Duration{8*words.Day - 5*time.Minute, words.Day}},
		{"steady 1/h at 1h30m", []time.Duration{time.Minute}},
	} {
		clauses, err := parseTraffic(test.text, NewReplay(limitsForTest()).byName["bucket"])
		require.NoError(t, err)
		var got []time.Duration
		for _, c := range clauses {
			got = append(got, c.length)
		}
		assert.Equal(t, test.want, got, test.text)
	}
}

func TestTrafficErrorHasACaretAtItsColumn(t *testing.T) {
	replay := NewReplay(limitsForTest())
	const kinds, rates, durations = "expected steady, poisson or burst", "expected a rate such as 5/s, 100/m or 3/10s",
		"expected a duration such as 90s, 10m or 1d, at most 3650d"
	for _, test := range []struct{ text, problem, caret string }{
		{"", kinds, "^"},
		{"stedy 5/s", kinds, "^"},
		{"steady 5/s;", kinds, "           ^"},
		{"steady 5/s;; burst 1", kinds, "           ^"},
		{"日本 5/s", kinds, "^"},
		{"steady 日本", rates, "       ^"},
		{"burst 5 日 本", "expected for, at, over, taking, using, running, plan or ;", "        ^"},
		{"burst 5 at 日 本", durations, "           ^"},
		{"steady", rates, "      ^"},
		{"steady 5", rates, "       ^"},
		{"steady 0/s", rates, "       ^"},
		{"steady 5/0s", rates, "       ^"},
		{"steady 5/", rates, "       ^"},
		{"steady 1.5/s", rates, "       ^"},
		{"steady 9999999999/s", rates, "       ^"},
		{"burst x", "expected the number of requests, from 1 to 100,000,000", "      ^"},
		{"burst 5 for 1m", "a burst has no duration; set its start with at", "        ^"},
		{"steady 5/s for", durations, "              ^"},
		{"steady 5/s for 0s", durations, "               ^"},
		{"steady 5/s for -1s", durations, "               ^"},
		{"steady 5/s for 3651d", durations, "               ^"},
		{"steady 5/s for 99999999999999h", durations, "               ^"},
		{"steady 5/s at 1x", durations, "              ^"},
		{"steady 5/s at 1.5ns", durations, "              ^"},
		{"steady 5/s for 1m for 1m", "for is given twice", "                  ^"},
		{"steady 5/s over 0 keys", "expected the number of keys, from 1 to 16,777,216", "                ^"},
		{"steady 5/s over 5 cars", "expected the word keys", "                  ^"},
		{"steady 5/s taking all", "expected the number of tokens per request, from 1 to 2,000,000,000,000,000", "                  ^"},
		{"steady 1000000/s for 10d", "the traffic has more than 100,000,000 requests; shorten it, or lower its rates", "^"},
	} {
		_, err := NewTraffic(test.text, replay, "bucket", "", 1)
		assert.EqualError(t, err, test.problem+"\n  "+test.text+"\n  "+test.caret, test.text)
	}
	_, err := NewTraffic("steady 5/s over 2 keys", replay, "shared", "", 1)
	assert.EqualError(t, err, "the limit has no key; remove over\n  steady 5/s over 2 keys\n             ^")
	_, err = NewTraffic("日本", replay, "bucket", "", 1)
	traffic := new(TrafficError)
	require.ErrorAs(t, err, &traffic)
	assert.Equal(t, 1, traffic.Column)
	assert.True(t, strings.HasPrefix(err.Error(), traffic.Problem))
}
