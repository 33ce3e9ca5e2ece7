package render

import (
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
)

// Parts is what changes of a subject, for pages with tables.
type Parts struct {
	Risks []string
	// Changes and Numbers are rows: what it is of, before, after, and the class or the ratio. Numbers are for a Holder, such as
	// "one userID".
	Changes, Numbers [][]string
	Holder           string
	Notes            []review.Note
	SQL              []review.Statement
}

// PartsOf returns what changes of a subject.
func PartsOf(s *review.Subject) *Parts {
	p := &Parts{Holder: words.Holder(s.Per), Risks: RisksOf(s), Notes: s.Notes, SQL: s.SQL}
	for _, f := range s.Findings {
		for _, c := range f.Changes {
			p.Changes = append(p.Changes, []string{fieldName(s, c.Change), shortValue(c.Change, c.Old), shortValue(c.Change, c.New), endOf(f, c)})
		}
	}
	for _, n := range s.ShownNumbers() {
		p.Numbers = append(p.Numbers, []string{n.Label(), numberCell(n, n.Old), numberCell(n, n.New), n.Ratio()})
	}
	return p
}
