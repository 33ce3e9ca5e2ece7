package words

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestNumbersAreGroupedByThousands(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 40_000: "40,000", 1_234_567: "1,234,567", -999: "-999", -1000: "-1,000", -123_456: "-123,456",
		math.MaxInt64: "9,223,372,036,854,775,807",
	} {
		assert.Equal(t, want, Number(n))
	}
}

func TestCountsAndLists(t *testing.T) {
	assert.Equal(t, "1 token", Count(1, "token"))
	assert.Equal(t, "0 tokens", Count(0, "token"))
	assert.Equal(t, "40,000 more keys", Count(40_000, "more key"))
	assert.Equal(t, "", List(nil, "and"))
	assert.Equal(t, "a", List([]string{"a"}, "and"))
	assert.Equal(t, "a or b", List([]string{"a", "b"}, "or"))
	assert.Equal(t, "a, b and c", List([]string{"a", "b", "c"}, "and"))
	assert.Equal(t, "all callers together", Holder(nil))
	assert.Equal(t, "one userID and team", Holder([]string{"userID", "team"}))
}

func TestClipCountsRunes(t *testing.T) {
	assert.Equal(t, "日本語", Clip("日本語", 3))
	assert.Equal(t, "日…", Clip("日本語", 2))
	assert.Equal(t, "", Clip("", 2))
}

func TestPeriodIsInItsLargestWholeUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "minute", 90 * time.Second: "90 seconds", 2 * Week: "2 weeks", 36 * time.Hour: "36 hours", Day: "day",
		1500 * time.Millisecond: "1,500 milliseconds", 1: "nanosecond", 1001: "1,001 nanoseconds",
	} {
		assert.Equal(t, want, Period(d))
	}
}

func TestDurationIsExact(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", 14 * Day: "2w", 8 * Day: "8d", 36 * time.Hour: "1d12h", 1500 * time.Millisecond: "1s500ms",
		1001: "1us1ns", -6*time.Hour - 30*time.Minute: "-6h30m", -Week: "-1w",
	} {
		assert.Equal(t, want, Duration(d))
	}
}
