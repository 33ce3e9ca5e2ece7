package diag

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// IdentifierForm matches an ASCII identifier of Go.
var IdentifierForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Longest is the most runes of the file that a message quotes.
const Longest = 48

// Clip shortens a text to at most [Longest] runes for a message.
func Clip(text string) string { return words.Clip(text, Longest) }

// Label returns a name from the file, in quotes unless it is an identifier.
func Label(name string) string {
	if IdentifierForm.MatchString(name) {
		return Clip(name)
	}
	return Quote(name)
}

// Quote returns a text in quotes, and points out a letter of another script, which may look like an ASCII letter.
func Quote(text string) string {
	quoted := strconv.Quote(Clip(text))
	if r, at, ok := lookAlike(text); ok {
		quoted += fmt.Sprintf(" (character %d is %U)", at, r)
	}
	return quoted
}

// lookAlike returns the first letter of another script in a text with ASCII letters, and its position, counted in
// characters from 1.
func lookAlike(text string) (r rune, at int, ok bool) {
	if strings.IndexFunc(text, func(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) }) < 0 {
		return 0, 0, false
	}
	for _, r := range text {
		if at++; r >= utf8.RuneSelf && unicode.IsLetter(r) && (!unicode.Is(unicode.Latin, r) || r >= '\uFF00') {
			return r, at, true
		}
	}
	return 0, 0, false
}

// OneLine returns a message without tabs and control characters, whatever the file contains.
func OneLine(text string) string { return strings.ReplaceAll(printable.Mask(text), "\t", " ") }

// Texts returns words as a file has them.
func Texts[T fmt.Stringer](known []T) []string {
	return words.Of(known, T.String)
}

// Named returns the known word that is text in lower case.
func Named[T fmt.Stringer](known []T, text string) (word T, ok bool) {
	i := slices.IndexFunc(known, func(w T) bool { return strings.ToLower(w.String()) == text })
	if i < 0 {
		return word, false
	}
	return known[i], true
}

// Nearest returns the word that a misspelled one probably means, or "" if no word is similar.
func Nearest(written string, list []string) string {
	best, least := "", 0
	folded := Fold(written)
	for _, word := range list {
		// A longer word is not offered, so that comparing it would be wasted.
		if len(word) > Longest && utf8.RuneCountInString(word) > Longest {
			continue
		}
		d, ok := near(folded, Fold(word))
		if ok && (best == "" || d < least) {
			best, least = word, d
		}
	}
	return best
}

// Fold drops differences that are not misspellings: case, and separators of words.
func Fold(word string) []rune {
	folded := make([]rune, 0, len(word))
	for _, r := range word {
		if !strings.ContainsRune("-_ \t", r) {
			folded = append(folded, unicode.ToLower(r))
		}
	}
	return folded
}

// near returns the distance of two words, and whether one can be a misspelling of the other: one edit, or one for every
// three runes.
func near(a, b []rune) (int, bool) {
	shorter, longer := min(len(a), len(b)), max(len(a), len(b))
	allowed := max(1, shorter/3)
	// The distance is at least the difference in length, which saves computing it for most words.
	if longer-shorter > allowed {
		return 0, false
	}
	d := distance(a, b)
	// If every rune differs, the words have nothing in common, however short they are.
	return d, d <= allowed && d < shorter
}

// distance returns how many runes must be inserted, dropped, replaced or swapped with their neighbour to turn one word
// into the other: the optimal string alignment distance.
func distance(a, b []rune) int {
	rows := make([]int, 3*(len(b)+1))
	before, last, row := rows[:len(b)+1], rows[len(b)+1:2*(len(b)+1)], rows[2*(len(b)+1):]
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			swap := last[j]
			if a[i] != b[j] {
				swap++
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, swap)
			// Swapped neighbours are one mistake, not two.
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
