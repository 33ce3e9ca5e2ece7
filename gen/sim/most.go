package sim

import "slices"

// most returns the n greatest of the elements, the greatest first and equal ones in their order, in memory for n
// of them. n is at least 1.
func most[E any](all func(yield func(E) bool), n int, compare func(a, b E) int) []E {
	var top []E
	for e := range all {
		if len(top) == n && compare(e, top[n-1]) <= 0 {
			continue
		}
		i := slices.IndexFunc(top, func(other E) bool { return compare(e, other) > 0 })
		if i < 0 {
			i = len(top)
		}
		top = slices.Insert(top, i, e)
		top = top[:min(len(top), n)]
	}
	return top
}
