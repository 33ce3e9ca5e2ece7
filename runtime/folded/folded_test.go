package folded

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

func TestString(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"Foo@Example.com", "foo@example.com"},
		{"ÉCOLE", "école"},
		{"E\u0301cole", "école"},         // decomposed
		{"\u212Bngstrom", "ångstrom"},    // the ångström sign
		{"\u212Aelvin", "kelvin"},        // the kelvin sign
		{"ΣΊΣΥΦΟΣ", "σίσυφοσ"},           // and its final sigma
		{"Σίσυφος", "σίσυφοσ"},           //
		{"ſhip", "ship"},                 // a long s
		{"STRASSE", "strasse"},           // is not straße
		{"STRAẞE", "straße"},             //
		{"straße", "straße"},             //
		{"\u00B5", "\u03BC"},             // the micro sign is the letter mu
		{"\u01C5", "\u01C6"},             // title case
		{"İ", "i\u0307"},                 // as Unicode's full folding
		{"ı", "ı"},                       //
		{"\uAB70\u13F8", "\u13A0\u13F0"}, // Cherokee has the upper case
		{"\u10D0\u1C90", "\u10D0\u10D0"}, // Georgian has not
		{"ﬁ", "ﬁ"},
		{" A ", " a "},
		{"A\xff\xc3É", "a\xff\xc3é"}, // not UTF-8
		{"\uFFFDA\x00", "\uFFFDa\x00"},
		// The capital has no composed form with the iota below, and the small one has.
		{"\u0391\u0301\u0345", "άι"},
		{"\u1FB4", "άι"},
		{"\u0391\u0345\u0301", "άι"},
	} {
		require.Equal(t, c.want, String(c.text), "%+q", c.text)
	}
}

// Every letter folds to the same one as its upper, lower and title case, unless Unicode has no folding between them.
func TestLettersFoldAsTheirOtherCases(t *testing.T) {
	for c := rune(0); c <= unicode.MaxRune; c++ {
		folded := letter(c)
		require.Equal(t, folded, letter(folded), "%U", c)
		for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
			require.Equal(t, folded, letter(other), "%U and %U", c, other)
			require.Equal(t, String("x"+string(c)), String("x"+string(other)), "%U and %U", c, other)
		}
		if utf8.ValidRune(c) {
			holds(t, string(c))
		}
	}
}

// FuzzString: the result is a fixed point, whose form does not depend on that of the text, nor on its case.
func FuzzString(f *testing.F) {
	for _, s := range []string{"Foo@X", "Ä\u0323\u0345", "\u0391\u0345\u0301", "\xc3Ä\xff", "ẞ\u1E9B\u0323", "\u1100\u1161\u11A8", "\u0344\u0F73"} {
		f.Add(s)
	}
	f.Fuzz(holds)
}

func holds(t *testing.T, s string) {
	got := String(s)
	require.Equal(t, got, String(got), "%+q", s)
	require.True(t, norm.NFC.IsNormalString(got), "%+q", s)
	require.Equal(t, utf8.ValidString(s), utf8.ValidString(got), "%+q", s)
	require.Equal(t, got, String(norm.NFC.String(s)), "%+q", s)
	require.Equal(t, got, String(norm.NFD.String(s)), "%+q", s)
	require.Equal(t, got, String(fold(norm.NFD.String(s))), "%+q", s)
}
