package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// guides returns the README of the module and that of this directory.
func guides(t *testing.T) string {
	t.Helper()
	return read(t, "../../README.md") + read(t, "README.md")
}

// readmeSection returns the text of this directory's README below a heading.
func readmeSection(t *testing.T, title string) string {
	t.Helper()
	_, section, ok := strings.Cut(read(t, "README.md"), "\n## "+title+"\n")
	require.True(t, ok, "README.md has no section %q", title)
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// Every function fooCommand returns a command that is in the table of main.go.
func TestEveryCommandIsInTheTable(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Type.Params.NumFields() > 0 || f.Type.Results.NumFields() != 1 {
				continue
			}
			if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && result.Name == "command" {
				assert.Contains(t, commandNames(), strings.TrimSuffix(f.Name.Name, "Command"), "add %s() of %s to commands in main.go", f.Name.Name, name)
			}
		}
	}
}

// The default needs no flag, and a command with one format has none.
func TestEveryFormatHasACall(t *testing.T) {
	scripts, err := filepath.Glob("../../testdata/cmd/*.txt")
	require.NoError(t, err)
	all := ""
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all += string(text)
	}
	for command, names := range map[string][]string{
		"check":    formatNames(problemsFormats),
		"diff":     formatNames(reviewFormats),
		"explain":  formatNames(explainFormats),
		"simulate": formatNames(simulateFormats),
	} {
		for _, name := range names[1:] {
			assert.Regexp(t, `(?m)^\$ .*ratelimitgen `+command+` .*-format `+name+`\b`, all,
				"add a call of %s -format %s to testdata/cmd/%[1]s.txt, and run go test ./cmd/ratelimitgen -run Scripts -update", command, name)
		}
	}
}

func TestEveryCommandIsListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	require.NoError(t, err)
	table := readmeSection(t, "Commands")
	scripts, err := filepath.Glob("../../testdata/cmd/*.txt")
	require.NoError(t, err)
	var sessions strings.Builder
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		sessions.Write(text)
	}
	for _, c := range commands() {
		assert.True(t, strings.Contains(file.Doc.Text(), fmt.Sprintf("ratelimitgen %-10s %s\n", c.name, c.summary)),
			"add %q to the package comment in main.go, with its summary", c.name)
		assert.True(t, strings.Contains(table, fmt.Sprintf("| `go tool ratelimitgen %s` | %s |\n", c.name, c.summary)),
			"add %q to the table in cmd/ratelimitgen/README.md, section Commands", c.name)
		assert.True(t, strings.Contains(sessions.String(), "$ ratelimitgen help "+c.name+"\n"),
			"add calls of %[1]q, and ratelimitgen help %[1]s, to a script in testdata/cmd, and run go test ./cmd/ratelimitgen -run Scripts -update", c.name)
		assert.Contains(t, hostileCommands(), c.name, "add a call of %q with hostile text to hostileCalls in hostile_test.go", c.name)
	}
	assert.LessOrEqual(t, strings.Count(table, "| `go tool ratelimitgen "), len(commands()), "README.md lists a command that does not exist")
	assert.LessOrEqual(t, strings.Count(file.Doc.Text(), "\tratelimitgen "), len(commands()), "main.go's comment lists a command that does not exist")
}

func TestReadmeListsEveryDialect(t *testing.T) {
	section := read(t, "../../runtime/sqlstore/README.md")
	script, err := os.ReadFile("../../testdata/cmd/sql.txt")
	require.NoError(t, err)
	for _, name := range dialectNames() {
		// The variables have the names of the dialects, except for capitals: dialect.MariaDB is mariadb.
		assert.True(t, regexp.MustCompile("(?im)^\\| [^|]+ \\| `dialect."+name+"`").MatchString(section),
			"add dialect %q to the table of databases in runtime/sqlstore/README.md", name)
		assert.True(t, strings.Contains(string(script), "ratelimitgen sql -dialect "+name),
			"add dialect %q to testdata/cmd/sql.txt, and run go test ./cmd/ratelimitgen -run Scripts -update", name)
	}
}

