package render

import (
	_ "embed"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
)

// WriteJSON prints the review as one JSON document, which [Schema] describes.
func WriteJSON(w io.Writer, r *review.Review, _ Options) error {
	document := jsonReview{Version: 1, Old: r.Old, New: r.New, Remark: r.Remark, Limits: []jsonSubject{}}
	for i := range r.Subjects {
		document.Limits = append(document.Limits, subjectAsJSON(&r.Subjects[i]))
	}
	return encodeJSON(w, document)
}

// These types mirror [review.Review]. Lists are never null, so that programs can iterate over them without a check.
type (
	jsonReview struct {
		Version int           `json:"version"`
		Old     string        `json:"old"`
		New     string        `json:"new"`
		Remark  string        `json:"remark,omitempty"`
		Limits  []jsonSubject `json:"limits"`
	}
	jsonSubject struct {
		Limit    string             `json:"limit"`
		Group    string             `json:"group,omitempty"`
		Classes  []review.Class     `json:"classes"`
		Old      *diag.Pos          `json:"old"`
		New      *diag.Pos          `json:"new"`
		Per      []string           `json:"per"`
		Findings []jsonFinding      `json:"findings"`
		Risks    []review.Risk      `json:"risks"`
		Numbers  []jsonNumber       `json:"numbers"`
		Notes    []review.Note      `json:"notes"`
		SQL      []review.Statement `json:"sql"`
	}
	jsonFinding struct {
		ID      string         `json:"id"`
		URL     string         `json:"url"`
		Classes []review.Class `json:"classes"`
		Changes []jsonChange   `json:"changes"`
	}
	jsonChange struct {
		Plan    string         `json:"plan,omitempty"`
		Field   string         `json:"field"`
		Classes []review.Class `json:"classes"`
		Old     *jsonSide      `json:"old"`
		New     *jsonSide      `json:"new"`
	}
	jsonSide struct {
		Value    string   `json:"value"`
		Given    bool     `json:"given"`
		Position diag.Pos `json:"position"`
	}
	jsonNumber struct {
		Plan string `json:"plan,omitempty"`
		Name string `json:"name"`
		Unit string `json:"unit"`
		Old  any    `json:"old"`
		New  any    `json:"new"`
	}
)

func subjectAsJSON(s *review.Subject) jsonSubject {
	// append makes an empty list of a nil one, which would be encoded as null.
	subject := jsonSubject{
		Limit: s.Limit, Group: s.Group, Classes: s.Classes(), Old: posAsJSON(s.Old), New: posAsJSON(s.New), Per: append([]string{}, s.Per...),
		Findings: []jsonFinding{}, Risks: append([]review.Risk{}, s.Risks...), Numbers: []jsonNumber{}, Notes: append([]review.Note{}, s.Notes...), SQL: append([]review.Statement{}, s.SQL...),
	}
	for _, f := range s.Findings {
		finding := jsonFinding{f.Kind.ID, ids.Address(f.Kind.ID), f.Classes(), []jsonChange{}}
		for _, c := range f.Changes {
			finding.Changes = append(finding.Changes, jsonChange{c.Plan, c.Field, c.Classes, sideAsJSON(c.Old), sideAsJSON(c.New)})
		}
		subject.Findings = append(subject.Findings, finding)
	}
	for _, n := range s.Numbers {
		subject.Numbers = append(subject.Numbers, jsonNumber{n.Plan, n.Name, n.Unit, numberJSON(n.Old), numberJSON(n.New)})
	}
	return subject
}

// numberJSON returns a word if there is no bound, because JavaScript would round [math.MaxInt64].
func numberJSON(value *int64) any {
	switch {
	case value == nil:
		return nil
	case review.IsUnbounded(*value):
		return review.Unbounded
	}
	return *value
}

func posAsJSON(at diag.Pos) *diag.Pos {
	if at == (diag.Pos{}) {
		return nil
	}
	return &at
}

func sideAsJSON(side diff.Side) *jsonSide {
	at := posAsJSON(side.Pos)
	if at == nil {
		return nil
	}
	return &jsonSide{side.Value, side.Given, *at}
}

//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft-07) of what [WriteJSON] prints, indented. Later versions of the program
// may add properties. They remove or change properties only together with the number in version.
func Schema() []byte {
	// The ids are on lines of their own.
	return []byte(strings.Replace(schema, "$id", strings.Join(ids.OfChanges(), "\",\n            \""), 1))
}
