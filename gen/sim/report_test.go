package sim

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func reportOf(t *testing.T, limits []Limit, color bool, lines ...string) string {
	t.Helper()
	replay := NewReplay(limits)
	report := NewReport(replay)
	require.NoError(t, traceOf(lines...).Replay(func(l *Line) error {
		a, err := replay.Ask(l)
		if err != nil {
			return err
		}
		return report.Write(l, a)
	}, func(f *Fault) error { return f }))
	var out strings.Builder
	require.NoError(t, report.WriteText(&out, color))
	return out.String()
}

// hostile are keys that would spoil a terminal, or a table.
var hostile = []string{
	"plain", strings.Repeat("x", 1000), "\u001b[31mred", "a\r\nb\tc", "日本語のとても長いキーです日本語のとても長いキーです", "\u202etxt.exe", "👩\u200d👩\u200d👧", "e\u0301", "",
}

// No line is wider than 80 cells or has anything in it that a terminal would not just show.
func TestReportFits(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	limits := []Limit{
		{Key: []string{"string"}, Words: "Rule.", Policy: &runtime.Policy{Name: "aLimitWithAVeryLongNameThatGoesOnAndOn", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 3, MaxReserved: 5}},
		{Key: []string{"string"}, Words: "Rule.", Policy: &runtime.Policy{Name: "日本", Kind: runtime.FixedWindow, Rate: 2, Period: time.Hour, Capacity: 2}},
	}
	odd := regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f-\x9f\x{2028}-\x{202e}]`)
	for range 30 {
		at, step := int64(0), int64(1)<<random.IntN(40)
		lines := make([]string, 200)
		for i := range lines {
			at = min(at+random.Int64N(step), lastInstant.UnixMilli())
			lines[i] = fmt.Sprintf(`{"at":%d,"limit":%q,"key":%s,"reserve":%t}`, at, limits[random.IntN(2)].Policy.Name,
				jsonOf(hostile[random.IntN(len(hostile))]), random.IntN(2) == 0)
		}
		loose := []Limit{limits[0], {Key: []string{"string"}, Words: "Rule.", Policy: &runtime.Policy{Name: "日本", Kind: runtime.FixedWindow, Rate: 20, Period: time.Hour, Capacity: 20}}}
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
		require.Equal(t, reportOf(t, limits, false, lines...), colors.ReplaceAllString(colored, ""), "colors are all that is added")
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

func TestReportOfNothing(t *testing.T) {
	assert.Equal(t, "no requests\n", reportOf(t, limitsForTest(), false))
}

func TestReportDoubtsSeconds(t *testing.T) {
	const doubt = "these times are in 1970; if they were Unix seconds, make milliseconds of them\n"
	assert.Contains(t, reportOf(t, limitsForTest(), false, `{"at":1767225600,"limit":"shared"}`), doubt)
	assert.NotContains(t, reportOf(t, limitsForTest(), false, `{"at":1767225600000,"limit":"shared"}`), doubt)
	assert.NotContains(t, reportOf(t, limitsForTest(), false, `{"at":0,"limit":"shared"}`), doubt)
}

// Who was never denied is not among those that were denied most.
func TestReportShowsOnlyTheDenied(t *testing.T) {
	ask := func(key string, count int) string {
		return fmt.Sprintf(`{"at":0,"limit":"bucket","key":"%s","count":%d}`, key, count)
	}
	text := reportOf(t, limitsForTest(), false, ask("ann", 20), ask("bob", 20), ask("bob", 1))
	assert.Contains(t, text, "\n            bob          1 of 2  50.0%        6s\n")
	assert.NotContains(t, text, "ann")
}

// Of many limits only those that denied most are shown one by one, and of many keys only those that were denied
// most.
func TestReportShowsTheMost(t *testing.T) {
	var limits []Limit
	var lines []string
	for i := range 12 {
		name := fmt.Sprintf("limit%d", i)
		limits = append(limits, Limit{Key: []string{"int"}, Words: "Rule.", Policy: &runtime.Policy{
			Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1}})
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
	assert.Contains(t, text, "\nand 4 more limits, which denied less; -limit shows one by itself\n")
	assert.Contains(t, text, "            19           220 of 221  99.5%        1h\n")
	assert.Contains(t, text, "            10           121 of 122  99.2%        1h\n            and 10 more keys\n")
}
