package main

import (
	"cmp"
	"slices"
	"time"
)

// percentile returns the smallest of sorted that p percent of them do not exceed, and 0 of none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// median returns the middle of values, the lower one of two, and the zero value of none.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	values = slices.Sorted(slices.Values(values))
	return values[(len(values)-1)/2]
}
