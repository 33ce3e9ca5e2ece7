package review

import (
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// headings returns the classes that the review has, each with the names of its subjects.
func (r *Review) headings() (classes []Class, names map[Class][]string) {
	names = map[Class][]string{}
	for i := range r.Subjects {
		for _, class := range r.Subjects[i].Classes() {
			names[class] = append(names[class], r.Subjects[i].name())
		}
	}
	for _, class := range Classes() {
		if len(names[class]) > 0 {
			classes = append(classes, class)
		}
	}
	return classes, names
}

// unchanged is said of files without changes.
const unchanged = "No limit has changed."

// party says whose the numbers of the subject are.
func (s *Subject) party() string {
	if len(s.Per) == 0 {
		return "all callers together"
	}
	return "one " + spec.List(s.Per, "and")
}

// name is what the subject is called.
func (s *Subject) name() string {
	if s.Limit == "" {
		return "the file"
	}
	return clip(s.Limit)
}

// value returns one side of a change on one line, without what could move the cursor.
func value(c spec.Change, side spec.Side) string {
	text := side.Value
	if c.Field == "rate" || c.Field == "capacity" || c.Field == "maxReserved" {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			text = spec.Grouped(n)
		}
	}
	if text == "" {
		return absent(c, side)
	}
	return oneLine(text)
}

// absent says what holds where there is no value to write.
func absent(c spec.Change, side spec.Side) string {
	switch {
	case c.Field == "":
		return ""
	case c.Field == "maxReserved":
		return "as many as callers like"
	case c.Field == "key":
		return "shared by all"
	case c.Field == "start" && side.Limit.Policy.Kind.String() == "token bucket":
		return "no windows"
	case c.Field == "start":
		return "each key's own"
	case c.Field == "timeout":
		return "the caller's"
	case c.Field == "durability":
		return "as the database is set up"
	}
	return "none"
}

// oneLine returns text with a space for each run of white space, and without what cannot be seen.
func oneLine(text string) string {
	if isPlain(text) {
		return text
	}
	return printable.Mask(strings.Join(strings.Fields(text), " "))
}

// isPlain reports whether a text is words in ASCII with one space between them.
func isPlain(text string) bool {
	space := true
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' || c == ' ' && space {
			return false
		}
		space = c == ' '
	}
	return text == "" || !space
}

// longestValue is how many runes of a value are shown.
const longestValue = 160

func clip(text string) string {
	if len(text) <= longestValue {
		return text
	}
	if runes := []rune(text); len(runes) > longestValue {
		return string(runes[:longestValue-1]) + "…"
	}
	return text
}

// some returns the first few names, and how many more there are.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + spec.Grouped(int64(len(names)-most)) + " more"
}
