package main

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// workflow has the fields of the README's workflow that the tests use.
type workflow struct {
	On          string
	Permissions map[string]string
	Jobs        map[string]struct{ Steps []workflowStep }
}

type workflowStep struct {
	Name, Uses, If, Shell, Run string
	With, Env                  map[string]string
}

// composite is an action.yml, without keys that GitHub does not know.
type composite struct {
	Name, Description string
	Inputs            map[string]struct{ Description, Default string }
	Runs              struct {
		Using string
		Steps []workflowStep
	}
}

// recipes returns the README's workflow for GitHub and its script for other CI, and the action that the workflow uses.
func recipes(t *testing.T) (w workflow, script string, review composite) {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```(yml|sh)\n(.*?)```").FindAllStringSubmatch(readmeSection(t, "CI"), -1)
	require.Equal(t, []string{"yml", "sh"}, []string{blocks[0][1], blocks[1][1]})
	require.NoError(t, yaml.Unmarshal([]byte(blocks[0][2]), &w))
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "../../.github/actions/review/action.yml")))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&review))
	return w, blocks[1][2], review
}

// contexts replaces the expressions that GitHub evaluates for a pull request, with the inputs of the README's workflow.
var contexts = strings.NewReplacer(
	"${{ github.token }}", "secret",
	"${{ inputs.token }}", "secret",
	"${{ inputs.fail-on }}", "breaking,stored-state",
	"${{ inputs.allow }}", "",
	"${{ github.repository }}", "us/app",
	"${{ github.event.number }}", "7",
)

func TestWorkflowHasLeastPrivileges(t *testing.T) {
	w, _, review := recipes(t)
	assert.Equal(t, "pull_request", w.On, "pull_request_target runs a fork's code with a token that may write")
	assert.Equal(t, map[string]string{"contents": "read", "pull-requests": "write"}, w.Permissions)
	steps := w.Jobs["limits"].Steps
	for _, s := range steps {
		assert.Empty(t, s.Run, "it is in the action, which tests run")
		if strings.HasPrefix(s.Uses, "actions/checkout@") {
			assert.Equal(t, map[string]string{"fetch-depth": "0", "persist-credentials": "false"}, s.With, "code of the pull request could read the token")
		}
		if s.Uses != "ratelimitgen/ratelimitgen/.github/actions/review@main" {
			assert.Regexp(t, "^actions/(checkout|setup-go)@[0-9a-f]{40}$", s.Uses, "a tag can be moved")
		}
	}
	assert.Len(t, steps, 3)
	assert.Equal(t, "composite", review.Runs.Using)
	assert.Equal(t, "breaking,stored-state", review.Inputs["fail-on"].Default)
	for _, s := range review.Runs.Steps {
		assert.NotContains(t, s.Run, "${{", "text of others must not become part of a script")
		assert.Equal(t, "bash", s.Shell, "a step of an action must name one")
		assert.Empty(t, s.Uses)
		if s.Env["GH_TOKEN"] != "" {
			assert.Equal(t, "inputs.comment == 'true' && github.event.pull_request.head.repo.full_name == github.repository", s.If, "a fork's token cannot comment")
		}
		for name, value := range s.Env {
			assert.NotContains(t, contexts.Replace(value), "${{", name)
		}
	}
}

// recipeLimits is the file on the base branch.
const recipeLimits = `-- go.mod --
module example.com/app

tool github.com/ratelimitgen/ratelimitgen/cmd/ratelimitgen
-- limits/limits.yaml --
version: 1
limits:
  send: {kind: token bucket, rate: 10, period: 1m, capacity: 20}

  # For visitors.
  find: {kind: fixed window, rate: 10, period: 1m}

  # For new users.
  signUp: {kind: fixed window, rate: 5, period: 1h}
`

// generated ends an edit of the file, and generates the code.
const generated = " limits/limits.yaml && ratelimitgen generate limits/limits.yaml"

// inFolders makes two modules in folders, and none at the root.
const inFolders = `mkdir -p svc/a svc/b && mv limits go.mod svc/a && cp -r svc/a/. svc/b
`

