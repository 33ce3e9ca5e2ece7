package runtime_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// registryHost is the host of a registry of packages, in an address. A dot is in brackets, so that this file has none.
var registryHost = regexp.MustCompile(`(?i)://[^/\s"']*(debian[.]org|ubuntu[.]com|postgresql[.]org|npmjs[.](org|com)|yarnpkg[.]com|` +
	`pypi[.]org|pythonhosted[.]org|proxy[.]golang[.]org|crates[.]io|docker[.](io|com)|ghcr[.]io|nodesource[.]com|mysql[.]com/(apt|yum))`)

// freeInstall is a command that installs packages of npm without the hashes of a lockfile, or runs their scripts.
var freeInstall = regexp.MustCompile(`npm"?,? "?(install|i|add)\b|npx |yarn (add|install)|"npm", "ci"|npm ci`)

// A machine gets packages from its own sources, which may be mirrors, and by the hashes of lockfiles.
func TestPackagesComeFromTheMachinesOwnSources(t *testing.T) {
	locks := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() {
			if name == ".git" || name == "node_modules" || path == filepath.Join("..", "testdata", "published") {
				return filepath.SkipDir // those cite the pages from which they were read
			}
			return nil
		} else if !entry.Type().IsRegular() || path == filepath.Join("..", "runtime", "downloads_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		assert.Empty(t, registryHost.FindString(string(text)), "%s names the host of a registry: use the sources of the machine", path)
		for _, found := range freeInstall.FindAllIndex(text, -1) {
			line, _, _ := strings.Cut(string(text[found[0]:]), "\n")
			ci := strings.HasPrefix(line, "npm ci") || strings.HasPrefix(line, `"npm", "ci"`)
			// Messages about the command are none.
			message := strings.HasPrefix(line, "npm ci: ")
			assert.True(t, ci && (message || strings.Contains(line, "--ignore-scripts")),
				"%s: %s: use npm ci --ignore-scripts, with a lockfile", path, line)
		}
		switch entry.Name() {
		case "package.json":
			assert.FileExists(t, filepath.Join(filepath.Dir(path), "package-lock.json"))
		case "package-lock.json":
			locks++
			var lock struct {
				Packages map[string]struct{ Resolved, Integrity string }
			}
			require.NoError(t, json.Unmarshal(text, &lock), path)
			require.NotEmpty(t, lock.Packages, path)
			for name, p := range lock.Packages {
				assert.Empty(t, p.Resolved, "%s: remove the addresses", path)
				assert.Equal(t, name != "", strings.HasPrefix(p.Integrity, "sha512-"), "%s: the hash of %q", path, name)
			}
		}
		return nil
	}))
	assert.Positive(t, locks)
}
