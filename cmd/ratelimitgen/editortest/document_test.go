package editortest

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/stretchr/testify/require"
)

// cursor marks the position of the cursor in the texts of tests.
const cursor = "‸"

// document is a file that is open in the editor.
type document struct {
	editor  *client
	uri     string
	version int
	text    string
	// at is the position of the cursor.
	at position
}

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

// item is an entry of a completion list.
type item struct {
	Label         string
	Kind          int
	InsertText    string
	Documentation markup
}

// The kinds of items in the protocol.
const (
	kindMethod   = 2
	kindProperty = 10
	kindSnippet  = 15
	kindConstant = 21
)

// diagnostic is an error in a document.
type diagnostic struct {
	Range   struct{ Start position }
	Message string
}

// markup is a text: a string or an object in the protocol.
type markup string

func (m *markup) UnmarshalJSON(text []byte) error {
	var form struct{ Value string }
	if err := json.Unmarshal(text, (*string)(m)); err == nil {
		return nil
	}
	err := json.Unmarshal(text, &form)
	*m = markup(form.Value)
	return err
}

// open opens a file with a text that is not saved, and puts the cursor into it.
func (c *client) open(path, language, text string) *document {
	c.t.Helper()
	d := &document{editor: c, uri: uri(path)}
	d.put(text)
	c.notify("textDocument/didOpen", map[string]any{
		"textDocument": map[string]any{"uri": d.uri, "languageId": language, "version": d.version, "text": d.text},
	})
	return d
}

// openAsIs opens a file with its text on disk, followed by added.
func (c *client) openAsIs(path, language, added string) *document {
	c.t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(c.t, err)
	return c.open(path, language, string(text)+added)
}

// change replaces the text.
func (d *document) change(text string) {
	d.editor.t.Helper()
	d.put(text)
	d.editor.notify("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": d.uri, "version": d.version},
		"contentChanges": []any{map[string]any{"text": d.text}},
	})
}

func (d *document) put(text string) {
	before, after, _ := strings.Cut(text, cursor)
	last := strings.LastIndex(before, "\n") + 1
	d.version++
	d.text, d.at = before+after, position{strings.Count(before, "\n"), len(before) - last}
}

// complete returns the completion list at the cursor.
func (d *document) complete() []item {
	d.editor.t.Helper()
	var list struct{ Items []item }
	d.editor.call("textDocument/completion", d.here(), &list)
	return list.Items
}

// hover returns the hover text at the cursor.
func (d *document) hover() string {
	d.editor.t.Helper()
	var shown struct{ Contents markup }
	d.editor.call("textDocument/hover", d.here(), &shown)
	return string(shown.Contents)
}

func (d *document) here() any {
	return map[string]any{"textDocument": map[string]any{"uri": d.uri}, "position": d.at}
}

// problems waits for the next diagnostics of the document, and returns the text of the line and the message of each.
func (d *document) problems() [][2]string {
	d.editor.t.Helper()
	var published struct {
		URI         string
		Diagnostics []diagnostic
	}
	d.editor.until("textDocument/publishDiagnostics", func(params json.RawMessage) bool {
		require.NoError(d.editor.t, json.Unmarshal(params, &published))
		return published.URI == d.uri
	})
	list := [][2]string{}
	for _, p := range published.Diagnostics {
		list = append(list, [2]string{strings.TrimSpace(strings.Split(d.text, "\n")[p.Range.Start.Line]), p.Message})
	}
	return list
}
