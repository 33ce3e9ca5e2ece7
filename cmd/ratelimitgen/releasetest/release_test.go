package releasetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	root       = "../../.."
	modulePath = "github.com/ratelimitgen/ratelimitgen"
)

// tracked returns the names of the files that git tracks.
func tracked(t *testing.T) []string {
	t.Helper()
	names := strings.Split(strings.TrimSuffix(output(t, root, nil, "git", "ls-files", "-z"), "\x00"), "\x00")
	require.Greater(t, len(names), 500)
	return names
}

// output runs a command and returns its standard output.
func output(t *testing.T, dir string, environment []string, name string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.Command(name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), environment...)
	command.Stdout, command.Stderr = &stdout, &stderr
	require.NoError(t, command.Run(), "%s %q\n%s%s", name, args, &stdout, &stderr)
	return stdout.String()
}

// A name that Windows reserves, or two that differ only in case, make a module zip invalid and a checkout fail.
func TestFileNamesAreAllowedOnEverySystem(t *testing.T) {
	folded := map[string]string{}
	for _, name := range tracked(t) {
		assert.NoError(t, module.CheckFilePath(name))
		for p := name; p != "."; p = path.Dir(p) {
			assert.Equal(t, strings.TrimSpace(path.Base(p)), path.Base(p), "Windows allows no space at an end of a name: %s", name)
			first, ok := folded[strings.ToLower(p)]
			assert.True(t, !ok || first == p, "%s and %s differ only in case", first, p)
			folded[strings.ToLower(p)] = p
		}
	}
}

// file is a tracked file, as it is in the work tree.
type file struct{ name string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(root, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(root, f.name)) }

// proxy is a directory that go reads as GOPROXY.
type proxy struct{ dir string }

// newProxy returns an empty directory, and the environment of its users.
func newProxy(t *testing.T) (p proxy, environment []string) {
	t.Helper()
	p = proxy{t.TempDir()}
	others := strings.TrimSpace(output(t, ".", nil, "go", "env", "GOPROXY"))
	return p, []string{"GOPROXY=file://" + filepath.ToSlash(p.dir) + "," + others, "GONOSUMDB=" + modulePath, "GOFLAGS=-modcacherw", "GOWORK=off"}
}

// version returns another version for each run, because the go command caches versions.
func version() string { return fmt.Sprintf("v0.1.%d", time.Now().UnixNano()) }

