// Package gen generates the Go source of the limits of a file.
//
// [Generate] is a function from a [spec.File] to bytes: it uses no disk, clock or environment, and the same file gives the
// same bytes. The generated code is names and data: a method for each limit, and the policy that the method passes to
// package runtime/limiter. The handles of that package have all verbs.
//
// # Guarantees
//
// The source is formatted. Text of the author cannot end its comment or become a directive, and names of the author
// cannot hide names that the source needs.
//
// # Non-guarantees
//
// The types of keys may not exist: the Go compiler reports that.
package gen

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Generate returns the Go source for the limits of f, as gofmt would write it.
//
// The error is [ErrNoPackage] or describes an invalid name in o. Any other is a bug in this package.
func Generate(f *spec.File, o Options) ([]byte, error) {
	if o.Package == "" {
		o.Package = f.Package
	}
	if o.Source == "" {
		o.Source = f.Name
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	var source bytes.Buffer
	if err := newSource(f, o).Render(&source); err != nil {
		return nil, bug(err)
	}
	formatted, err := format.Source(groupImports(source.Bytes()))
	if err != nil {
		return nil, bug(err)
	}
	return formatted, nil
}

// bug marks an error as ours.
func bug(err error) error {
	// The error of the printer contains the whole source.
	text, _, _ := strings.Cut(err.Error(), " while formatting source:")
	return fmt.Errorf("generated code is not valid Go: %s; this is a bug in ratelimitgen, please report it with the file", text)
}

// newSource declares everything in the order in which people read it.
func newSource(f *spec.File, o Options) *jen.File {
	names := namesFor(f, o.ImportPath)
	file := jen.NewFile(o.Package)
	// Generate formats once, after the imports are grouped.
	file.NoFormat = true
	names.register(file)
	if slices.ContainsFunc(f.Limits, needsZoneData) {
		// The machine that runs the program may have no zones, as containers without an operating system do.
		file.Anon(tzdataPath)
	}
	declareFrame(file, names, f, o)
	declareLimits(file, names, f)
	declarePlans(file, f.Plans)
	names.declareAlternatives(file, f.Limits)
	for _, limit := range f.Limits {
		declareLimit(file, names, limit)
	}
	for _, group := range f.Groups {
		declareGroup(file, names, group)
	}
	declareCatalog(file, f)
	return file
}

// needsZoneData reports whether a limit has a time zone other than UTC.
func needsZoneData(l *spec.Limit) bool {
	c := l.Policy.Calendar
	return c.ZonePerKey || c.Zone != "" && c.Zone != "UTC"
}
