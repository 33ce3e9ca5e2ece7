package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// percent formats a share so that 0% and 100% are exact.
func percent(part, whole int64) string {
	switch p := 100 * float64(part) / float64(whole); {
	case part == 0:
		return "0%"
	case part == whole:
		return "100%"
	case p < 0.1:
		return "<0.1%"
	case p > 99.9: // which could be rounded to 100.0%
		return ">99.9%"
	default:
		return fmt.Sprintf("%.1f%%", p)
	}
}

// roundedDuration rounds a duration to about three digits; [words.Duration] would print every nanosecond.
func roundedDuration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d >= words.Day:
		d = d.Round(time.Hour) // before splitting off the days, since it may round up to one more
		return words.Number(int64(d/words.Day)) + "d" + withoutZeros(d%words.Day)
	case d >= 10*time.Minute:
		return withoutZeros(d.Round(time.Second))
	case d >= 10*time.Second:
		return withoutZeros(d.Round(100 * time.Millisecond))
	case d >= time.Millisecond:
		return withoutZeros(d.Round(time.Millisecond))
	}
	return d.String()
}

// withoutZeros formats 1h0m0s as 1h, and 0 as "".
func withoutZeros(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return strings.TrimPrefix(text, "0s")
}
