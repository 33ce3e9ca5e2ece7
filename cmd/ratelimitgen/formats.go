package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/gen/explain"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
)

// format is a format in which a command prints its document.
type format[T any] struct {
	name string
	// remark explains the name in the help, if it needs that.
	remark string
	// stream is where it is printed: people's text is escaped, and data is not.
	stream func(streams) io.Writer
	write  func(w io.Writer, document T, o render.Options) error
}

func forPeople(s streams) io.Writer { return s.out }
func asData(s streams) io.Writer    { return s.data }
func asJSON(s streams) io.Writer    { return s.json }

// The formats of each command, the default first. A new format is an entry here, and its renderer.
var (
	problemsFormats = []format[render.Problems]{
		{"text", "", forPeople, render.WriteProblemsText},
		{"json", "", asJSON, render.WriteProblemsJSON},
		{"github", githubRemark, asData, render.WriteProblemsGitHub},
	}
	reviewFormats = []format[*review.Review]{
		{"text", "", forPeople, render.WriteText},
		{"markdown", " (for a comment)", forPeople, render.WriteMarkdown},
		{"json", "", asJSON, render.WriteJSON},
		{"github", githubRemark, asData, render.WriteGitHub},
	}
	explainFormats = []format[[]explain.Page]{
		{"text", "", forPeople, explain.WriteTerminal},
	}
	simulateFormats = []format[simulation]{
		{"text", "", forPeople, writeSimulation},
		{"jsonl", " (an object per line)", asJSON, writeSimulationLines},
	}
)

const githubRemark = " (annotations in a workflow)"

// formatNames returns the names of formats.
func formatNames[T any](formats []format[T]) []string {
	return namesOf(formats, func(f format[T]) string { return f.name })
}

// formatChoice is the flag for the format of a document.
type formatChoice[T any] struct{ chosen format[T] }

// declare declares the flag, unless there is one format only.
func (c *formatChoice[T]) declare(flags *flag.FlagSet, formats []format[T]) {
	c.chosen = formats[0]
	if len(formats) == 1 {
		return
	}
	described := namesOf(formats, func(f format[T]) string { return f.name + f.remark })
	names := formatNames(formats)
	declareChoice(flags, "format", "print in this `FORMAT`: "+alternatives(described), names,
		func(i int) { c.chosen = formats[i] })
}

// write prints a document. The options need no Place.
func (c *formatChoice[T]) write(s streams, document T, o render.Options) error {
	o.Place = inWorkspace
	return c.chosen.write(c.chosen.stream(s), document, o)
}

// inWorkspace returns a path relative to the root of the repository of a workflow.
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
