// Package folded makes one text of those that differ in case only, for parts of keys that are of the type "folded
// string" in limits.yaml. Generated code imports it if the file has such a part: it links the tables of Unicode's
// normalization, which other programs do not need.
//
// Unicode never changes the case and the accents of a letter, but its versions add letters. A key with a new letter may be
// stored differently by programs of an older and a newer version of Go.
package folded

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// String returns s with Unicode's simple case folding, in Normalization Form C: "Foo@Example.com" is "foo@example.com".
// Texts of which one is the other in upper case, or in another normalization form, have the same result, also with
// several accents. The text is decomposed first, then folded, then composed: without the first step, an accent in the
// middle of a letter's accents could change the result, and without the last one the result would not be in that form.
// A second call changes nothing.
//
// Simple folding replaces a letter by one letter: "ß" and "ss" differ, and so do "ı" and "i" in each language.
// Compatibility forms such as "ﬁ" are kept, and so are spaces. Bytes that are not UTF-8 are kept too.
func String(s string) string {
	if isASCII(s) {
		return strings.ToLower(s) // it is in every normalization form
	}
	return norm.NFC.String(fold(norm.NFD.String(s)))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// fold replaces the letters. It is not strings.Map, which replaces bytes that are not UTF-8.
func fold(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		if c == utf8.RuneError && n == 1 {
			b.WriteByte(s[0])
		} else {
			b.WriteRune(letter(c))
		}
		s = s[n:]
	}
	return b.String()
}

// letter returns c after the mappings C and S of Unicode's CaseFolding.txt: its lower case, but for Cherokee, which had
// upper case first.
func letter(c rune) rune {
	least := c
	for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	switch {
	case unicode.SimpleFold(c) == c: // also İ and ı, which have a lower or an upper case and no folding
		return c
	case unicode.Is(unicode.Cherokee, c):
		return least
	}
	return unicode.ToLower(unicode.ToUpper(least))
}
