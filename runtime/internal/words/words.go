// Package words writes numbers, durations and lists of names for people.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxNames is how many limits a message names: a call of thousands of them must not make a message of a megabyte.
const maxNames = 5

// Quoted returns names in quotes, each once, with a separator. Of many, it returns the first and how many others there
// are.
func Quoted(names []string, separator string) string {
	seen := map[string]bool{}
	var first []string
	for _, name := range names {
		if !seen[name] && len(first) < maxNames {
			first = append(first, strconv.Quote(name))
		}
		seen[name] = true
	}
	text := strings.Join(first, separator)
	if more := len(seen) - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Rough rounds a duration up to what a person reads at a glance: to hours from 100 hours on, to minutes from an hour
// on, to seconds from a second on, and below to milliseconds.
func Rough(d time.Duration) string {
	unit := time.Millisecond
	switch {
	case d >= 100*time.Hour:
		// Hours alone, because the longest duration rounded up to hours is no duration any more.
		return fmt.Sprintf("%dh", (d-1)/time.Hour+1)
	case d >= time.Hour:
		unit = time.Minute
	case d >= time.Second:
		unit = time.Second
	}
	// Duration.String writes 1h as 1h0m0s.
	text := ((d + unit - 1) / unit * unit).String()
	if before, ok := strings.CutSuffix(text, "m0s"); ok {
		text = before + "m"
	}
	if before, ok := strings.CutSuffix(text, "h0m"); ok {
		text = before + "h"
	}
	return text
}

// Number returns n with its digits in groups of three: 40,000.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	start := len(text) % 3
	if start == 0 || text[:start] == "-" {
		start += 3
	}
	for i := start; i < len(text); i += 4 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Counted is "1 block" or "2 blocks".
func Counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
