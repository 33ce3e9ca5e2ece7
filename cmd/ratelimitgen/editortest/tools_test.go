package editortest

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goServer is at a version with which these tests have passed. The lockfiles in the folder npm have those of the packages of
// npm.
const goServer = "golang.org/x/tools/gopls@v0.23.0"

//go:embed npm
var lockfiles embed.FS

// fromNPM returns the folder into which a package of npm is installed, by its lockfile in the folder npm.
func fromNPM(t *testing.T, name string) string {
	t.Helper()
	need(t, "node")
	need(t, "npm")
	files, err := fs.Sub(lockfiles, "npm/"+name)
	require.NoError(t, err)
	lock, err := fs.ReadFile(files, "package-lock.json")
	require.NoError(t, err)
	return installed(t, fmt.Sprintf("%s-%.8x", name, sha256.Sum256(lock)), func(into string) *exec.Cmd {
		require.NoError(t, os.CopyFS(into, files))
		return exec.Command("npm", "ci", "--prefix", into, "--ignore-scripts", "--no-audit", "--no-fund")
	})
}

// root is the folder of ratelimitgen's module.
var root = func() string {
	path, err := filepath.Abs("../../..")
	if err != nil {
		panic(err)
	}
	return path
}()

// tool is the path of ratelimitgen, which TestMain builds.
var tool string

func TestMain(m *testing.M) {
	code, err := runWithTool(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runWithTool(m *testing.M) (code int, err error) {
	folder, err := os.MkdirTemp("", "ratelimitgen")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(folder)
	tool = filepath.Join(folder, "ratelimitgen")
	build := exec.Command("go", "build", "-o", tool, "./cmd/ratelimitgen")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("%w: %s", err, out)
	}
	return m.Run(), nil
}

// ratelimitgen runs the program in a folder, and returns its standard output.
func ratelimitgen(t *testing.T, folder string, args ...string) string {
	t.Helper()
	command := exec.Command(tool, args...)
	command.Dir = folder
	out, err := command.Output()
	require.NoError(t, err, "ratelimitgen %s", args)
	return string(out)
}

// startYAML starts yaml-language-server in a folder. It fetches no schemas.
func startYAML(t *testing.T, folder string) *client {
	t.Helper()
	server := fromNPM(t, "yaml-language-server")
	none := map[string]any{"enable": false}
	settings := map[string]any{"yaml": map[string]any{"schemaStore": none, "kubernetesCRDStore": none}}
	return start(t, folder, settings, nil, "node", filepath.Join(server, "node_modules/yaml-language-server/bin/yaml-language-server"), "--stdio")
}

func startGo(t *testing.T, folder string) *client {
	t.Helper()
	server := installed(t, goServer, func(into string) *exec.Cmd {
		install := exec.Command("go", "install", goServer)
		install.Env = append(os.Environ(), "GOBIN="+into)
		return install
	})
	return start(t, folder, nil, []string{"GOFLAGS=-mod=mod", "GOWORK=off"}, filepath.Join(server, "gopls"), "serve")
}

// installed returns the folder of a server in the user's cache, and installs the server if it is missing.
func installed(t *testing.T, server string, install func(into string) *exec.Cmd) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	cache = filepath.Join(cache, "ratelimitgen-editortest")
	folder := filepath.Join(cache, strings.ReplaceAll(server, "/", "-"))
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	require.NoError(t, os.MkdirAll(cache, 0o755))
	temporary, err := os.MkdirTemp(cache, "new-")
	require.NoError(t, err)
	defer os.RemoveAll(temporary)
	if out, err := install(temporary).CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("%s cannot be installed: %v\n%s", server, err, out))
	}
	require.NoError(t, os.Chmod(temporary, 0o755))
	if err := os.Rename(temporary, folder); err != nil {
		require.DirExists(t, folder, "another run may have installed it, but: %v", err)
	}
	return folder
}

// need calls missing if a program is not in PATH.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		missing(t, err.Error())
	}
}

// missing skips the test, or in CI fails it.
func missing(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("CI") == "" {
		t.Skip(reason)
	}
	t.Fatal(reason)
}