// editOf edits the file of a module, and generates the code.
func editOf(module string) string {
	file := module + "/limits/limits.yaml"
	return "sed -i 's/capacity: 20/capacity: 40/' " + file + " && ratelimitgen generate " + file
}

func TestWorkflowOnGitHub(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		require.Empty(t, os.Getenv("CI"), "install jq: CI must run all tests")
		t.Skip("jq is not installed, which evaluates the filters of gh here")
	}
	w, _, review := recipes(t)
	const listed, created, updated = "GET repos/us/app/issues/7/comments", "POST repos/us/app/issues/7/comments", "PATCH https://api/comments/2"
	for _, row := range []struct {
		name string
		// before runs on the base branch, and edit in the pull request. commented adds an earlier comment of the workflow.
		before, edit string
		commented    bool
		// foreign adds a comment of another user with the marker of ours.
		foreign bool
		// fails is the step that fails, "" if none does.
		fails string
		// prints is a part of the output, requests are those to GitHub, and comment is a part of the comment.
		prints   string
		requests []string
		comment  string
		// file is the subject of the comment, limits/limits.yaml by default.
		file string
		// all is true if all limits have changed.
		all bool
		// allow is the input of the action.
		allow string
	}{
		{
			name: "an edit", edit: "sed -i 's/capacity: 20/capacity: 40/'" + generated,
			prints:   "::warning title=ratelimitgen send%3A loosened,file=limits/limits.yaml,line=3,col=3::capacity 20 → 40",
			requests: []string{listed, created}, comment: "| `capacity` | `20` | `40` |",
		},
		{
			name: "an edit, with links", edit: "sed -i 's/capacity: 20/capacity: 40/'" + generated,
			requests: []string{listed, created}, comment: "[`send`](https://github.com/us/app/blob/abc123/limits/limits.yaml#L3) | `capacity` |",
		},
		{
			name: "another edit", edit: "sed -i 's/capacity: 20/capacity: 50/'" + generated, commented: true,
			requests: []string{listed, updated}, comment: "| `capacity` | `20` | `50` |",
		},
		{name: "no edit", edit: "echo more > file", requests: []string{listed}},
		{
			name: "an edit taken back", edit: "echo more > file", commented: true,
			requests: []string{listed, updated}, comment: "No limit has changed.",
		},
		{
			name: "a mistake", edit: "sed -i s/token/tokn/ limits/limits.yaml", fails: "Check the files",
			prints: "::error title=ratelimitgen bad-kind,file=limits/limits.yaml,line=3,",
		},
		{
			name: "stale code", edit: "sed -i 's/capacity: 20/capacity: 40/' limits/limits.yaml", fails: "Check the files",
			prints: "::error title=ratelimitgen stale code,file=limits/limits.gen.go,line=1::limits/limits.gen.go is out of date with limits/limits.yaml",
		},
		{
			name: "a breaking edit", edit: "sed -i 's/rate: 10, period: 1m}/rate: 10, period: 1m, goName: LookUp}/'" + generated,
			fails: "Annotate, and fail on changes without approval", prints: "beside the edit:\n  # ratelimitgen:allow go-name-changed:find=Find->LookUp\n",
			requests: []string{listed, created}, comment: "breaking",
		},
		{
			name: "an approved edit", edit: "sed -i 's/rate: 10, period: 1m}/rate: 10, period: 1m, goName: LookUp} # ratelimitgen:allow go-name-changed:find=Find->LookUp/'" + generated,
			requests: []string{listed, created}, comment: "breaking",
		},
		{
			name: "an approval of another edit", edit: "sed -i 's/rate: 10, period: 1m}/rate: 10, period: 1m, goName: LookUp} # ratelimitgen:allow go-name-changed:find=Find->Seek/'" + generated,
			fails: "Annotate, and fail on changes without approval", prints: "# ratelimitgen:allow go-name-changed:find=Find->LookUp\n",
			requests: []string{listed, created}, comment: "breaking",
		},
		{
			name: "somebody else's comment", edit: "sed -i 's/capacity: 20/capacity: 40/'" + generated, foreign: true,
			requests: []string{listed, created}, comment: "| `capacity` | `20` | `40` |",
		},
		{
			name: "a new file", before: "mv limits ..; echo some > file", edit: "mv ../limits .", all: true,
			prints: "::notice title=ratelimitgen send%3A added,file=limits/limits.yaml,", requests: []string{listed, created}, comment: "so every limit is new",
		},
		{
			name: "a second file", edit: "mkdir more && sed 's/send/post/' limits/limits.yaml > more/limits.yaml && ratelimitgen generate more/limits.yaml", all: true,
			prints: "::notice title=ratelimitgen post%3A added,file=more/limits.yaml,", requests: []string{listed, created},
			comment: "so every limit is new", file: "more/limits.yaml",
		},
		{
			name: "a file that was moved and edited", edit: `git mv limits "new [id]" && sed -i 's/capacity: 20/capacity: 40/' "new [id]/limits.yaml" && echo package limits > "new [id]/doc.go" && ratelimitgen generate "new [id]/limits.yaml"`,
			prints: "send%3A loosened,file=new [id]/limits.yaml,line=3,col=3::capacity 20 → 40", requests: []string{listed, created},
			comment: "| `capacity` | `20` | `40` |", file: "new%20%5Bid%5D/limits.yaml",
		},
		{
			name: "a directory whose name begins with a dash", edit: `git mv -- limits ./-a && sed -i 's/capacity: 20/capacity: 40/' ./-a/limits.yaml && echo package limits > ./-a/doc.go && ratelimitgen generate -- -a/limits.yaml`,
			prints: "send%3A loosened,file=-a/limits.yaml,line=3,col=3::capacity 20 → 40", requests: []string{listed, created},
			comment: "| `capacity` | `20` | `40` |", file: "-a/limits.yaml",
		},
		{
			name: "a directory with a line end in its name", edit: `d=$(printf 'a\nb') && git mv limits "$d" && sed -i 's/capacity: 20/capacity: 40/' "$d/limits.yaml" && echo package limits > "$d/doc.go" && ratelimitgen generate "$d/limits.yaml"`,
			prints: "send%3A loosened,file=a%0Ab/limits.yaml,line=3,col=3::capacity 20 → 40", requests: []string{listed, created},
			comment: "| `capacity` | `20` | `40` |", file: "a%0Ab/limits.yaml",
		},
		{
			name: "a file that is gone", before: "mkdir more && cp limits/limits.yaml more && ratelimitgen generate more/limits.yaml", edit: "git rm -q -r more", all: true,
			fails: "Annotate, and fail on changes without approval", prints: "-allow 'limit-removed:send=10/1m0s->none'",
			requests: []string{listed, created}, comment: "so every limit is removed", file: "more/limits.yaml",
		},
		{
			name: "a module in a folder", before: inFolders + "rm -r svc/b", edit: editOf("svc/a"),
			prints:   "::warning title=ratelimitgen send%3A loosened,file=svc/a/limits/limits.yaml,line=3,col=3::capacity 20 → 40",
			requests: []string{listed, created}, file: "svc/a/limits/limits.yaml",
			comment: "[`send`](https://github.com/us/app/blob/abc123/svc/a/limits/limits.yaml#L3) | `capacity` |",
		},
		{
			name: "two modules", before: inFolders, edit: editOf("svc/b"), prints: "file=svc/b/limits/limits.yaml,line=3,col=3::capacity 20 → 40",
			requests: []string{listed, created}, file: "svc/b/limits/limits.yaml", comment: "| `capacity` | `20` | `40` |",
		},
		{
			name: "a workspace", before: inFolders + "printf 'use ./svc/a\nuse ./svc/b\n' > go.work", edit: editOf("svc/a"),
			prints: "file=svc/a/limits/limits.yaml,line=3,col=3::capacity 20 → 40", requests: []string{listed, created},
			file: "svc/a/limits/limits.yaml", comment: "| `capacity` | `20` | `40` |",
		},
		{
			name: "stale code of a module", before: inFolders, edit: "sed -i 's/capacity: 20/capacity: 40/' svc/b/limits/limits.yaml", fails: "Check the files",
			prints: "file=svc/b/limits/limits.gen.go,line=1::limits/limits.gen.go is out of date with limits/limits.yaml; run:",
		},
		{
			name: "a module that is gone", before: inFolders, edit: "git rm -q -r svc/b", all: true, fails: "Annotate, and fail on changes without approval",
			prints:   "-allow 'limit-removed:send=10/1m0s->none'",
			requests: []string{listed, created}, comment: "so every limit is removed", file: "svc/b/limits/limits.yaml",
		},
		{
			name: "a file that is gone, approved", before: "mkdir more && cp limits/limits.yaml more && ratelimitgen generate more/limits.yaml", edit: "git rm -q -r more", all: true,
			allow: "limit-removed:send=10/1m0s->none\nlimit-removed:find=10/1m0s->none\nlimit-removed:signUp=5/1h0m0s->none", requests: []string{listed, created}, comment: "so every limit is removed", file: "more/limits.yaml",
		},
		{
			name: "a module that is gone, approved", before: inFolders, edit: "git rm -q -r svc/b", all: true,
			allow: "svc/b: limit-removed:send=10/1m0s->none\nsvc/b: limit-removed:find=10/1m0s->none\n" +
				"svc/b: limit-removed:signUp=5/1h0m0s->none\n",
			requests: []string{listed, created}, comment: "so every limit is removed", file: "svc/b/limits/limits.yaml",
		},
		{
			name: "an approval without its module", before: inFolders, edit: "git rm -q -r svc/b", all: true, fails: "Annotate, and fail on changes without approval",
			allow: "limit-removed:send=10/1m0s->none", prints: "begin the approval with the directory of the file, as in svc/b: limit-removed:send=10/1m0s->none",
			requests: []string{listed, created}, comment: "so every limit is removed", file: "svc/b/limits/limits.yaml",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := checkOut(t, row.before, row.edit)
			c.allow = row.allow
			c.asOnGitHub(w.Jobs["limits"].Steps[0].With["fetch-depth"])
			if row.commented {
				c.comment("github-actions[bot]")
			}
			if row.foreign {
				c.comment("mallory")
			}
			printed, failed := c.perform(review)
			assert.Equal(t, row.fails, failed, printed)
			assert.Contains(t, printed, row.prints)
			if !row.all {
				assert.NotContains(t, printed, "signUp", "that is the base branch's edit")
			}
			assert.ElementsMatch(t, row.requests, c.requests())
			if row.comment != "" {
				comment, err := os.ReadFile(filepath.Join(c.bin, "body"))
				require.NoError(t, err)
				assert.True(t, strings.HasPrefix(string(comment), "<!-- ratelimitgen review -->\n"), "%s", comment)
				assert.Contains(t, string(comment), row.comment)
				if row.comment != "No limit has changed." {
					assert.Contains(t, string(comment), "<!-- ratelimitgen diff "+cmp.Or(row.file, "limits/limits.yaml")+" -->\n")
				}
			}
		})
	}
}

