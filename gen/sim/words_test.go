package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
)

func TestShown(t *testing.T) {
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
		{"", 5, ""},
	} {
		got := shown(test.text, test.width)
		assert.Equal(t, test.want, got)
		assert.LessOrEqual(t, cells.Of(got), test.width)
	}
}

func TestLength(t *testing.T) {
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"}, {1500, "1.5µs"}, {time.Second, "1s"}, {1_000_001, "1ms"}, {6*time.Second + 1, "6s"}, {12_340 * time.Millisecond, "12.3s"},
		{time.Minute, "1m"}, {time.Hour, "1h"}, {90 * time.Minute, "1h30m"}, {time.Hour + time.Second, "1h0m1s"}, {day - 1, "24h"}, {day, "1d"}, {day + time.Hour, "1d1h"},
		{400 * day, "400d"}, {2000 * day, "2,000d"}, {math.MaxInt64, "106,751d23h47m16.854775807s"},
	} {
		assert.Equal(t, test.want, length(test.d))
	}
}

func TestPercent(t *testing.T) {
	for _, test := range []struct {
		part, whole int64
		want        string
	}{
		{0, 7, "0%"}, {7, 7, "100%"}, {1, 3, "33.3%"}, {1, 100_000, "<0.1%"}, {99_999, 100_000, ">99.9%"}, {999, 1000, "99.9%"},
	} {
		assert.Equal(t, test.want, percent(test.part, test.whole))
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567"} {
		assert.Equal(t, want, grouped(n))
	}
}

// The few that are kept are the first of all when sorted, and equal ones keep their order.
func TestMost(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	tens := func(a, b int) int { return cmp.Compare(a/10, b/10) }
	for range 200 {
		all := random.Perm(random.IntN(40))
		n := 1 + random.IntN(12)
		got := most(slices.Values(all), n, tens)
		slices.SortStableFunc(all, func(a, b int) int { return tens(b, a) })
		require.Equal(t, append([]int(nil), all[:min(n, len(all))]...), got)
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	table{{"limit", "asked"}, {"日本", "1,000"}, {"a", "7"}}.write(&out, "  ")
	assert.Equal(t, "  limit  asked\n  日本   1,000\n  a          7\n", out.String())

	large := tally{asked: 12_345_678, allowed: 12_345_677, denied: 1_234_567, delayed: 123_456, longest: 2000*day - 1}
	out.Reset()
	table{append([]string{"limit"}, tallyHead...), append([]string{"aLimitWithALongName"}, large.row(1_234_567)...)}.write(&out, "")
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, cells.Of(strings.TrimSpace(line)), cells.Line, line)
	}
	assert.Contains(t, out.String(), "aLimitW…  12,345,678  ")
}
