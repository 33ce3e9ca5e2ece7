package render

import (
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
)

// longestValue is how many runes of a name or value are printed.
const longestValue = 160

// NameOf returns the limit's name, the group's with the word group, or words for the file itself.
func NameOf(s *review.Subject) string {
	switch {
	case s.Group != "":
		return "group " + words.Clip(s.Group, longestValue)
	case s.Limit == "":
		return "the file"
	}
	return words.Clip(s.Limit, longestValue)
}

// titleOf returns the name of the subject and its classes: "sendMessage: loosened".
func titleOf(s *review.Subject) string { return NameOf(s) + ": " + review.ClassList(s.Classes()) }

// namesByClass returns the classes that occur, and the names of their subjects.
func namesByClass(r *review.Review) (classes []review.Class, names map[review.Class][]string) {
	names = map[review.Class][]string{}
	for i := range r.Subjects {
		for _, class := range r.Subjects[i].Classes() {
			names[class] = append(names[class], NameOf(&r.Subjects[i]))
		}
	}
	for _, class := range review.Classes() {
		if len(names[class]) > 0 {
			classes = append(classes, class)
		}
	}
	return classes, names
}

func firstNames(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + words.Number(int64(len(names)-most)) + " more"
}

const risksHeading = "Read this first"

// risksOf returns a line for each risk, the worst first, with the names of subjects in a form.
func risksOf(r *review.Review, form func(name string) string) (lines []string) {
	const most = 40
	var all []*review.Subject
	for _, s := range r.BySeverity() {
		if len(s.Risks) > 0 {
			all = append(all, s)
		}
	}
	for _, s := range all[:min(most, len(all))] {
		for _, risk := range RisksOf(s) {
			lines = append(lines, form(NameOf(s))+": "+risk)
		}
	}
	if more := len(all) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %s more, below", words.Count(int64(more), "limit")))
	}
	return lines
}

// RisksOf returns what nobody should miss of a subject, a text each.
func RisksOf(s *review.Subject) []string {
	return words.Of(s.Risks, func(k review.Risk) string { return riskInWords(s, k) })
}

// riskInWords says what happens, and whether SQL averts it.
func riskInWords(s *review.Subject, k review.Risk) string {
	text := ""
	switch k.Kind {
	case review.Refused:
		text = "the new version refuses every request"
	case review.PlanUnknown:
		text = "the new version does not know it, so change the customers that have it before the deploy"
	case review.OverridesLost:
		text = "blocks and overrides in force end with the deploy"
	case review.Unlimited:
		text = "requests are no longer limited"
		if s.Removed() {
			text = "the limit is gone, and nothing limits its requests"
		}
	case review.CountsLost:
		text = "every key starts full: what was used is forgotten"
	}
	if k.Plan != "" {
		text = "plan " + k.Plan + ": " + text
	}
	if k.Averted {
		text += ", unless the SQL runs"
	}
	return text
}
