package render

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
)

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
		for _, k := range s.Risks {
			lines = append(lines, form(NameOf(s))+": "+riskInWords(s, k))
		}
	}
	if more := len(all) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %s more, below", words.Count(int64(more), "limit")))
	}
	return lines
}

// riskInWords says what happens, and whether SQL averts it.
func riskInWords(s *review.Subject, k review.Risk) string {
	text := ""
	switch k.Kind {
	case review.Refused:
		text = "the new version refuses every request"
	case review.OverridesLost:
		text = "blocks and overrides in force end with the deploy"
	case review.Unlimited:
		text = "requests are no longer limited"
		if s.Removed() {
			text = "the limit is gone, and nothing limits its requests"
		}
	case review.CountsLost:
		text = "every key starts full"
	}
	if k.Plan != "" {
		text = "plan " + k.Plan + ": " + text
	}
	if k.Averted {
		text += ", unless the SQL runs"
	}
	return text
}
