package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/explain"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func explainVerb() verb {
	return verb{
		name:  "explain",
		args:  "[LIMIT | FIELD | ID] [FILE]",
		about: "say in words and numbers what a limit means, or a field, or an id",
		help: `FILE is limits.yaml if it is left out; it has a dot or a slash in it if it stands alone. With FILE alone, or
without any argument, all limits are listed.

Of a LIMIT it says how much one key can take in some intervals, in the worst case, how long it takes to fill
again, what comes of a reservation, and how it is called in Go. A FIELD is one of limits.yaml, such as lease:
it says what it means, what to write and what holds without it. An ID is what check and diff print in
brackets, such as unknown-field or capacity-changed: it says what is meant by it, with an example. A limit
that has the name of a field or an id goes before it; with brackets, '[duplicate]', it is the field or the id.

The exit code is 1 if FILE is not valid, unless it is a FIELD or an ID that is asked for.
`,
		prepare: prepareExplain,
	}
}

// explanation is one call of explain.
type explanation struct {
	color choice
	// name is what to explain, "" for all limits of the file.
	name, file string
}

func prepareExplain(flags *flag.FlagSet) action {
	var e explanation
	e.color.declareColor(flags)
	return e.run
}

func (e *explanation) run(s streams, args []string) error {
	if err := e.accept(args); err != nil {
		return err
	}
	color := e.color.color(s.out)
	if word, ok := strings.CutPrefix(e.name, "["); ok {
		return writeWord(s.out, strings.TrimSuffix(word, "]"), nil, color)
	}
	file, diagnostics, err := readLimits(e.file)
	valid := err == nil && len(diagnostics) == 0
	switch {
	case valid && e.name == "":
		return explain.WriteList(s.out, file, color)
	case valid:
		return e.write(s.out, file, color)
	case strings.Contains(e.name, "-") || slices.Contains(words(), e.name): // that is no limit, or may be none
		return writeWord(s.out, e.name, nil, color)
	case err != nil:
		return fmt.Errorf("%w%s", err, suggestion("", e.name, words()))
	}
	if err := diagnostics.WriteText(s.err, e.color.color(s.err)); err != nil {
		return err
	}
	return no{}
}

// accept takes the arguments. A name has no dot and no slash in it.
func (e *explanation) accept(args []string) error {
	for _, arg := range args {
		switch {
		case e.name == "" && !strings.ContainsAny(arg, `./\`):
			e.name = arg
		case e.file == "":
			e.file = arg
		default:
			return misusef("takes one LIMIT, FIELD or ID, and one FILE")
		}
	}
	if e.file == "" {
		e.file = defaultFile
	}
	return nil
}

// write explains the limit of that name, or the field, or the id.
func (e *explanation) write(w io.Writer, file *spec.File, color bool) error {
	var names []string
	for _, l := range file.Limits {
		names = append(names, l.Policy.Name)
	}
	i := slices.Index(names, e.name)
	if i < 0 {
		return writeWord(w, e.name, names, color)
	}
	if err := explain.WriteLimit(w, file.Name, file.Limits[i], color); err != nil {
		return err
	}
	if slices.Contains(words(), e.name) {
		fmt.Fprintf(w, "\n%s is also %s: ratelimitgen explain '[%s]'\n", e.name, sortOf(e.name), e.name)
	}
	return nil
}

// words are all that can be explained without a file.
func words() []string { return slices.Concat(explain.Fields(), explain.IDs()) }

// sortOf says what a word is.
func sortOf(word string) string {
	if slices.Contains(explain.Fields(), word) {
		return "a field"
	}
	return "an id"
}

// writeWord explains a field or an id. The error for an unknown one asks whether one of the limits was meant, if
// not a field or an id.
func writeWord(w io.Writer, word string, limits []string, color bool) error {
	switch {
	case slices.Contains(explain.Fields(), word):
		return explain.WriteField(w, word, color)
	case slices.Contains(explain.IDs(), word):
		return explain.WriteID(w, word, color)
	}
	return misusef("there is no limit, no field and no id %q%s", word, suggestion("", word, append(limits, words()...)))
}
