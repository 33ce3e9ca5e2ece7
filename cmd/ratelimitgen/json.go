package main

import (
	"encoding/json"
	"io"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// The answer of check as JSON. Lines and columns count from 1, columns count runes, and an end is the
// first rune that no longer belongs to what is wrong. Lists are never null.
type (
	jsonAnswer struct {
		Version     int              `json:"version"`
		Diagnostics []jsonDiagnostic `json:"diagnostics"`
	}
	jsonDiagnostic struct {
		ID string `json:"id"`
		jsonNote
		Help  string     `json:"help"`
		Notes []jsonNote `json:"notes"`
	}
	jsonNote struct {
		File    string  `json:"file"`
		Start   jsonPos `json:"start"`
		End     jsonPos `json:"end"`
		Message string  `json:"message"`
	}
	jsonPos struct {
		Line   int `json:"line"`
		Column int `json:"column"`
	}
)

func writeJSON(w io.Writer, found []spec.Diagnostics) error {
	answer := jsonAnswer{Version: 1, Diagnostics: []jsonDiagnostic{}}
	for _, diagnostics := range found {
		for _, d := range diagnostics {
			answer.Diagnostics = append(answer.Diagnostics, diagnosticAsJSON(d))
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(answer)
}

func diagnosticAsJSON(d spec.Diagnostic) jsonDiagnostic {
	notes := []jsonNote{}
	for _, n := range d.Notes {
		notes = append(notes, jsonNote{d.File, jsonPos(n.Pos), jsonPos(n.End), n.Message})
	}
	return jsonDiagnostic{d.ID, jsonNote{d.File, jsonPos(d.Pos), jsonPos(d.End), d.Message}, d.Help, notes}
}
