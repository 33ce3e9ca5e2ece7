package spec

import (
	"strings"
)

// Nearest returns the word that was probably meant by what was written, or "" if none is near.
func Nearest(written string, words []string) string {
	best, least := "", 0
	for _, word := range words {
		d, ok := near(fold(written), fold(word))
		if ok && (best == "" || d < least) {
			best, least = word, d
		}
	}
	return best
}

// fold drops what people vary without meaning anything by it: case, and what separates words.
func fold(word string) []rune {
	return []rune(strings.NewReplacer("-", "", "_", "", " ", "", "\t", "").Replace(strings.ToLower(word)))
}

// near returns the distance of two words, and whether one can be a slip for the other: one edit, or one
// for every three runes.
func near(a, b []rune) (int, bool) {
	shorter, longer := min(len(a), len(b)), max(len(a), len(b))
	allowed := max(1, shorter/3)
	if longer-shorter > allowed {
		return 0, false
	}
	d := distance(a, b)
	return d, d <= allowed && d < shorter
}

// distance is how many runes must be inserted, dropped, replaced or swapped with their neighbour to make
// one word of the other (the optimal string alignment distance).
func distance(a, b []rune) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			swap := last[j]
			if a[i] != b[j] {
				swap++
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, swap)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
