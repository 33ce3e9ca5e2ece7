package render

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
)

// Problems are the errors of files, and those of code that was generated from them.
type Problems struct {
	// Diagnostics has an element for each file that is not valid.
	Diagnostics []diag.Diagnostics
	// Stale is the generated files that are out of date.
	Stale []Stale
}

// Stale is a generated file that is out of date: the problem, the remedy, and how it differs, in whole lines or "".
type Stale struct{ Path, Problem, Remedy, Difference string }

// String returns the line that reports the file.
func (s Stale) String() string { return fmt.Sprintf("%s %s; %s", s.Path, s.Problem, s.Remedy) }

// WriteProblemsText prints problems for people, each diagnostic with its line of the file.
func WriteProblemsText(w io.Writer, p Problems, o Options) error {
	for _, diagnostics := range p.Diagnostics {
		if err := diagnostics.WriteText(w, o.Color); err != nil {
			return err
		}
	}
	for _, stale := range p.Stale {
		if _, err := fmt.Fprintf(w, "%v\n%s", stale, stale.Difference); err != nil {
			return err
		}
	}
	return nil
}

// The problems as JSON. Lines and columns count from 1, columns count runes, and an end is exclusive. Lists are never null.
type (
	jsonProblems struct {
		Version int `json:"version"`
		// Errors is how many there are; of more than 100 in a file, Diagnostics has some.
		Errors      int              `json:"errors"`
		Diagnostics []jsonDiagnostic `json:"diagnostics"`
		Stale       []jsonStale      `json:"stale"`
	}
	jsonStale struct {
		File    string `json:"file"`
		Message string `json:"message"`
		Help    string `json:"help"`
	}
	jsonDiagnostic struct {
		ID  string `json:"id"`
		URL string `json:"url"`
		jsonNote
		Help  string     `json:"help"`
		Notes []jsonNote `json:"notes"`
	}
	jsonNote struct {
		File    string   `json:"file"`
		Start   diag.Pos `json:"start"`
		End     diag.Pos `json:"end"`
		Message string   `json:"message"`
	}
)

// WriteProblemsJSON prints problems as one JSON document.
func WriteProblemsJSON(w io.Writer, p Problems, _ Options) error {
	all := jsonProblems{Version: 1, Diagnostics: []jsonDiagnostic{}, Stale: []jsonStale{}}
	for _, stale := range p.Stale {
		all.Stale = append(all.Stale, jsonStale{stale.Path, stale.Path + " " + stale.Problem, stale.Remedy})
	}
	for _, diagnostics := range p.Diagnostics {
		all.Errors += diagnostics.Errors()
		for _, d := range diagnostics {
			all.Diagnostics = append(all.Diagnostics, diagnosticAsJSON(d))
		}
	}
	return encodeJSON(w, all)
}

func diagnosticAsJSON(d diag.Diagnostic) jsonDiagnostic {
	notes := []jsonNote{}
	for _, n := range d.Notes {
		notes = append(notes, jsonNote{d.File, n.Pos, n.End, n.Message})
	}
	return jsonDiagnostic{d.ID, ids.Address(d.ID), jsonNote{d.File, d.Pos, d.End, d.Message}, d.Help, notes}
}

// encodeJSON prints an indented document in which values such as "a -> b" stay readable, because nothing becomes HTML.
func encodeJSON(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}
