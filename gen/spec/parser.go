package spec

// reader reads the values of fields.
type reader struct{ document }

// checker checks what must hold between values that were read.
type checker struct{ reader }

// parser reads the parts of a file that refer to each other.
type parser struct {
	checker
	// plans are those of the file. With plansUnknown, some of them have errors, and the plans of limits are not checked.
	plans        []Plan
	plansUnknown bool
	// limitFields are the names of the fields of a limit. The functions that a table of fields contains cannot refer to
	// that table: Go would report an initialization cycle.
	limitFields []string
	// groupsGiven holds the entries groups:, which are read after the limits of the file.
	groupsGiven []entry
	file        *File
	owners      owners
	// drafts are the limits of the file by name, with those that have diagnostics.
	drafts map[string]*draft
	// parameters are those of the current group, by name.
	parameters map[string]parameter
}

func newParser(src *source) *parser {
	return &parser{checker: checker{reader{document{src: src}}}}
}
