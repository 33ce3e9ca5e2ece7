package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// grouped writes a number as people read it: 40,000.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// plural says how many of a thing there are: 1 key, 2 keys.
func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(n) + " " + thing + "s"
}

// percent says a share of a whole, and tells what is little from none, and nearly all from all.
func percent(part, whole int64) string {
	switch p := 100 * float64(part) / float64(whole); {
	case part == 0:
		return "0%"
	case part == whole:
		return "100%"
	case p < 0.1:
		return "<0.1%"
	case p > 99.9:
		return ">99.9%"
	default:
		return fmt.Sprintf("%.1f%%", p)
	}
}

// length says a duration as people need it: to the millisecond, and a long one less exactly.
func length(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d >= day:
		d = d.Round(time.Hour)
		return grouped(int64(d/day)) + "d" + short(d%day)
	case d >= 10*time.Minute:
		return short(d.Round(time.Second))
	case d >= 10*time.Second:
		return short(d.Round(100 * time.Millisecond))
	case d >= time.Millisecond:
		return short(d.Round(time.Millisecond))
	}
	return d.String()
}

// short leaves out the units of which there are none: 1h and not 1h0m0s. It is empty for 0.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return strings.TrimPrefix(text, "0s")
}

// instant says a time, to the millisecond.
func instant(at int64) string { return time.Unix(0, at).UTC().Format("2006-01-02 15:04:05.999") }
