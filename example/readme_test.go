package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// guides are the pages for users. Code in them must be valid.
var guides = []string{
	"../README.md", "../example/README.md", "../gen/spec/README.md", "../cmd/ratelimitgen/README.md",
	"../runtime/GUARANTEES.md", "../runtime/sqlstore/README.md", "../runtime/COMPATIBILITY.md", "../runtime/NOT-OFFERED.md", "../.github/CONTRIBUTING.md",
}

// linkedGuides are guides, too. Their code is tested beside them.
var linkedGuides = []string{"../runtime/limithttp/README.md", "../runtime/TESTING.md", "../gen/spec/FROM.md"}

// blocks returns the code blocks of a language in the guides.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	var found []string
	for _, path := range guides {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
	}
	require.NotEmpty(t, found)
	return found
}

// Every page for users is linked from the README once, and every relative link leads to a file.
func TestGuidesAreLinked(t *testing.T) {
	link := regexp.MustCompile(`(?:\]\(|<img src=")([^)#:"]+)(#[^)]*)?[)"]`)
	code := regexp.MustCompile("(?s)\n```.*?\n```\n")
	linked := map[string]int{}
	all := slices.Concat(guides, linkedGuides)
	for _, path := range all {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), "\n"), -1) {
			target := filepath.Join(filepath.Dir(path), m[1])
			_, err := os.Stat(target)
			assert.NoError(t, err, "link in %s", path)
			if path == guides[0] {
				linked[target]++
			}
		}
	}
	for _, path := range all[1:] {
		assert.Equal(t, 1, linked[filepath.Clean(path)], "links to %s in the README", path)
	}
}

// Every link to a section leads to its heading.
func TestGuidesLinkToSections(t *testing.T) {
	link, heading := regexp.MustCompile(`\]\(([^)\s]+\.md)?#([^)]+)\)`), regexp.MustCompile(`(?m)^#+ (.*)$`)
	headings := func(path string) (anchors []string) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
			dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
			anchors = append(anchors, strings.ReplaceAll(dropped, " ", "-"))
		}
		return anchors
	}
	links := 0
	for _, path := range slices.Concat(guides, linkedGuides, []string{"../runtime/sqlstore/CAPACITY.md"}) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			links++
			if !strings.HasSuffix(target, "DIAGNOSTICS.md") { // whose anchors are ids
				assert.Contains(t, headings(target), m[2], "%s links to %s", path, target)
			}
		}
	}
	assert.Greater(t, links, 20)
}

// The page has every method of a handle, of a reservation and of a slot.
func TestReadmeHasAllMethods(t *testing.T) {
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, of := range []reflect.Type{
		reflect.TypeFor[limiter.Limit](), reflect.TypeFor[limiter.ReservableLimit](), reflect.TypeFor[limiter.ReserveOnlyLimit](),
		reflect.TypeFor[limiter.SlotLimit](), reflect.TypeFor[*limiter.Reservation](), reflect.TypeFor[*limiter.Slot](),
	} {
		for i := range of.NumMethod() {
			if _, ofDecision := reflect.TypeFor[*runtime.Decision]().MethodByName(of.Method(i).Name); !ofDecision {
				assert.True(t, regexp.MustCompile("[`.]"+of.Method(i).Name+"[`(]").Match(page), "the page lacks %s of %s", of.Method(i).Name, of)
			}
		}
	}
}

func TestReadmeYAMLIsValid(t *testing.T) {
	for _, block := range blocks(t, "yaml") {
		file, diagnostics := fields.Parse("README.md", []byte(block))
		assert.Empty(t, diagnostics)
		assert.NotNil(t, file)
	}
}

// Each block of Go is compiled as the body of a function. The whole program of the README is tested in cmd/ratelimitgen.
func TestReadmeGoCompiles(t *testing.T) {
	var src strings.Builder
	src.WriteString(readmeHeader)
	for i, block := range blocks(t, "go") {
		if strings.HasPrefix(block, "package ") {
			continue
		}
		parameters := readmeParameters
		if !strings.Contains(block, "limit := ") {
			parameters += ", limit *limits.Limits"
		}
		if !strings.Contains(block, "store, err := ") {
			parameters += ", store *sqlite.Store"
		}
		fmt.Fprintf(&src, "\nfunc block%d(%s) error {\n%s\n%s\treturn nil\n}\n", i, parameters, block, used(block))
	}
	source := filepath.Join(t.TempDir(), "readme.go")
	require.NoError(t, os.WriteFile(source, []byte(src.String()), 0o644))
	target, err := filepath.Abs("readme/readme.go")
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{target: source}})
	require.NoError(t, err)
	overlayPath := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(overlayPath, overlay, 0o644))

	out, err := exec.Command("go", "build", "-overlay", overlayPath, "./readme").CombinedOutput()
	assert.NoError(t, err, "%s\n%s", out, src.String())
}

// used returns statements that use the variables of a block, because unused ones do not compile.
func used(block string) string {
	var b strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^([\w, ]+) := `).FindAllStringSubmatch(block, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			fmt.Fprintf(&b, "\t_ = %s\n", name)
		}
	}
	return b.String()
}

const readmeParameters = `ctx context.Context, db *sql.DB, userID int64, user, team, model, partner string,
	complete func(context.Context) (int64, error), secret []byte, jobs []struct {
		UserID int64
		Run    func(context.Context)
	}`

const readmeHeader = `package readme

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/console"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

var _ = []any{errors.Join, fmt.Sprint, time.Now, limits.New, limiter.New, memstore.Store{}.Clock, dialect.All, sqlstore.New, sqlite.Open,
	slog.Default, http.Handle, os.Args, console.New, observe.NewLog, operate.Program.Main}
`
