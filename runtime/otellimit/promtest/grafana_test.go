package promtest

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/dashboard"
)

// The versions of Grafana's types, and of the compiler that compares with them, and the hashes of their packages.
//
//go:embed npm
var packages embed.FS

//go:embed testdata/board.ts
var boardTypes string

// The compiler refuses fields that Grafana does not have, values of other types, and the lack of a required field.
func TestDashboardsAreOfGrafanasTypes(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	write("board.ts", boardTypes)
	write("tsconfig.json", `{"compilerOptions": {"strict": true, "noEmit": true, "module": "nodenext", "skipLibCheck": true, "types": []}}`)
	require.NoError(t, os.Symlink(filepath.Join(installed(t), "node_modules"), filepath.Join(folder, "node_modules")))
	var board []byte
	for i, f := range files(t) {
		var err error
		board, err = dashboard.Grafana(f)
		require.NoError(t, err)
		write(fmt.Sprintf("file%d.ts", i), typed(board))
	}
	out, err := compile(folder)
	require.NoError(t, err, out)

	// The comparison finds mistakes at every depth.
	for i, mistake := range [][2]string{
		{`"refresh"`, `"refreshed"`},
		{`"schemaVersion": 39`, `"schemaVersion": "39"`},
		{`"collapsed": false`, `"collapsed": false, "description": "none"`},
		{`"displayMode": "list"`, `"displayMode": "lines"`},
		{`"calcs": [],`, ``},
		{`"fillOpacity": 10`, `"opacity": 10`},
		{`"fill": "dash"`, `"fill": "dashed"`},
	} {
		wrong := strings.Replace(string(board), mistake[0], mistake[1], 1)
		require.NotEqual(t, string(board), wrong, mistake)
		write("mistake.ts", typed([]byte(wrong)))
		out, err := compile(folder)
		require.Error(t, err, mistake)
		require.Equal(t, 1, strings.Count(out, "error TS"), "%d: %s", i, out)
	}
}

// typed returns a dashboard as a program whose literal has the type Board.
func typed(board []byte) string {
	return "import type { Board } from \"./board.js\";\nexport const board: Board = " + string(board)
}

func compile(folder string) (output string, err error) {
	c := exec.Command("node", "node_modules/typescript/bin/tsc", "--pretty", "false", "-p", ".")
	c.Dir = folder
	out, err := c.CombinedOutput()
	return string(out), err
}

// installed returns the folder of the user's cache into which the packages are installed. If they cannot be, the test is
// skipped, or in CI fails.
func installed(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	lock, err := packages.ReadFile("npm/package-lock.json")
	require.NoError(t, err)
	folder := filepath.Join(cache, "ratelimitgen-promtest", fmt.Sprintf("%x", sha256.Sum256(lock))[:16])
	// npm writes this file last.
	if _, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json")); err == nil {
		return folder
	}
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := packages.ReadFile("npm/" + name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), text, 0o644))
	}
	install := exec.Command("npm", "ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund")
	if out, err := install.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("npm ci: %v\n%s", err, out)
		}
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return folder
}
