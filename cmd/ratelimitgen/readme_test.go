package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	return string(text)
}

// Who follows the README has the program as a tool of the module, and nothing of that name in PATH.
func TestReadmeCallsTheTool(t *testing.T) {
	text, calls := strings.Join(strings.Fields(readme(t)), " "), 0
	for _, v := range verbs() {
		call := "ratelimitgen " + v.name
		assert.Equal(t, strings.Count(text, call), strings.Count(text, "go tool "+call), call)
		calls += strings.Count(text, call)
	}
	assert.Greater(t, calls, 15)
}

// The README's commands work in the folder where Begin ends, once the file is on the branch main.
func TestReadmeCommandsWork(t *testing.T) {
	text := readme(t)
	request := regexp.MustCompile("`({\"at\": .*?})`").FindStringSubmatch(text)
	require.NotNil(t, request)
	dir := filepath.Join(t.TempDir(), "app")
	c := &checkout{t, dir, writeFiles(t, dir, "-- limits/requests.jsonl --\n"+request[1]+"\n")}
	require.NoError(t, os.WriteFile(filepath.Join(c.bin, "go"), []byte(stubGo), 0o755))
	c.must(`git init -q -b main . && git config user.name a && git config user.email a@example.com`)
	c.dir = filepath.Join(dir, "limits")
	c.must(`go tool ratelimitgen init && git add . && git commit -qm one && sed -i 's/capacity: 20/capacity: 40/' limits.yaml`)

	commands := regexp.MustCompile(`(?m)^go tool ratelimitgen [^\n"$]*("[^"$]*"[^\n"$]*)?$`).FindAllString(text, -1)
	assert.Greater(t, len(commands), 8)
	for _, command := range commands {
		if command == "go tool ratelimitgen init" { // that has been done
			continue
		}
		code, said := c.run(command, []string{"sh", "-ec"}, nil)
		assert.Equal(t, exitYes, code, "%s\n%s", command, said)
	}
}
