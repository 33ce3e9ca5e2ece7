package sim

import (
	"regexp"
	"time"
)

var durationForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h|d|w)`)

// parseDuration reads a duration of Go with the units d and w too. It is false if it is none, or too long.
func parseDuration(text string) (sum time.Duration, ok bool) {
	for ok = text != ""; text != ""; {
		part := durationForm.FindStringSubmatch(text)
		if part == nil {
			return 0, false
		}
		unit, factor := part[2], time.Duration(1)
		switch unit {
		case "d":
			unit, factor = "h", 24
		case "w":
			unit, factor = "h", 7*24
		}
		d, err := time.ParseDuration(part[1] + unit)
		if err != nil || d > mostLength/factor {
			return 0, false
		}
		if sum += d * factor; sum > mostLength {
			return 0, false
		}
		text = text[len(part[0]):]
	}
	return sum, ok
}