// The hooks are run as pre-commit runs them: by a shell's words, with the names of the files behind them unless they take
// none.
func TestPreCommitHooks(t *testing.T) {
	var hooks []struct {
		ID, Name, Description, Entry, Language, Files string
		PassFilenames                                 *bool `yaml:"pass_filenames"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "../../.pre-commit-hooks.yaml")))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&hooks))
	require.Len(t, hooks, 2)
	guide := readmeSection(t, "CI")
	for _, row := range []struct {
		name, edit string
		// codes are the exit codes of the hooks.
		codes [2]int
		after string
	}{
		{"nothing", "echo more > file", [2]int{exitOK, exitOK}, "capacity: 20}"},
		{"spacing", "sed -i 's/capacity: 20/capacity:    20/'" + generated, [2]int{exitOK, exitOK}, "capacity: 20}"},
		{"a mistake", "sed -i s/token/tokn/ limits/limits.yaml", [2]int{exitFindings, exitFindings}, "tokn"},
		{"stale code", "sed -i 's/capacity: 20/capacity: 40/' limits/limits.yaml", [2]int{exitFindings, exitOK}, "capacity: 40}"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := checkOut(t, "", row.edit)
			for i, hook := range hooks {
				assert.Equal(t, "system", hook.Language)
				assert.Contains(t, guide, "id: "+hook.ID)
				of := regexp.MustCompile(hook.Files)
				for file, want := range map[string]bool{"limits.yaml": true, "a/limits.yaml": true, "a/mylimits.yaml": false, "limits.yaml.orig": false} {
					assert.Equal(t, want, of.MatchString(file), file)
				}
				command := hook.Entry
				if hook.PassFilenames == nil || *hook.PassFilenames {
					command += " limits/limits.yaml"
				}
				code, printed := c.run(command, []string{"sh", "-c"}, nil)
				assert.Equal(t, row.codes[i], code, "%s: %s", hook.ID, printed)
			}
			assert.Contains(t, read(t, filepath.Join(c.dir, "limits/limits.yaml")), row.after)
		})
	}
}

// The guide's driver has git show a review in place of a diff.
func TestDriverOfGit(t *testing.T) {
	section := readmeSection(t, "Review")
	attribute := regexp.MustCompile("`(limits.yaml diff=ratelimitgen)`").FindStringSubmatch(section)
	command := regexp.MustCompile(`(?m)^git config diff\.ratelimitgen\..*$`).FindString(section)
	require.NotNil(t, attribute)
	require.NotEmpty(t, command)
	for _, row := range []struct{ name, edit, prints, log string }{
		{"an edit", "sed -i 's/capacity: 20/capacity: 40/' limits/limits.yaml", "loosened      send", "loosened      send"},
		{"no edit", "echo more > file", "", "+more"},
		{"a mistake", "sed -i s/token/tokn/ limits/limits.yaml", "[bad-kind]", "[bad-kind]"},
		{"a file that is gone", "rm -r limits; echo more > file", "limits/limits.yaml is new or gone", "+more"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := checkOut(t, "", "echo '"+attribute[1]+"' > .gitattributes\n"+command)
			c.must(row.edit)
			_, printed := c.run("git diff -- limits/limits.yaml", []string{"sh", "-c"}, nil)
			assert.Contains(t, printed, row.prints)
			c.must("git add . && git commit -qm more --allow-empty")
			_, printed = c.run("git show --ext-diff", []string{"sh", "-c"}, nil)
			assert.Contains(t, printed, row.log)
		})
	}
}

func TestScriptForOtherCI(t *testing.T) {
	_, script, _ := recipes(t)
	for _, row := range []struct {
		name, before, edit, clone string
		code                      int
		prints                    string
	}{
		{"a full clone", "", "sed -i 's/capacity: 20/capacity: 40/'" + generated, "", exitOK, "limits/limits.yaml:3:3: send: loosened"},
		{"a shallow clone", "", "sed -i 's/capacity: 20/capacity: 40/'" + generated, "--depth=1", exitOK, "limits/limits.yaml:3:3: send: loosened"},
		{"a breaking edit", "", "sed -i 's/find:/lookUp:/'" + generated, "--depth=1", exitFindings, "beside the edit:\n  # ratelimitgen:allow limit-renamed:lookUp=find->lookUp\n"},
		{"a mistake", "", "sed -i s/token/tokn/ limits/limits.yaml", "", exitFindings, "[bad-kind]"},
		{"stale code", "", "sed -i 's/rate: 10/rate: 11/' limits/limits.yaml", "", exitFindings, "limits/limits.gen.go is out of date with limits/limits.yaml"},
		{"a new file", "mv limits ..; echo some > file", "mv ../limits . && ratelimitgen generate limits/limits.yaml", "", exitOK, "so\nevery limit is new"},
		{"a file that is gone", "", "git rm -q -r limits; echo some > file", "", exitFindings, "so every limit is removed"},
		{"a new file with a mistake", "mv limits ..; echo some > file", "mv ../limits . && sed -i s/token/tokn/ limits/limits.yaml", "", exitFindings, "[bad-kind]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := checkOut(t, row.before, row.edit)
			c.must("git clone -q " + row.clone + " --branch pr file://$PWD ../work")
			c.dir = filepath.Join(c.dir, "../work")
			code, printed := c.run(script, []string{"sh", "-c"}, map[string]string{"BASE": "main"})
			assert.Equal(t, row.code, code, printed)
			assert.Contains(t, printed, row.prints)
			if !strings.Contains(printed, "every limit is") {
				assert.NotContains(t, printed, "signUp", "that is the base branch's edit")
			}
		})
	}
}

// checkout is a repository, and a directory with the programs that the recipes call.
type checkout struct {
	t        *testing.T
	dir, bin string
	// allow is the input of the action.
	allow string
}

// checkOut creates a repository with the branch pr, which has the edit, and main, which has a later commit. before runs on
// the base of both.
func checkOut(t *testing.T, before, edit string) *checkout {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "origin")
	c := &checkout{t: t, dir: dir, bin: writeFiles(t, dir, recipeLimits)}
	// Without maintenance, for which each commit, merge and fetch starts another process.
	config := "[user]\nname = a\nemail = a@example.com\n[maintenance]\nauto = false\n"
	for name, text := range map[string]string{"go": stubGo, "gh": stubGH, ".gitconfig": config} {
		require.NoError(t, os.WriteFile(filepath.Join(c.bin, name), []byte(text), 0o755))
	}
	if before == "" {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.CopyFS(dir, baseFiles(t)))
	} else {
		c.commitBase(before)
	}
	c.must(edit + "\ngit add . && git commit -qm edit")
	return c
}

// commitBase creates the repository without the edit, with the branch pr checked out. The branch later is where main goes
// on.
func (c *checkout) commitBase(before string) {
	c.must(`git init -q --template= -b main .
ratelimitgen generate limits/limits.yaml
` + before + `
git add . && git commit -qm one && git branch pr
if [ -e limits ]; then sed -i 's/rate: 5/rate: 6/' limits/limits.yaml; ratelimitgen generate limits/limits.yaml; git commit -qam two; fi
git checkout -q -b later
if [ -e limits ]; then sed -i 's/rate: 6/rate: 7/' limits/limits.yaml; git commit -qam three; fi
git checkout -q pr`)
}

var base struct {
	once  sync.Once
	files fstest.MapFS
}

// baseFiles returns a repository of commitBase. Making one takes a dozen processes, each of which costs tens of
// milliseconds.
func baseFiles(t *testing.T) fs.FS {
	base.once.Do(func() {
		c := checkOut(t, "true", "echo more > file")
		c.must("git reset -q --hard HEAD~1")
		base.files = fstest.MapFS{}
		files := os.DirFS(c.dir)
		require.NoError(t, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(files, name)
			base.files[name] = &fstest.MapFile{Data: text, Mode: 0o644}
			return err
		}))
	})
	return base.files
}

// asOnGitHub creates the clone that actions/checkout creates when a workflow runs again: the merge of the pull request
// into the base branch, which has later commits.
func (c *checkout) asOnGitHub(depth string) {
	c.t.Helper()
	fetch := "git fetch -q --depth=" + depth + " origin pull/7/merge"
	if depth == "0" {
		fetch = "git fetch -q origin '+refs/heads/*:refs/remotes/origin/*' pull/7/merge"
	}
	c.must(`git checkout -q --detach main && git merge -q -m merge pr && git update-ref refs/pull/7/merge HEAD
git update-ref refs/heads/main later && git branch -q -D later
git init -q --template= ../work && cd ../work && git remote add origin file://$OLDPWD
` + fetch + ` && git checkout -q --detach $(git ls-remote origin pull/7/merge | cut -f 1)`)
	c.dir = filepath.Join(c.dir, "../work")
}

// stubGo replaces go, and supports only go tool ratelimitgen, in a module that has the tool: with -n, it prints its path.
const stubGo = `#!/bin/sh
if [ "$1" = -C ]; then
	cd "$2" && grep -q ratelimitgen/cmd/ratelimitgen go.mod || exit 64
	shift 2
fi
case "$*" in
"tool -n ratelimitgen") command -v ratelimitgen ;;
"tool ratelimitgen "*) shift 2; exec ratelimitgen "$@" ;;
*) exit 64 ;;
esac
`

// comment adds an existing comment with the marker of the action.
func (c *checkout) comment(login string) {
	c.t.Helper()
	text := `[{"url": "https://api/comments/1", "user": {"login": "github-actions[bot]"}, "body": "another"},
		{"url": "https://api/comments/2", "user": {"login": "` + login + `"}, "body": "<!-- ratelimitgen review -->\nold"}]`
	require.NoError(c.t, os.WriteFile(filepath.Join(c.bin, "comments"), []byte(text), 0o644))
}

// stubGH replaces gh. It logs the requests to GitHub in the file requests, and keeps the comments in the file comments.
const stubGH = `#!/bin/sh
[ "$GH_TOKEN $1" = "secret api" ] || exit 4
shift
method=GET
while [ $# -gt 0 ]; do
	case $1 in
	-X) method=$2; shift 2 ;;
	-F) [ $method = PATCH ] || method=POST; cp "${2#body=@}" "$HOME/body"; shift 2 ;;
	--jq) filter=$2; shift 2 ;;
	-*) shift ;;
	*) url=$1; shift ;;
	esac
