package ids

import (
	"regexp"
	"strings"
)

// markForm is the mark of a line of an example, after the indentation of the line.
var markForm = regexp.MustCompile(`(?m)^( *)([-+])(.*\n)`)

// versions returns the two versions of a file in an example, in which the lines of only the first begin with -, and those
// of only the second with +.
func versions(example string) (first, second string) {
	version := func(mark string) string {
		return markForm.ReplaceAllStringFunc(example, func(line string) string {
			if parts := markForm.FindStringSubmatch(line); parts[2] == mark {
				return parts[1] + parts[3]
			}
			return ""
		})
	}
	return version("-"), version("+")
}

// marked returns text with a mark for [versions] on every line.
func marked(mark, text string) string {
	return regexp.MustCompile(`(?m)^( *)(.)`).ReplaceAllString(text, "${1}"+mark+"${2}")
}

const (
	// Bucket are the fields that every limit has.
	Bucket = "kind: token bucket\n    rate: 10\n    period: 1m"
	// Valid is a file with one limit.
	Valid = "version: 1\nlimits:\n  sendMessage:\n    " + Bucket + "\n"
	// twoLimits is a file with two limits.
	twoLimits = Valid + "  signUp: {kind: fixed window, rate: 100, period: 1h}\n"
	// postGroup is a group of both.
	postGroup = "groups:\n  post:\n    takes: [sendMessage, signUp]\n"
)

// LimitOf returns a file with one limit, which has the given lines.
func LimitOf(lines ...string) string {
	return "version: 1\nlimits:\n  sendMessage:\n    " + strings.Join(lines, "\n    ") + "\n"
}

// renamed is an example with two names of one limit.
func renamed(first, second string) string {
	return strings.Replace(Valid, "  sendMessage:\n", "  -"+first+":\n  +"+second+":\n", 1)
}

// Planned returns a file with two plans and one limit, which has the given lines and a period.
func Planned(lines ...string) string {
	return strings.Replace(LimitOf(append(append([]string{"kind: token bucket"}, lines...), "period: 1m")...), "limits:",
		"plans: [free, pro]\nlimits:", 1)
}

// Windowed is Planned with a fixed window.
func Windowed(lines ...string) string {
	return strings.Replace(Planned(lines...), "token bucket", "fixed window", 1)
}

// replanned is an example with two lists of plans, whose limit has the given lines.
func replanned(first, second string, lines ...string) string {
	return strings.Replace(Planned(lines...), "plans: [free, pro]\n", "-plans: "+first+"\n+plans: "+second+"\n", 1)
}
