package main

import (
	"errors"
	"flag"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func checkVerb() verb {
	return verb{
		name:  "check",
		args:  "[FILE...]",
		about: "say what is wrong with a limits.yaml",
		help: `FILE is limits.yaml if it is left out, and standard input if it is -. Nothing is printed as text for a valid
file. The exit code is 1 if there is anything wrong.
`,
		prepare: prepareCheck,
	}
}

func prepareCheck(flags *flag.FlagSet) action {
	var format, color choice
	format.declare(flags, "format", "answer in this `FORM`: text, json, or github (annotations in a workflow)", "text", "json", "github")
	color.declareColor(flags)
	return func(s streams, args []string) error {
		if len(args) == 0 {
			args = []string{defaultFile}
		}
		found, unreadable := checkAll(args)
		if err := writeDiagnostics(s, found, format.value, color.color(s.out)); err != nil {
			return err
		}
		if unreadable == nil && len(found) > 0 {
			return no{}
		}
		return unreadable
	}
}

// checkAll returns what is wrong with the files, and which of them could not be read.
func checkAll(paths []string) (found []spec.Diagnostics, unreadable error) {
	for _, path := range paths {
		_, diagnostics, err := readLimits(path)
		unreadable = errors.Join(unreadable, err)
		if len(diagnostics) > 0 {
			found = append(found, diagnostics)
		}
	}
	return found, unreadable
}

// writeDiagnostics prints the diagnostics of several files.
func writeDiagnostics(s streams, found []spec.Diagnostics, format string, color bool) error {
	switch format {
	case "json":
		return writeJSON(s.json, found)
	case "github":
		return writeAnnotations(s.data, found)
	}
	for _, diagnostics := range found {
		if err := diagnostics.WriteText(s.out, color); err != nil {
			return err
		}
	}
	return nil
}
