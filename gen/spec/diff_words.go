package spec

import "time"

// Grouped writes a number as people read it: 40,000.
func Grouped(n int64) string { return grouped(n) }

// PeriodInWords says a period as people do after "per": minute, 90 seconds, 2 weeks.
func PeriodInWords(period time.Duration) string { return periodInWords(period) }

// List joins words as in "a, b and c".
func List(words []string, last string) string { return list(words, last) }
