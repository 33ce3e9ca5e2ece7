package cells

import "strings"

// Line is how wide a line of text for people is at most.
const Line = 80

// Wrap breaks a text into lines of words, each after the indent. A word that is longer than a line stays whole.
func Wrap(text, indent string) string {
	var out strings.Builder
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && Of(indent+line+" "+word) > Line {
			out.WriteString(indent + line + "\n")
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return out.String() + indent + line + "\n"
}
