package editortest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// client is an editor: a client of the Language Server Protocol. It reads messages of the server only while it waits
// for one.
type client struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
	// settings are the user's settings, by section.
	settings map[string]any
	// requests is the number of requests so far.
	requests int
}

// timeout is the time that a server may run.
const timeout = 3 * time.Minute

// message is a request, a notification or a response.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// start starts and initializes a server in a folder, and stops it when the test ends.
func start(t *testing.T, folder string, settings map[string]any, environment []string, command ...string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	server := exec.CommandContext(ctx, command[0], command[1:]...)
	server.Dir = folder
	server.Env = append(os.Environ(), environment...)
	var stderr bytes.Buffer
	server.Stderr = &stderr
	in, err := server.StdinPipe()
	require.NoError(t, err)
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	c := &client{t: t, in: in, out: bufio.NewReader(out), settings: settings}
	t.Cleanup(func() {
		defer cancel()
		if t.Failed() {
			cancel()
			server.Wait()
			t.Logf("%s printed:\n%s", command[0], &stderr)
			return
		}
		c.call("shutdown", nil, nil)
		c.notify("exit", nil)
		require.NoError(t, server.Wait(), "%s", &stderr)
	})
	c.initialize(folder)
	return c
}

// initialize sends the capabilities of this editor, and waits for the server's request for the settings.
func (c *client) initialize(folder string) {
	c.t.Helper()
	text := map[string]any{
		"completion": map[string]any{"completionItem": map[string]any{
			"documentationFormat": []string{"markdown"},
			"snippetSupport":      true,
		}},
		"hover": map[string]any{"contentFormat": []string{"markdown"}},
	}
	c.call("initialize", map[string]any{
		"processId":        os.Getpid(),
		"rootUri":          uri(folder),
		"workspaceFolders": []any{map[string]any{"uri": uri(folder), "name": "app"}},
		"capabilities":     map[string]any{"textDocument": text, "workspace": map[string]any{"configuration": true}},
	}, nil)
	c.notify("initialized", map[string]any{})
	c.until("workspace/configuration", func(json.RawMessage) bool { return true })
}

// call sends a request, and decodes the result.
func (c *client) call(method string, params, result any) {
	c.t.Helper()
	c.requests++
	id := strconv.Itoa(c.requests)
	c.send(message{ID: json.RawMessage(id), Method: method, Params: c.encode(params)})
	for {
		m := c.read()
		if m.Method != "" || string(m.ID) != id {
			continue
		}
		if m.Error != nil {
			require.FailNow(c.t, m.Error.Message, method)
		}
		if result != nil {
			require.NoError(c.t, json.Unmarshal(m.Result, result), "%s", m.Result)
		}
		return
	}
}

// notify sends a notification.
func (c *client) notify(method string, params any) {
	c.t.Helper()
	c.send(message{Method: method, Params: c.encode(params)})
}

// until reads until the server sends a message of that method with the wanted params.
func (c *client) until(method string, wanted func(params json.RawMessage) bool) {
	c.t.Helper()
	for {
		if m := c.read(); m.Method == method && wanted(m.Params) {
			return
		}
	}
}

func (c *client) encode(v any) json.RawMessage {
	c.t.Helper()
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	require.NoError(c.t, err)
	return text
}

func (c *client) send(m message) {
	c.t.Helper()
	m.Version = "2.0"
	text := c.encode(m)
	_, err := fmt.Fprintf(c.in, "Content-Length: %d\r\n\r\n%s", len(text), text)
	require.NoError(c.t, err, "the server has ended")
}

// read returns the next message of the server. Requests of the server are answered.
func (c *client) read() (m message) {
	c.t.Helper()
	header, err := textproto.NewReader(c.out).ReadMIMEHeader()
	require.NoError(c.t, err, "the server has ended")
	length, err := strconv.Atoi(header.Get("Content-Length"))
	require.NoError(c.t, err)
	text := make([]byte, length)
	_, err = io.ReadFull(c.out, text)
	require.NoError(c.t, err)
	require.NoError(c.t, json.Unmarshal(text, &m), "%s", text)
	if m.Method != "" && m.ID != nil {
		c.send(message{ID: m.ID, Result: c.encode(c.answer(m))})
	}
	return m
}

// answer returns the result for a request of the server.
func (c *client) answer(m message) any {
	c.t.Helper()
	if m.Method != "workspace/configuration" {
		return json.RawMessage("null")
	}
	var params struct{ Items []struct{ Section string } }
	require.NoError(c.t, json.Unmarshal(m.Params, &params))
	settings := make([]any, len(params.Items))
	for i, item := range params.Items {
		settings[i] = c.settings[item.Section]
	}
	return settings
}

func uri(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}
