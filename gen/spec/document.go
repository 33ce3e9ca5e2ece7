package spec

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// document returns the root of the file's only document, or nil after it said why there is none.
func (p *parser) document() *yaml.Node {
	reader := &slowReader{text: p.src.text}
	decoder := yaml.NewDecoder(reader)
	first, err := decode(decoder)
	if err == nil {
		return p.only(first, decoder, reader)
	}
	if errors.Is(err, io.EOF) {
		p.report(span{Pos{1, 1}, Pos{1, 1}}, emptyFile, "begin with version: 1", "the file says nothing")
		return nil
	}
	p.syntaxError(err, reader.line())
	return nil
}

// only returns the root of the document first, if no other one follows it.
func (p *parser) only(first *yaml.Node, decoder *yaml.Decoder, reader *slowReader) *yaml.Node {
	second, err := decode(decoder)
	root := first.Content[0]
	switch {
	case err == nil:
		p.report(p.src.wholeLine(second.Line), secondDocument, "put all limits under one limits:",
			"a second document begins here")
	case !errors.Is(err, io.EOF):
		p.syntaxError(err, reader.line())
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		p.report(p.src.at(root), emptyFile, "begin with version: 1", "the file says nothing")
	default:
		return root
	}
	return nil
}

// decode returns the next document. The YAML reader panics on some input that it did not expect.
func decode(decoder *yaml.Decoder) (document *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	document = new(yaml.Node)
	err = decoder.Decode(document)
	if err == nil && len(document.Content) == 0 {
		err = io.EOF
	}
	return document, err
}

// slowReader hands out its text byte by byte, so that it is known how far the YAML reader came.
type slowReader struct {
	text string
	next int
}

func (r *slowReader) Read(b []byte) (int, error) {
	if r.next == len(r.text) {
		return 0, io.EOF
	}
	b[0] = r.text[r.next]
	r.next++
	return 1, nil
}

// line returns the line that the reader has come to.
func (r *slowReader) line() int { return 1 + strings.Count(r.text[:r.next], "\n") }
