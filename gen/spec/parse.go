// Package spec reads limits.yaml.
//
// [Parse] turns the bytes of the file into a [File] of [Limit] values with every default filled in, or into
// [Diagnostics]: all errors of the file, each with its place, one of [Rules], and a remedy. One table of fields drives
// the parser, the [Schema] for editors, the reference in README.md and [Diff].
//
// # Guarantees
//
// No value is rounded or guessed, and no part of the file is ignored. Parse does not panic on any input. Every policy of
// a File passes runtime.Policy.Validate.
package spec

import "slices"

// Parse reads a limits.yaml. The name is used in messages only. It returns all errors of the file at once, of more
// than 100 the first ones; the File is nil if and only if it has errors.
func Parse(name string, src []byte) (*File, Diagnostics) {
	p := newParser(newSource(name, string(src)))
	p.limitFields, p.drafts = names(limitFields), map[string]*draft{}
	file := p.readFile()
	if len(p.found) > 0 {
		p.found.sort()
		// Only now are the offers final: the field of a value may have dropped some of them.
		p.found.suggest()
		return nil, p.found.first(maxDiagnostics)
	}
	return file, nil
}

func (p *parser) readFile() *File {
	if !p.legible() || !p.noConflictMarkers() {
		return nil
	}
	root := p.root()
	if root == nil {
		return nil
	}
	// Other diagnostics would be misleading: this version of the program does not have the rules of a future format.
	if version := laterVersion(root); version != nil {
		p.version(nil, entry{name: "version", value: version, at: p.src.at(version)})
		return nil
	}
	// This precedes the fields, whose readers skip the values that it reports.
	p.refuseIndirection(root)
	file := &File{Name: p.src.name}
	if entries, ok := p.entries(root, p.src.at(root), "the file", "begin with version: 1"); ok {
		// The limits refer to the plans, wherever these are in the file.
		slices.SortStableFunc(entries, plansFirst)
		readFields(p, fileFields, file, entries, p.src.at(root), p.complete(root))
		p.settleGroups(file)
	}
	return file
}

// plansFirst sorts the field plans before the others.
func plansFirst(a, b entry) int {
	order := func(e entry) int {
		if e.name == "plans" {
			return 0
		}
		return 1
	}
	return order(a) - order(b)
}
