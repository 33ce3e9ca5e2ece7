package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

func checkCommand() command {
	return command{
		name:    "check",
		args:    "[FILE...]",
		summary: "report the errors in a limits.yaml, and code that is out of date with it",
		help: `FILE defaults to limits.yaml; - is standard input. A directory is the limits.yaml in it, and
DIRECTORY/... all files of that name in and below it, except in directories that Go ignores. The
text format prints nothing for a valid file. The exit code is 1 if there is an error in a file, or
code beside it that was generated from it is out of date; generate -check compares code elsewhere.
`,
		prepare: prepareCheck,
	}
}

func prepareCheck(flags *flag.FlagSet) action {
	var format, color choice
	format.declareFormat(flags, "text", "json", "github")
	color.declareColor(flags)
	return func(s streams, args []string) error {
		if len(args) == 0 {
			args = []string{defaultFile}
		}
		paths, err := filesIn(args)
		if err != nil {
			return err
		}
		found, outdated, unreadable := checkAll(paths)
		if err := writeFindings(s, found, outdated, format.value, color.color(s.out)); err != nil {
			return err
		}
		// Exit code 3 wins over 1: a file that could not be read may be valid or not.
		if unreadable == nil && len(found)+len(outdated) > 0 {
			return checkFailed{}
		}
		return unreadable
	}
}

// checkAll checks all files, also those after one that cannot be read, and the code beside those that are valid.
func checkAll(paths []string) (found []diag.Diagnostics, outdated []stale, unreadable error) {
	for _, path := range paths {
		file, diagnostics, err := readLimits(path)
		if len(diagnostics) > 0 {
			found = append(found, diagnostics)
		} else if err == nil && path != standardInput {
			var beside []stale
			beside, err = staleBeside(path, file)
			outdated = append(outdated, beside...)
		}
		unreadable = errors.Join(unreadable, err)
	}
	return found, outdated, unreadable
}

func writeFindings(s streams, found []diag.Diagnostics, outdated []stale, format string, color bool) error {
	switch format {
	case "json":
		return writeJSON(s.json, found, outdated)
	case "github":
		return writeAnnotations(s.data, found, outdated)
	}
	for _, diagnostics := range found {
		if err := diagnostics.WriteText(s.out, color); err != nil {
			return err
		}
	}
	for _, f := range outdated {
		if _, err := fmt.Fprintln(s.out, f); err != nil {
			return err
		}
	}
	return nil
}

// The output of check as JSON. Lines and columns count from 1, columns count runes, and an end is exclusive. Lists
// are never null.
type (
	jsonOutput struct {
		Version int `json:"version"`
		// Errors is how many there are; of more than 100 in a file, Diagnostics has some.
		Errors      int              `json:"errors"`
		Diagnostics []jsonDiagnostic `json:"diagnostics"`
		// Stale is the generated files that are out of date.
		Stale []jsonStale `json:"stale"`
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

func writeJSON(w io.Writer, found []diag.Diagnostics, outdated []stale) error {
	all := jsonOutput{Version: 1, Diagnostics: []jsonDiagnostic{}, Stale: []jsonStale{}}
	for _, f := range outdated {
		all.Stale = append(all.Stale, jsonStale{f.path, f.path + " " + f.problem, f.remedy})
	}
	for _, diagnostics := range found {
		all.Errors += diagnostics.Errors()
		for _, d := range diagnostics {
			all.Diagnostics = append(all.Diagnostics, diagnosticAsJSON(d))
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // messages contain < and >, and nothing here becomes HTML
	encoder.SetIndent("", "  ")
	return encoder.Encode(all)
}

func diagnosticAsJSON(d diag.Diagnostic) jsonDiagnostic {
	notes := []jsonNote{}
	for _, n := range d.Notes {
		notes = append(notes, jsonNote{d.File, n.Pos, n.End, n.Message})
	}
	return jsonDiagnostic{d.ID, ids.Address(d.ID), jsonNote{d.File, d.Pos, d.End, d.Message}, d.Help, notes}
}

// writeAnnotations prints diagnostics as annotations.
func writeAnnotations(w io.Writer, found []diag.Diagnostics, outdated []stale) error {
	text := ""
	for _, diagnostics := range found {
		for _, d := range diagnostics {
			// endColumn is inclusive, whereas the end of a diagnostic is exclusive.
			place := fmt.Sprintf("line=%d,col=%d,endColumn=%d", d.Pos.Line, d.Pos.Column, max(d.Pos.Column, d.End.Column-1))
			text += annotation("error", d.ID, d.File, place, inLines(d))
		}
	}
	for _, f := range outdated {
		text += annotation("error", "stale code", f.path, "line=1", f.String())
	}
	_, err := io.WriteString(w, text)
	return err
}

// inLines returns a diagnostic with its help and notes.
func inLines(d diag.Diagnostic) string {
	message := d.Message
	if d.Help != "" {
		message += "\n" + d.Help
	}
	for _, n := range d.Notes {
		message += fmt.Sprintf("\nline %d: %s", n.Pos.Line, n.Message)
	}
	if d.More > 0 {
		message += fmt.Sprintf("\nThe file has %d more errors.", d.More)
	}
	return message + "\n" + ids.Address(d.ID)
}

// annotation returns a workflow command, which GitHub Actions shows as an annotation at a place in a file.
// See https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
func annotation(level, title, file, place, message string) string {
	return fmt.Sprintf("::%s title=%s,file=%s,%s::%s\n", level, escapedProperty("ratelimitgen "+title),
		escapedProperty(inWorkspace(file)), place, escaped(message))
}

// inWorkspace returns a path relative to the root of the repository, because annotations of other paths are not
// shown beside the code.
func inWorkspace(path string) string {
	absolute, err := filepath.Abs(filepath.FromSlash(path))
	if err != nil {
		return path
	}
	inside, err := filepath.Rel(os.Getenv("GITHUB_WORKSPACE"), absolute)
	if err != nil {
		return path
	}
	return filepath.ToSlash(inside)
}

// escaped returns text that cannot end the workflow command it is part of, or begin another.
func escaped(text string) string {
	text = strings.ReplaceAll(printable.Text(text), "##[", `##\x5b`) // the older form of workflow commands
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// escapedProperty is escaped for the properties before the message, which colons and commas separate.
func escapedProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escaped(text))
}

// staleBeside returns the files beside a limits.yaml that were generated from it and have another code now. Code in other
// directories is compared by generate -check, which knows where it is.
func staleBeside(source string, file *spec.File) (found []stale, err error) {
	files, err := generatedIn(filepath.Dir(source))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.source != filepath.Base(source) {
			continue
		}
		a := generateArgs{source: source, output: f.path, pkg: packageOf(f.path)}
		code, err := a.code(file)
		if err != nil {
			return nil, err
		}
		now, err := readOutput(f.path)
		if err != nil {
			return nil, err
		}
		for _, other := range files {
			if other.source != f.source && other.sourceExists() {
				found = append(found, a.orphaned(other))
			}
		}
		if problem := a.problem(now, code); problem != "" {
			// The remedy names the package only where it would be another one without it.
			unnamed := generateArgs{source: source, output: f.path}
			if name, err := unnamed.packageName(file); err == nil && name == a.pkg {
				a.pkg = ""
			}
			found = append(found, stale{shown(f.path), problem, a.remedy(now)})
		}
	}
	return found, nil
}
