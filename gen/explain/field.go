package explain

import (
	"io"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Fields returns the names of all fields of limits.yaml.
func Fields() (names []string) {
	for _, f := range spec.Fields() {
		names = append(names, f.Name)
	}
	return names
}

// WriteField prints what the field of a name means, and what to write. It returns the error of w.
func WriteField(w io.Writer, name string, color bool) error {
	p := newPage(color)
	for _, f := range spec.Fields() {
		if f.Name == name {
			p.field(f)
		}
	}
	return p.writeTo(w)
}

func (p *page) field(f spec.Field) {
	p.title("%s: a field of %s", f.Name, f.Of)
	p.say("meaning", f.Meaning)
	p.say("write", f.Accepts)
	switch {
	case f.Required:
		p.say("without it", "the file is not valid: it is required")
	case f.Absent != "":
		p.say("without it", f.Absent)
	}
	p.show("example", f.Example)
}