// Users who follow the README have the program as a tool of their module, or a clone, and not in PATH.
func TestReadmeRunsCommandsByGoTool(t *testing.T) {
	text, calls := strings.Join(strings.Fields(guides(t)), " "), 0
	for _, name := range commandNames() {
		call := "ratelimitgen " + name
		assert.Equal(t, strings.Count(text, call), strings.Count(text, "go tool "+call)+strings.Count(text, "go run ./cmd/"+call), call)
		calls += strings.Count(text, call)
	}
	assert.Greater(t, calls, 15)
}

// readmeLogs are the logs of the README's commands.
const readmeLogs = `-- limits/access.log --
203.0.113.7 - - [01/Jan/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8"
-- limits/app.log --
{"ts": "2026-01-01T09:00:00Z", "user": {"id": 42}, "msg": "posted"}
`

// The commands of the READMEs work in the directory of the quick start, once the file is on the branch main.
func TestReadmeCommandsWork(t *testing.T) {
	text := guides(t)
	request := regexp.MustCompile("`({\"at\": .*?})`").FindStringSubmatch(text)
	require.NotNil(t, request)
	dir := filepath.Join(t.TempDir(), "app")
	c := &checkout{t: t, dir: dir, bin: writeFiles(t, dir, "-- limits/requests.jsonl --\n"+request[1]+"\n"+readmeLogs)}
	require.NoError(t, os.WriteFile(filepath.Join(c.bin, "go"), []byte(stubGo), 0o755))
	c.must(`git init -q -b main . && git config user.name a && git config user.email a@example.com`)
	c.dir = filepath.Join(dir, "limits")
	c.must(`go tool ratelimitgen init && git add . && git commit -qm one && sed -i 's/capacity: 20/capacity: 40/' limits.yaml`)

	commands := regexp.MustCompile(`(?m)^go tool ratelimitgen [^\n"$]*("[^"$]*"[^\n"$]*)?$`).FindAllString(text, -1)
	assert.Greater(t, len(commands), 8)
	for _, command := range commands {
		if command == "go tool ratelimitgen init" { // has run above
			continue
		}
		code, printed := c.run(command, []string{"sh", "-ec"}, nil)
		assert.Equal(t, exitOK, code, "%s\n%s", command, printed)
		if command == "go tool ratelimitgen diff main:./limits.yaml" {
			assertSample(t, "../../README.md", command, printed)
		}
	}
}

// assertSample fails if a page shows, below a command, another output than printed.
func assertSample(t *testing.T, page, command, printed string) {
	t.Helper()
	text := read(t, page)
	_, rest, ok := strings.Cut(text, "```\n"+command+"\n```\n\n```\n")
	require.True(t, ok, "%s lacks the output of %s", page, command)
	sample, after, _ := strings.Cut(rest, "```")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(strings.TrimSuffix(text, sample+"```"+after)+printed+"```"+after), 0o644))
		return
	}
	assert.Equal(t, printed, sample, "after an intended change, run go test ./cmd/ratelimitgen -run ReadmeCommands -update")
}

// The README shows some lines that explain prints for the example.
func TestReadmeShowsOutputOfExplain(t *testing.T) {
	var out, problems bytes.Buffer
	require.Equal(t, exitOK, run([]string{"explain", "sendMessage", "../../limits.example.yaml"}, &out, &problems), problems.String())
	block := regexp.MustCompile("(?s)```explain\n(.*?)```").FindStringSubmatch(read(t, "README.md"))
	require.NotNil(t, block)
	printed := strings.Split(out.String(), "\n")
	for line := range strings.Lines(block[1]) {
		assert.Contains(t, printed, strings.TrimSuffix(line, "\n"))
	}
}
