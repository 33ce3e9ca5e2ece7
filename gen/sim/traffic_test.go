package sim

import (
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// madeUp returns the text of traffic to a limit.
func madeUp(t *testing.T, text string, limit Limit, seed uint64) string {
	t.Helper()
	traffic, err := NewTraffic(text, limit, seed)
	require.NoError(t, err)
	out, err := io.ReadAll(traffic)
	require.NoError(t, err)
	return string(out)
}

func TestTraffic(t *testing.T) {
	limits := limitsForTest()
	for _, test := range []struct {
		text  string
		limit Limit
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
		{"burst 1", Limit{Policy: &runtime.Policy{Name: "export", Capacity: 0}}, `{"at":"2030-01-01T00:00:00Z","limit":"export","reserve":true}
`},
	} {
		assert.Equal(t, test.want, madeUp(t, test.text, test.limit, 1), test.text)
	}
}

// Whatever a text describes, its requests are in order, answered without a fault, and the same when they are
// read again.
func TestTrafficIsATrace(t *testing.T) {
	text := "steady 7/3s for 10m over 3 keys; burst 20 at 2m; poisson 2/s over 4 keys taking 2; poisson 1/m at 9m for 1h"
	for _, limit := range limitsForTest() {
		if len(limit.Key) == 0 {
			continue
		}
		traffic, err := NewTraffic(text, limit, 1)
		require.NoError(t, err)
		out, faults := replayText(t, []Limit{limit}, NewTrace(iotest.HalfReader(traffic)))
		require.Empty(t, faults)
		again, faults := replayText(t, []Limit{limit}, traceOf(out))
		require.Empty(t, faults)
		assert.True(t, out == again, limit.Policy.Name)
	}
}

func TestTrafficIsSeeded(t *testing.T) {
	limit := limitsForTest()[0]
	assert.Equal(t, madeUp(t, "poisson 5/s over 9 keys", limit, 7), madeUp(t, "poisson 5/s over 9 keys", limit, 7))
	assert.NotEqual(t, madeUp(t, "poisson 5/s", limit, 7), madeUp(t, "poisson 5/s", limit, 8))
	assert.Equal(t, madeUp(t, "steady 5/s over 9 keys", limit, 7), madeUp(t, "steady 5/s over 9 keys", limit, 8))
}

// In an hour, as many requests come at random as they should, give or take five standard deviations, and the
// distances between them have the deviation of an exponential distribution.
func TestTrafficAtRandom(t *testing.T) {
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

// A clause that does not say for how long ends with the last of the others.
func TestTrafficLengths(t *testing.T) {
	for _, test := range []struct {
		text string
		want []time.Duration
	}{
		{"steady 5/s for 10m; burst 100 at 2m; poisson 20/s", []time.Duration{10 * time.Minute, 0, 10 * time.Minute}},
		{"burst 100 at 2m; poisson 20/s at 30s", []time.Duration{0, 90 * time.Second}},
		{"poisson 20/s", []time.Duration{time.Minute}},
		{"poisson 20/s at 5m; steady 1/s for 1d at 1w", []time.Duration{8*day - 5*time.Minute, day}},
		{"steady 1/h at 1h30m", []time.Duration{time.Minute}},
	} {
		clauses, err := parseTraffic(test.text, limitsForTest()[0])
		require.NoError(t, err)
		var got []time.Duration
		for _, c := range clauses {
			got = append(got, c.length)
		}
		assert.Equal(t, test.want, got, test.text)
	}
}

func TestTrafficErrors(t *testing.T) {
	const kinds, rates, durations = "expected steady, poisson or burst", "expected a rate such as 5/s, 100/m or 3/10s",
		"expected a duration such as 90s, 10m or 1d, at most 3650d"
	for _, test := range []struct{ text, problem, caret string }{
		{"", kinds, "^"},
		{"stedy 5/s", kinds, "^"},
		{"steady 5/s;", kinds, "           ^"},
		{"steady 5/s;; burst 1", kinds, "           ^"},
		{"日本 5/s", kinds, "^"},
		{"steady 日本", rates, "       ^"},
		{"burst 5 日 本", "expected for, at, over, taking or ;", "        ^"},
		{"burst 5 at 日 本", durations, "           ^"},
		{"steady", rates, "      ^"},
		{"steady 5", rates, "       ^"},
		{"steady 0/s", rates, "       ^"},
		{"steady 5/0s", rates, "       ^"},
		{"steady 5/", rates, "       ^"},
		{"steady 1.5/s", rates, "       ^"},
		{"steady 9999999999/s", rates, "       ^"},
		{"burst x", "expected how many requests at once, a number from 1 to 100,000,000", "      ^"},
		{"burst 5 for 1m", "a burst is at one instant; say when with at", "        ^"},
		{"steady 5/s for", durations, "              ^"},
		{"steady 5/s for 0s", durations, "               ^"},
		{"steady 5/s for -1s", durations, "               ^"},
		{"steady 5/s for 3651d", durations, "               ^"},
		{"steady 5/s for 99999999999999h", durations, "               ^"},
		{"steady 5/s at 1x", durations, "              ^"},
		{"steady 5/s for 1m for 1m", "for is given twice", "                  ^"},
		{"steady 5/s over 0 keys", "expected by how many keys, a number from 1 to 16,777,216", "                ^"},
		{"steady 5/s over 5 cars", "expected keys", "                  ^"},
		{"steady 5/s taking all", "expected how many tokens each request takes, a number from 1 to 2,000,000,000,000,000", "                  ^"},
		{"steady 1000000/s for 10d", "these are more than 100,000,000 requests", "^"},
	} {
		_, err := NewTraffic(test.text, limitsForTest()[0], 1)
		assert.EqualError(t, err, test.problem+"\n  "+test.text+"\n  "+test.caret, test.text)
	}
	_, err := NewTraffic("steady 5/s over 2 keys", limitsForTest()[3], 1)
	assert.EqualError(t, err, "the limit has one shared counter and no keys\n  steady 5/s over 2 keys\n             ^")
	_, err = NewTraffic("日本", limitsForTest()[0], 1)
	traffic := new(TrafficError)
	require.ErrorAs(t, err, &traffic)
	assert.Equal(t, 1, traffic.Column)
	assert.True(t, strings.HasPrefix(err.Error(), traffic.Problem))
}
