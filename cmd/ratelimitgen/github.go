package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// writeAnnotations prints diagnostics as the commands that GitHub Actions turns into annotations.
func writeAnnotations(w io.Writer, found []spec.Diagnostics) error {
	for _, diagnostics := range found {
		for _, d := range diagnostics {
			if _, err := fmt.Fprintln(w, annotation(d)); err != nil {
				return err
			}
		}
	}
	return nil
}

func annotation(d spec.Diagnostic) string {
	message := d.Message
	if d.Help != "" {
		message += "\n" + d.Help
	}
	for _, n := range d.Notes {
		message += fmt.Sprintf("\nline %d: %s", n.Pos.Line, n.Message)
	}
	return fmt.Sprintf("::error title=%s,file=%s,line=%d,col=%d,endColumn=%d::%s",
		escapedProperty("ratelimitgen "+d.ID), escapedProperty(inWorkspace(d.File)),
		d.Pos.Line, d.Pos.Column, max(d.Pos.Column, d.End.Column-1), escaped(message))
}

// inWorkspace returns a path as seen from the root of the checked-out repository, as annotations have it.
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

// escaped writes a text so that it stays inside its command; escapedProperty does so for what stands
// between the commas.
func escaped(text string) string {
	text = strings.ReplaceAll(printable.Text(text), "##[", `##\x5b`)
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

func escapedProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escaped(text))
}
