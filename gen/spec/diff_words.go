package spec

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// Grouped is [words.Number].
func Grouped(n int64) string { return words.Number(n) }

// PeriodInWords is [words.Period].
func PeriodInWords(period time.Duration) string { return words.Period(period) }

// Duration is [words.Duration].
func Duration(d time.Duration) string { return words.Duration(d) }

// List is [words.List].
func List(items []string, conjunction string) string { return words.List(items, conjunction) }
