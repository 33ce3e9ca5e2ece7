package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func reportOf(t *testing.T, limits *spec.File, color bool, lines ...string) string {
	t.Helper()
	replay := NewReplay(limits)
	report := NewReport(replay)
	require.NoError(t, traceOf(lines...).Replay(func(l *trace.Line) error {
		a, err := replay.Decide(l)
		if err != nil {
			return err
		}
		return report.Write(l, a)
	}, func(f *trace.Fault) error { return f }))
	var out strings.Builder
	require.NoError(t, report.WriteText(&out, color, 0))
	return out.String()
}

// hostile are keys that would break a table or control a terminal.
var hostile = []string{
	"plain", strings.Repeat("x", 1000), "\u001b[31mred", "a\r\nb\tc", "日本語のとても長いキーです日本語のとても長いキーです", "\u202etxt.exe", "👩\u200d👩\u200d👧", "e\u0301", " ",
}

// No line is wider than 80 cells, and none has a character that a terminal would not just show.
func TestReportFitsATerminal(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	limits := fileOf(
		limitOf(runtime.Policy{Name: "aLimitWithAVeryLongNameThatGoesOnAndOn", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 3, MaxReserved: 5}, "string"),
		limitOf(runtime.Policy{Name: "日本", Kind: runtime.FixedWindow, Rate: 2, Period: time.Hour, Capacity: 2}, "string"),
	)
	odd := regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f-\x9f\x{2028}-\x{202e}]`)
	for range 30 {
		at, step := int64(0), int64(1)<<random.IntN(40)
		lines := make([]string, 200)
		for i := range lines {
			at = min(at+random.Int64N(step), trace.LastInstant.UnixMilli())
			lines[i] = fmt.Sprintf(`{"at":%d,"limit":%q,"key":%s,"reserve":%t}`, at, limits.Limits[random.IntN(2)].Policy.Name,
				jsonOf(hostile[random.IntN(len(hostile))]), random.IntN(2) == 0)
		}
		loose := fileOf(limits.Limits[0], limitOf(runtime.Policy{Name: "日本", Kind: runtime.FixedWindow, Rate: 20, Period: time.Hour, Capacity: 20}, "string"))
		compared, faults := compare(t, limits, loose, lines...)
		require.Empty(t, faults)
		for _, text := range []string{reportOf(t, limits, false, lines...), compared} {
			for line := range strings.Lines(text) {
				require.LessOrEqual(t, cells.Of(strings.TrimSuffix(line, "\n")), 80, line)
				require.NotRegexp(t, odd, line)
				require.Equal(t, strings.TrimRight(line, " \n")+"\n", line)
			}
		}
		colors := regexp.MustCompile("\x1b\\[[0-9;]*m")
		colored := reportOf(t, limits, true, lines...)
		require.Equal(t, reportOf(t, limits, false, lines...), colors.ReplaceAllString(colored, ""), "colors change nothing else")
	}
}

// jsonOf writes a text as a JSON string.
func jsonOf(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r < 0x10000 {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return `"` + out.String() + `"`
}

func TestReportOfAnEmptyTrace(t *testing.T) {
	assert.Equal(t, "no requests\n", reportOf(t, limitsForTest(), false))
}

func TestReportWarnsAboutTimesInSeconds(t *testing.T) {
	const warning = "all times are in 1970; if they are Unix seconds, convert them to milliseconds\n"
	assert.Contains(t, reportOf(t, limitsForTest(), false, `{"at":1767225600,"limit":"shared"}`), warning)
	assert.NotContains(t, reportOf(t, limitsForTest(), false, `{"at":1767225600000,"limit":"shared"}`), warning)
	assert.NotContains(t, reportOf(t, limitsForTest(), false, `{"at":0,"limit":"shared"}`), warning)
}

func TestReportListsOnlyKeysThatWereDenied(t *testing.T) {
	line := func(key string, count int) string {
		return fmt.Sprintf(`{"at":0,"limit":"bucket","key":"%s","count":%d}`, key, count)
	}
	text := reportOf(t, limitsForTest(), false, line("ann", 20), line("bob", 20), line("bob", 1))
	assert.Contains(t, text, "\n            bob  1 of 2  50.0%        6s\n")
	assert.NotContains(t, text, "ann")
}

// Without the mode, the rule would contradict the decisions. What needs a denial has no effect in other modes than enforce.
func TestReportSaysTheMode(t *testing.T) {
	for mode, want := range map[string]string{
		"enforce": "  Token bucket: 1 per second, at most 1 at once.\n  Not replayed: denyCache of 1s.",
		"off":     "  Token bucket: 1 per second, at most 1 at once. Switched off: every request\n  passes, and none is counted.\n   ",
		"block":   "  Token bucket: 1 per second, at most 1 at once. Blocked: every request is\n  denied.\n   ",
	} {
		file, diagnostics := fields.Parse("limits.yaml", []byte("version: 1\nlimits:\n  send: {kind: token bucket, rate: 1, period: 1s, denyCache: 1s, mode: "+mode+"}\n"))
		require.Empty(t, diagnostics)
		assert.Contains(t, reportOf(t, file, false, `{"at":0,"limit":"send"}`), want)
	}
}

func TestReportShowsTheLimitsAndKeysWithMostDenials(t *testing.T) {
	limits := &spec.File{}
	var lines []string
	for i := range 12 {
		name := fmt.Sprintf("limit%d", i)
		limits.Limits = append(limits.Limits, limitOf(runtime.Policy{
			Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1}, "int"))
		for key := range 20 {
			for range 1 + (key+1)*i {
				lines = append(lines, fmt.Sprintf(`{"at":0,"limit":"%s","key":"%d"}`, name, key))
			}
		}
	}
	text := reportOf(t, limits, false, lines...)
	assert.Contains(t, text, "\nlimit11\n")
	assert.Contains(t, text, "\nlimit4\n")
	assert.NotContains(t, text, "\nlimit3\n")
	assert.Contains(t, text, "\nand 4 more limits with fewer denials; -limit NAME shows one of them\n")
	assert.Contains(t, text, "            19   220 of 221  99.5%        1h\n")
	assert.Contains(t, text, "            10   121 of 122  99.2%        1h\n            and 10 more keys\n")
}

func TestClipCutsBetweenEscapes(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"alice", 5, "alice"},
		{"alice@example.com", 8, "alice@e…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"a\tb\x1b[31m\u202e\u00a0é", 80, `a\tb\x1b[31m\u202e\u00a0é`},
		{"\xff\u2028", 80, `\xff\u2028`},
		{"a\u202eb", 5, "a…"},
		{"", 5, ""},
	} {
		got := trace.Clip(test.text, test.width)
		assert.Equal(t, test.want, got)
		assert.LessOrEqual(t, cells.Of(got), test.width)
	}
}

func TestRoundedDuration(t *testing.T) {
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"}, {1500, "1.5µs"}, {time.Second, "1s"}, {1_000_001, "1ms"}, {6*time.Second + 1, "6s"}, {12_340 * time.Millisecond, "12.3s"},
		{time.Minute, "1m"}, {time.Hour, "1h"}, {90 * time.Minute, "1h30m"}, {time.Hour + time.Second, "1h0m1s"}, {words.Day - 1, "24h"}, {words.Day, "1d"}, {words.Day + time.Hour, "1d1h"},
		{400 * words.Day, "400d"}, {2000 * words.Day, "2,000d"}, {math.MaxInt64, "106,751d23h47m16.854775807s"},
	} {
		assert.Equal(t, test.want, roundedDuration(test.d))
	}
}

func TestPercentIsExactAtBothEnds(t *testing.T) {
	for _, test := range []struct {
		part, whole int64
		want        string
	}{
		{0, 7, "0%"}, {7, 7, "100%"}, {1, 3, "33.3%"}, {1, 100_000, "<0.1%"}, {99_999, 100_000, ">99.9%"}, {999, 1000, "99.9%"},
	} {
		assert.Equal(t, test.want, percent(test.part, test.whole))
	}
}

// Top returns what a stable sort of all elements puts first.
func TestTopIsTheBeginningOfAStableSort(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	tens := func(a, b int) int { return cmp.Compare(a/10, b/10) }
	for range 200 {
		all := random.Perm(random.IntN(40))
		n := 1 + random.IntN(12)
		got := top(slices.Values(all), n, tens)
		slices.SortStableFunc(all, func(a, b int) int { return tens(b, a) })
		require.Equal(t, append([]int(nil), all[:min(n, len(all))]...), got)
	}
}

func TestTablesFitALine(t *testing.T) {
	assert.Equal(t, "  limit  asked\n  日本   1,000\n  a          7\n", cells.Table([][]string{{"limit", "asked"}, {"日本", "1,000"}, {"a", "7"}}, "lr", "  ", 0))

	large := tally{requests: 12_345_678, by: [Outcomes]int64{Denied: 1_234_567, Delayed: 123_456}, longest: 2000*words.Day - 1}
	for shadow, name := range map[bool]string{false: "aLimitW…  ", true: "aLim…  "} {
		rows := [][]string{tallyHead("limit", shadow), append([]string{"aLimitWithALongName"}, large.row(1_234_567, shadow)...)}
		out := tallyTable(rows, "")
		for line := range strings.Lines(out) {
			assert.LessOrEqual(t, cells.Of(strings.TrimSpace(line)), cells.Line, line)
		}
		assert.Contains(t, out, name+"12,345,678  ")
	}
}