done
echo "$method $url" >> "$HOME/requests"
[ -e "$HOME/comments" ] || echo '[]' > "$HOME/comments"
case $method in
GET) jq -r "$filter" "$HOME/comments" ;;
POST) jq --rawfile body "$HOME/body" '. + [{url: "https://api/comments/2", user: {login: "github-actions[bot]"}, body: $body}]' "$HOME/comments" > "$HOME/more"
	mv "$HOME/more" "$HOME/comments" ;;
esac
`

// perform runs the steps of the action, and returns their output and the name of the step that failed.
func (c *checkout) perform(review composite) (printed, failed string) {
	c.t.Helper()
	for _, s := range review.Runs.Steps {
		code, text := c.run(s.Run, []string{"bash", "-eo", "pipefail", "-c"}, s.Env)
		printed += text
		if code != 0 {
			return printed, s.Name
		}
	}
	return printed, ""
}

// requests returns the requests that stubGH has logged.
func (c *checkout) requests() []string {
	text, _ := os.ReadFile(filepath.Join(c.bin, "requests"))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func (c *checkout) must(script string) {
	c.t.Helper()
	code, printed := c.run(script, []string{"sh", "-ec"}, nil)
	require.Zero(c.t, code, printed)
}

// run runs a script, and returns its exit code and its output.
func (c *checkout) run(script string, shell []string, environment map[string]string) (int, string) {
	c.t.Helper()
	var printed bytes.Buffer
	command := exec.Command(shell[0], append(shell[1:], script)...)
	command.Dir = c.dir
	command.Env = []string{"PATH=" + c.bin + ":" + os.Getenv("PATH"), "HOME=" + c.bin, "GITHUB_WORKSPACE=" + c.dir,
		"GITHUB_SERVER_URL=https://github.com", "GITHUB_REPOSITORY=us/app", "GITHUB_SHA=abc123",
		"GITHUB_BASE_REF=main", "RUNNER_TEMP=" + c.bin + "/temp"}
	for name, value := range environment {
		command.Env = append(command.Env, name+"="+contexts.Replace(strings.ReplaceAll(value, "${{ inputs.allow }}", c.allow)))
	}
	command.Stdout, command.Stderr = &printed, &printed
	err := command.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode(), printed.String()
	}
	require.NoError(c.t, err)
	return 0, printed.String()
}
