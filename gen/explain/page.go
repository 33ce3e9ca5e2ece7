package explain

import "github.com/ratelimitgen/ratelimitgen/gen/diag"

// Page is what explain says about a limit, a group, a field or an id, or about all limits of a file. Text from a file is
// in it as the file has it: each format escapes what it must.
type Page struct {
	// Title is the name with its place, such as "limits.yaml:7:3: sendMessage". It is empty for a list of all limits.
	Title    string
	Sections []Section
}

// Section is a part of a page: a text, or lines, or a table after a text that may be empty.
type Section struct {
	// Label names the section: "rule". A section without a label stands by itself.
	Label string
	// Text is a paragraph.
	Text string
	// File are lines of a file, each with its newline or, in the last one, without.
	File string
	// Lines are some that a command prints, and Diagnostics are printed as check does.
	Lines       []string
	Diagnostics diag.Diagnostics
	// Table is empty in most sections.
	Table Table
}

// Table is a table of texts.
type Table struct {
	// Head are the names of the columns; nil for a table without a head.
	Head []string
	// Rows have equally many cells.
	Rows [][]string
	// align and cut are the layout in a terminal, see [cells.Table].
	align string
	cut   []int
}

// add adds a paragraph, unless it is empty.
func (p *Page) add(label, text string) {
	if text != "" {
		p.Sections = append(p.Sections, Section{Label: label, Text: text})
	}
}

// file adds lines of a file.
func (p *Page) file(label, lines string) {
	p.Sections = append(p.Sections, Section{Label: label, File: lines})
}

// table adds a table after a text, which may be empty.
func (p *Page) table(label, text string, t Table) {
	p.Sections = append(p.Sections, Section{Label: label, Text: text, Table: t})
}
