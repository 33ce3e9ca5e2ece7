package review

import (
	"encoding/json"
	"io"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// The review as JSON, in the words of [Review]; [Schema] describes it. Lists are never null.
type (
	jsonReview struct {
		Version int           `json:"version"`
		Old     string        `json:"old"`
		New     string        `json:"new"`
		Remark  string        `json:"remark,omitempty"`
		Limits  []jsonSubject `json:"limits"`
	}
	jsonSubject struct {
		Limit    string          `json:"limit"`
		Classes  []Class         `json:"classes"`
		Old      *jsonPos        `json:"old"`
		New      *jsonPos        `json:"new"`
		Per      []string        `json:"per"`
		Findings []jsonFinding   `json:"findings"`
		Numbers  []jsonNumber    `json:"numbers"`
		Notes    []jsonNote      `json:"notes"`
		SQL      []jsonStatement `json:"sql"`
	}
	jsonFinding struct {
		ID      string       `json:"id"`
		Classes []Class      `json:"classes"`
		Changes []jsonChange `json:"changes"`
	}
	jsonChange struct {
		Field string    `json:"field"`
		Old   *jsonSide `json:"old"`
		New   *jsonSide `json:"new"`
	}
	jsonSide struct {
		Value    string  `json:"value"`
		Given    bool    `json:"given"`
		Position jsonPos `json:"position"`
	}
	jsonNumber struct {
		Name string `json:"name"`
		Unit string `json:"unit"`
		Old  any    `json:"old"`
		New  any    `json:"new"`
	}
	jsonNote struct {
		About string `json:"about"`
		Text  string `json:"text"`
	}
	jsonStatement struct {
		Why  string `json:"why"`
		Text string `json:"text"`
	}
	jsonPos struct {
		Line   int `json:"line"`
		Column int `json:"column"`
	}
)

// WriteJSON prints the review as one JSON document. It returns the error of w.
func (r *Review) WriteJSON(w io.Writer) error {
	answer := jsonReview{Version: 1, Old: r.Old, New: r.New, Remark: r.Remark, Limits: []jsonSubject{}}
	for i := range r.Subjects {
		answer.Limits = append(answer.Limits, subjectAsJSON(&r.Subjects[i]))
	}
	return writeJSON(w, answer)
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func subjectAsJSON(s *Subject) jsonSubject {
	subject := jsonSubject{
		Limit: s.Limit, Classes: s.Classes(), Old: posAsJSON(s.Old), New: posAsJSON(s.New), Per: append([]string{}, s.Per...),
		Findings: []jsonFinding{}, Numbers: []jsonNumber{}, Notes: []jsonNote{}, SQL: []jsonStatement{},
	}
	for _, f := range s.Findings {
		finding := jsonFinding{f.ID, f.Classes, []jsonChange{}}
		for _, c := range f.Changes {
			finding.Changes = append(finding.Changes, jsonChange{c.Field, sideAsJSON(c.Old), sideAsJSON(c.New)})
		}
		subject.Findings = append(subject.Findings, finding)
	}
	for _, n := range s.Numbers {
		subject.Numbers = append(subject.Numbers, jsonNumber{n.Name, n.Unit, n.json(n.Old), n.json(n.New)})
	}
	for _, n := range s.Notes {
		subject.Notes = append(subject.Notes, jsonNote(n))
	}
	for _, q := range s.SQL {
		subject.SQL = append(subject.SQL, jsonStatement(q))
	}
	return subject
}

// json returns a value as a number; a word for what has no bound, which no number says without a rounding.
func (n Number) json(value *int64) any {
	switch {
	case value == nil:
		return nil
	case n.boundless(*value):
		return unbounded
	}
	return *value
}

func posAsJSON(at spec.Pos) *jsonPos {
	if at == (spec.Pos{}) {
		return nil
	}
	return &jsonPos{at.Line, at.Column}
}

func sideAsJSON(side spec.Side) *jsonSide {
	at := posAsJSON(side.Pos)
	if at == nil {
		return nil
	}
	return &jsonSide{side.Value, side.Given, *at}
}
