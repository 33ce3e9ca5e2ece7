package document

import (
	"errors"
	"io"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
)

// Root returns the root of the file's only YAML document, or reports why it has none and returns nil: the text may not be
// legible, or not be YAML.
func (d *Document) Root() *yaml.Node {
	if !d.legible() || !d.noConflictMarkers() {
		return nil
	}
	return d.root()
}

func (d *Document) root() *yaml.Node {
	reader := &slowReader{text: d.Source.Text}
	decoder := yaml.NewDecoder(reader)
	first, err := decode(decoder)
	if err == nil {
		return d.only(first, decoder, reader)
	}
	if errors.Is(err, io.EOF) {
		d.Report(diag.Spanning(diag.Pos{Line: 1, Column: 1}, ""), ids.EmptyFile, "begin with version: 1",
			"the file has no content")
		return nil
	}
	d.syntaxError(err, reader.line())
	return nil
}

// only returns the root of the first document, or reports the one after it.
func (d *Document) only(first *yaml.Node, decoder *yaml.Decoder, reader *slowReader) *yaml.Node {
	// The rest of the file is decoded too, because an error or a document there would otherwise be ignored.
	second, err := decode(decoder)
	root := first.Content[0]
	switch {
	case err == nil:
		d.Report(d.Source.WholeLine(second.Line), ids.SecondDocument, "put all limits under one limits:",
			"a second document begins here")
	case !errors.Is(err, io.EOF):
		d.syntaxError(err, reader.line())
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		d.Report(d.Source.At(root), ids.EmptyFile, "begin with version: 1", "the file has no content")
	default:
		return root
	}
	return nil
}

// slowReader returns its text byte by byte, because the errors of the YAML reader name no line or a wrong one: its
// position shows how far the YAML reader came.
type slowReader struct {
	text string
	next int
}

func (r *slowReader) Read(b []byte) (int, error) {
	if r.next == len(r.text) {
		return 0, io.EOF
	}
	// More than one byte would make the position run ahead of the error by the size of the buffer.
	b[0] = r.text[r.next]
	r.next++
	return 1, nil
}

// line returns the current line.
func (r *slowReader) line() int { return 1 + strings.Count(r.text[:r.next], "\n") }
