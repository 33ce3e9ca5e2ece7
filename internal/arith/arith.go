// Package arith has the arithmetic of instants in nanoseconds and of hashes that several packages share.
package arith

import (
	"math"
	"time"
)

// Add returns a+b for b >= 0, or the last instant if that overflows.
func Add(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}

// Mod returns a modulo m, which is at least 0 for instants before 1970 too.
func Mod(a, m int64) int64 {
	if r := a % m; r < 0 {
		return r + m
	} else {
		return r
	}
}

// Div returns a/m rounded down.
func Div(a, m int64) int64 {
	if a%m < 0 {
		return a/m - 1
	}
	return a / m
}

// Nanoseconds rounds up, and returns at most the longest duration.
func Nanoseconds(f float64) int64 {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Ceil(f))
}

// OfSeconds converts seconds to nanoseconds, or to the first or last instant if that overflows.
func OfSeconds(seconds int64) int64 {
	switch {
	case seconds > math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	case seconds < math.MinInt64/int64(time.Second):
		return math.MinInt64
	}
	return seconds * int64(time.Second)
}

// Hash is FNV-1a over name, a zero byte and key, with the finalizer of MurmurHash3. It must never change: the phase
// that it yields is part of the meaning of stored rows.
func Hash(name, key string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * prime
	}
	h *= prime // the zero byte: without it, "ab" and "c" would be "a" and "bc"
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	// The last bytes have changed few of the low bits, which a modulo by the period or the shards keeps.
	return Mix(h)
}

// Mix is the finalizer of MurmurHash3: each bit of h changes about half of the bits of the result.
func Mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Time returns an instant in nanoseconds since 1970 UTC as a time.
func Time(now int64) time.Time { return time.Unix(0, now).UTC() }

// Whole returns the whole tokens that can be taken. Because of the allowance, that is one more than the integer
// part if a rounding has kept the value just below a whole number.
func Whole(value, allowance float64) int64 {
	return max(0, int64(math.Floor(value+allowance)))
}

// Between returns the time from now to a later instant.
func Between(now, at int64) time.Duration {
	// The difference overflows if the clock shows an instant long before 1970.
	if wait := at - now; wait >= 0 {
		return time.Duration(wait)
	}
	return math.MaxInt64
}

func DaysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// MaxOffset is more than the clock of any zone has ever differed from UTC, in seconds. Windows are searched for up to it.
const MaxOffset = 16 * 60 * 60

// Offset returns how far the clock of a zone is ahead of UTC at an instant, both in seconds, and at most MaxOffset in
// either direction.
func Offset(zone *time.Location, at int64) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return min(max(int64(offset), -MaxOffset), MaxOffset)
}