// add publishes a version of a module: its go.mod, and its zip as archived writes it.
func (p proxy) add(t *testing.T, m module.Version, goMod []byte, archived func(io.Writer) error) {
	t.Helper()
	var archive bytes.Buffer
	require.NoError(t, archived(&archive))
	t.Logf("%s: a zip of %d KiB", m, archive.Len()>>10)
	info, err := json.Marshal(map[string]any{"Version": m.Version, "Time": time.Now()})
	require.NoError(t, err)
	dir := filepath.Join(p.dir, filepath.FromSlash(m.Path), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, text := range map[string][]byte{"list": []byte(m.Version + "\n"), m.Version + ".zip": archive.Bytes(), m.Version + ".mod": goMod, m.Version + ".info": info} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	cache := strings.TrimSpace(output(t, ".", nil, "go", "env", "GOMODCACHE"))
	t.Cleanup(func() {
		copies, err := filepath.Glob(filepath.Join(cache, "cache", "download", filepath.FromSlash(m.Path), "@v", m.Version+".*"))
		require.NoError(t, err)
		for _, path := range append(copies, filepath.Join(cache, filepath.FromSlash(m.Path)+"@"+m.Version)) {
			assert.NoError(t, os.RemoveAll(path))
		}
	})
}

// publish publishes the root module, made of the tracked files as a proxy makes it from a tag, and returns the environment
// of its users.
func publish(t *testing.T) (environment []string) {
	t.Helper()
	p, environment := newProxy(t)
	var files []zip.File
	for _, name := range tracked(t) {
		files = append(files, file{name})
	}
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	m := module.Version{Path: modulePath, Version: version()}
	p.add(t, m, goMod, func(w io.Writer) error { return zip.Create(w, m, files) })
	return environment
}

// part returns the text below a heading of the README that the group of a regular expression matches.
func part(t *testing.T, readme, heading, pattern string) string {
	t.Helper()
	_, section, ok := strings.Cut(readme, "\n## "+heading+"\n")
	require.True(t, ok, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	m := regexp.MustCompile(pattern).FindStringSubmatch(section)
	require.NotNil(t, m, "%s: %s", heading, pattern)
	return m[1]
}

// The quick start of the README, followed word for word in an empty directory by a user who gets the module from a proxy,
// except that another port is used if 8080 is taken.
func TestQuickStart(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	quickStart := func(pattern string) string { return part(t, string(text), "Quick start", pattern) }
	create := quickStart("`(go mod init .*?)`")
	install := quickStart("(?s)```\n(go get -tool .*?)```")
	program := quickStart("(?s)```go\n(package main\n.*?)```")
	start := quickStart("Run it with `(.*?)`")
	requests := quickStart("`(for i in .*?)`")
	denied := quickStart("(?s)```\n(HTTP/1.1 429 .*?)```")

	port := freePort(t)
	program, requests = strings.Replace(program, `":8080"`, `"`+port+`"`, 1), strings.Replace(requests, ":8080", port, 1)
	require.Contains(t, program, port)
	require.Contains(t, requests, port)
	environment, dir := publish(t), t.TempDir()
	output(t, dir, environment, "sh", "-ec", create)
	output(t, dir, environment, "sh", "-ec", install)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644))
	serve(t, dir, environment, start, port)

	answers := strings.Split(output(t, dir, nil, "sh", "-ec", requests), "HTTP/1.1 ")[1:]
	require.Len(t, answers, 6)
	for _, answer := range answers[:5] {
		assert.Regexp(t, `^200 OK\r\n(?s:.*)\r\n\r\nhello\n$`, answer)
	}
	for line := range strings.Lines(denied) {
		assert.Contains(t, "HTTP/1.1 "+answers[5], strings.TrimSpace(line)+"\r\n")
	}
	assert.Contains(t, answers[5], `"violated-policies"`)

	t.Run("go generate", func(t *testing.T) { generates(t, dir, environment) })
}

// generates compiles the limits into another package by a directive of go generate. After an edit, go tool passes on the
// exit code of a check.
func generates(t *testing.T, dir string, environment []string) {
	check := func() (code int, printed string) {
		command := exec.Command("go", "tool", "ratelimitgen", "generate", "-check", "-o", "quotas/limits.gen.go", "limits/limits.yaml")
		command.Dir, command.Env = dir, append(os.Environ(), environment...)
		out, _ := command.CombinedOutput()
		return command.ProcessState.ExitCode(), string(out)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "quotas"), 0o755))
	directive := "package quotas\n\n//go:generate go tool ratelimitgen generate ../limits/limits.yaml\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "quotas", "quotas.go"), []byte(directive), 0o644))
	assert.Empty(t, output(t, dir, environment, "go", "generate", "./..."))
	output(t, dir, environment, "go", "vet", "./...")
	code, printed := check()
	require.Zero(t, code, printed)

	path := filepath.Join(dir, "limits", "limits.yaml")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte("rate: 10"), []byte("rate: 20"), 1), 0o644))
	code, printed = check()
	assert.Equal(t, 1, code, printed)
	assert.Contains(t, printed, "quotas/limits.gen.go is out of date with limits/limits.yaml; run: go tool ratelimitgen generate -o quotas/limits.gen.go limits/limits.yaml")
}

// freePort returns ":8080" if that port is free, and otherwise another one.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", ":8080")
	if err != nil {
		l, err = net.Listen("tcp", ":0")
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	return fmt.Sprintf(":%d", l.Addr().(*net.TCPAddr).Port)
}

// serve starts a server by a command line, waits until it accepts connections, and stops it after the test.
func serve(t *testing.T, dir string, environment []string, line, port string) {
	t.Helper()
	var printed bytes.Buffer
	command := exec.Command("sh", "-ec", line)
	command.Dir, command.Env = dir, append(os.Environ(), environment...)
	command.Stdout, command.Stderr = &printed, &printed
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // because go run starts the program as another process
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	go func() {
		command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	for {
		if c, err := net.Dial("tcp", "localhost"+port); err == nil {
			c.Close()
			return
		}
		select {
		case <-ended:
			require.Fail(t, "the program has ended", "%s\n%s", line, &printed)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
