package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// WriteJSON prints the review as one JSON document, which [Schema] describes. It returns the error of w.
func WriteJSON(r *review.Review, w io.Writer) error {
	document := jsonReview{Version: 1, Old: r.Old, New: r.New, Remark: r.Remark, Limits: []jsonSubject{}}
	for i := range r.Subjects {
		document.Limits = append(document.Limits, subjectAsJSON(&r.Subjects[i]))
	}
	return writeJSON(w, document)
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // values such as "a -> b" stay readable
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
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
		Limit    string          `json:"limit"`
		Group    string          `json:"group,omitempty"`
		Classes  []review.Class  `json:"classes"`
		Old      *jsonPos        `json:"old"`
		New      *jsonPos        `json:"new"`
		Per      []string        `json:"per"`
		Findings []jsonFinding   `json:"findings"`
		Numbers  []jsonNumber    `json:"numbers"`
		Notes    []jsonNote      `json:"notes"`
		SQL      []jsonStatement `json:"sql"`
	}
	jsonFinding struct {
		ID      string         `json:"id"`
		URL     string         `json:"url"`
		Classes []review.Class `json:"classes"`
		Changes []jsonChange   `json:"changes"`
	}
	jsonChange struct {
		Plan  string    `json:"plan,omitempty"`
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
		Plan string `json:"plan,omitempty"`
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

func subjectAsJSON(s *review.Subject) jsonSubject {
	// append makes an empty list of a nil one, which would be encoded as null.
	subject := jsonSubject{
		Limit: s.Limit, Group: s.Group, Classes: s.Classes(), Old: posAsJSON(s.Old), New: posAsJSON(s.New), Per: append([]string{}, s.Per...),
		Findings: []jsonFinding{}, Numbers: []jsonNumber{}, Notes: []jsonNote{}, SQL: []jsonStatement{},
	}
	for _, f := range s.Findings {
		finding := jsonFinding{f.Kind.ID, rules.Address(f.Kind.ID), f.Classes, []jsonChange{}}
		for _, c := range f.Changes {
			finding.Changes = append(finding.Changes, jsonChange{c.Plan, c.Field, sideAsJSON(c.Old), sideAsJSON(c.New)})
		}
		subject.Findings = append(subject.Findings, finding)
	}
	for _, n := range s.Numbers {
		subject.Numbers = append(subject.Numbers, jsonNumber{n.Plan, n.Name, n.Unit, numberJSON(n, n.Old), numberJSON(n, n.New)})
	}
	for _, n := range s.Notes {
		subject.Notes = append(subject.Notes, jsonNote(n))
	}
	for _, q := range s.SQL {
		subject.SQL = append(subject.SQL, jsonStatement(q))
	}
	return subject
}

// numberJSON returns a word if there is no bound, because JavaScript would round [math.MaxInt64].
func numberJSON(n review.Number, value *int64) any {
	switch {
	case value == nil:
		return nil
	case n.IsUnbounded(*value):
		return review.Unbounded
	}
	return *value
}

func posAsJSON(at diag.Pos) *jsonPos {
	if at == (diag.Pos{}) {
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

// Schema returns the JSON Schema (draft-07) of what [WriteJSON] prints, indented. Later versions of the program
// may add properties. They remove or change properties only together with the number in version.
func Schema() []byte {
	schema := record("What an edit of limits.yaml means.", object{
		"version": object{"const": 1},
		"old":     text("The name of the old file."),
		"new":     text("The name of the new file."),
		"limits":  list("The limits that changed, in the order of the new file. The file itself comes first, with an empty name, and removed limits come last; then the same for groups.", ref("limit")),
	})
	// The remark is added afterwards because a record requires all its properties.
	schema["properties"].(object)["remark"] = text("A sentence about the files, such as that one was moved. Most reviews do not have it.")
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = "A review of rate limits"
	schema["definitions"] = definitions()
	schema["definitions"].(object)["limit"].(object)["properties"].(object)["group"] = text("The name of the group that changed; limit is then empty. A limit does not have it.")
	optional := text("The plan, by its new name; absent if it holds for all plans.")
	for _, of := range [][]string{{"definitions", "number"}, {"definitions", "finding", "properties", "changes", "items"}} {
		owner := schema
		for _, name := range of {
			owner = owner[name].(object)
		}
		owner["properties"].(object)["plan"] = optional
	}
	var out bytes.Buffer
	if err := writeJSON(&out, schema); err != nil {
		panic(fmt.Sprintf("review: the schema is not JSON: %v", err))
	}
	return out.Bytes()
}

func definitions() object {
	return object{
		"limit": record("A limit that changed.", object{
			"limit":    text("The name of the limit, the new one if it was renamed."),
			"classes":  list("The classes of all its findings.", ref("class")),
			"old":      orNull("The position of the limit's name in the old file.", ref("position")),
			"new":      orNull("The position of the limit's name in the new file.", ref("position")),
			"per":      list("The parts of the key: the numbers hold for one value of them. It is empty if all callers share one count.", object{"type": "string"}),
			"findings": list("The changes, grouped by their ids.", ref("finding")),
			"numbers":  list("The bounds of the rule for one key.", ref("number")),
			"notes": list("The effects of the changes.", record("An effect.", object{
				"about": object{"enum": []string{review.Deploy, review.Calls, review.Rule, review.RemovedRule}}, "text": text("The effect, in sentences."),
			})),
			"sql": list("Statements that adapt stored rows to the edit.", record("A statement.", object{
				"why": text("What the statement is for, and when to run it."), "text": text("The statement."),
			})),
		}),
		"finding": record("The changes with one id.", object{
			"id":      object{"enum": changeIDs()},
			"url":     text("The address of a page about the id."),
			"classes": list("The classes of the changes, at least one.", ref("class")),
			"changes": list("One for each field.", record("A change.", object{
				"field": text("The field; empty for a limit that was added, removed or renamed."),
				"old":   orNull("The value before.", ref("side")),
				"new":   orNull("The value now.", ref("side")),
			})),
		}),
		"side": record("One side of a change.", object{
			"value":    text("The effective value, in the syntax of limits.yaml; empty if there is no value."),
			"given":    object{"type": "boolean", "description": "Whether the file contains the value. Otherwise it is a default."},
			"position": ref("position"),
		}),
		"number": record("A bound of the rule.", object{
			"name": text("What is bounded, such as in any minute."),
			"unit": object{"enum": []string{review.Tokens, review.Nanoseconds}},
			"old":  orNull("The value before; null if the number does not apply.", ref("amount")),
			"new":  orNull("The value now; null if the number does not apply.", ref("amount")),
		}),
		"amount": object{"anyOf": []any{object{"type": "integer"}, object{"const": review.Unbounded}}},
		"position": record("A position in a file. Lines and columns count from 1, and columns count runes.", object{
			"line": object{"type": "integer", "minimum": 1}, "column": object{"type": "integer", "minimum": 1},
		}),
		"class": object{"enum": review.Classes()},
	}
}

func changeIDs() (ids []string) {
	for _, kind := range spec.ChangeKinds() {
		ids = append(ids, kind.ID)
	}
	return ids
}

// object is a part of a JSON Schema.
type object = map[string]any

// record describes an object in which every property is required.
func record(description string, properties object) object {
	required := []string{}
	for name := range properties {
		required = append(required, name)
	}
	slices.Sort(required)
	return object{"type": "object", "description": description, "properties": properties, "required": required}
}

func text(description string) object { return object{"type": "string", "description": description} }

func list(description string, of object) object {
	return object{"type": "array", "description": description, "items": of}
}

func orNull(description string, of object) object {
	return object{"anyOf": []any{of, object{"type": "null"}}, "description": description}
}

func ref(definition string) object { return object{"$ref": "#/definitions/" + definition} }
