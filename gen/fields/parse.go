// Package fields has the fields of limits.yaml, and all that follows from them.
//
// A field is read from top to bottom in one file: its meaning, its schema, its reader, its check, and its sentences. Below
// them are the parts that fields have in common (field.go, draft.go, duration.go, number.go, word.go, byplan.go, callers.go,
// refusal.go), and above them what walks them all: [Parse], the [Schema] for editors, [Fields] for the reference in the
// README.md of package spec, [Sentences], and [Values] for package diff.
//
// # Guarantees
//
// No value is rounded or guessed, and no part of the file is ignored. Parse does not panic on any input. Every policy of
// a File passes runtime.Policy.Validate.
package fields

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// fileFields are the fields at the top of the file.
var fileFields = []fileField{
	versionField,
	packageField,
	plansField,
	defaultsField,
	limitsField,
	groupsField,
}

// Parse reads a limits.yaml. The name is used in messages only. It returns all errors of the file at once, of more
// than 100 the first ones; the File is nil if and only if it has errors.
func Parse(name string, src []byte) (*spec.File, diag.Diagnostics) {
	doc := document.New(diag.NewSource(name, string(src)))
	file := read(doc)
	if len(doc.Found) == 0 {
		return file, nil
	}
	// Errors are not found in the order of the file: those of groups come last, wherever the groups are.
	if len(doc.Found) > diag.MaxDiagnostics && !doc.Found.Described(diag.MaxDiagnostics) {
		doc = doc.Again()
		read(doc)
	}
	// Only now are the offers final: the field of a value may have dropped some of them.
	doc.Found.Suggest()
	return nil, doc.Found.First(diag.MaxDiagnostics)
}

// read reads a file. The document then has the diagnostics in the order of the file.
func read(doc *document.Document) *spec.File {
	p := newParser(doc)
	p.limitFields, p.defaultFields = names(limitFields), names(defaultFields)
	file := p.readFile()
	doc.Found.Sort()
	return file
}

func (p *parser) readFile() *spec.File {
	root := p.doc.Root()
	if root == nil {
		return nil
	}
	// Other diagnostics would be misleading: this version of the program does not have the rules of a future format.
	if version := laterVersion(root); version != nil {
		p.readVersion(nil, document.Entry{Name: "version", Value: version, At: p.doc.Source.At(version)})
		return nil
	}
	// This precedes the fields, whose readers skip the values that it reports.
	p.doc.RefuseIndirection(root)
	file := &spec.File{Name: p.doc.Source.Name}
	if entries, ok := p.doc.Entries(root, p.doc.Source.At(root), "the file", "begin with version: 1"); ok {
		// The limits refer to the plans and the defaults, wherever these are in the file.
		first := func(e document.Entry) bool { return e.Name == plansField.name || e.Name == defaultsField.name }
		others := slices.DeleteFunc(slices.Clone(entries), first)
		entries = slices.DeleteFunc(entries, func(e document.Entry) bool { return !first(e) })
		readFields(p, fileFields, file, append(entries, others...), p.doc.Source.At(root), p.doc.Complete(root))
		p.readGroups(file)
	}
	return file
}
