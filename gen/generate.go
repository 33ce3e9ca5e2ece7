// Package gen turns the limits of a file into Go source.
//
// [Generate] is a function from nouns to bytes: it knows no disk, no clock and no environment, and the
// same file gives the same bytes. What it writes is names and data: a method for each limit, and the
// policy that the method hands to package runtime, where all verbs live.
//
// It is guaranteed that the source is formatted, that what the author wrote cannot leave its comment, and
// that a name the author chose does not hide one that the source needs. It is not guaranteed that the
// types of keys exist: the Go compiler knows, and says so.
package gen

import (
	"bytes"
	"errors"
	"fmt"
	"go/build/constraint"
	"go/format"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Options say what the file itself does not.
type Options struct {
	// Package is the name of the generated package; the file's own if empty.
	Package string
	// Source is the path of the file that is named in the header, as seen from the directory of the
	// output and with slashes; the file's name if empty.
	Source string
}

// ErrNoPackage says that neither the file nor the options name the package.
var ErrNoPackage = errors.New("the package has no name")

// Generate returns the Go source for the limits of f, as gofmt would write it.
//
// The error is [ErrNoPackage], or says that a name in o cannot be used. Any other is a bug in this package.
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
	if err := unconstrained(formatted); err != nil {
		return nil, err
	}
	return formatted, nil
}

// unconstrained reports a source with a build constraint. None is ever meant, and it would remove the
// package from the build.
func unconstrained(source []byte) error {
	for line := range strings.Lines(string(source)) {
		if constraint.IsGoBuild(line) || constraint.IsPlusBuild(line) {
			return bug(fmt.Errorf("it has a build constraint, %q", line))
		}
	}
	return nil
}

func (o Options) check() error {
	switch {
	case o.Package == "":
		return ErrNoPackage
	case !spec.IsPackageName(o.Package):
		return fmt.Errorf("%q cannot be the name of a package", o.Package)
	case strings.ContainsAny(o.Source, "\t\n"), harmless(o.Source) != o.Source:
		return fmt.Errorf("the file name %q cannot stand in a comment", o.Source)
	}
	return nil
}

// bug says that an error is ours, and leaves out the source that a printer may have put into it.
func bug(err error) error {
	text, _, _ := strings.Cut(err.Error(), " while formatting source:")
	return fmt.Errorf("generated code is not valid Go: %s; this is a bug in ratelimitgen, please report it with the file", text)
}

// newSource puts the declarations in the order in which people read them.
func newSource(f *spec.File, o Options) *jen.File {
	names := namesFor(f)
	file := jen.NewFile(o.Package)
	file.NoFormat = true
	names.register(file)
	frame(file, o)
	declareLimits(file, names)
	for _, limit := range f.Limits {
		declareLimit(file, names, limit)
	}
	declarePolicies(file, f.Limits)
	return file
}
