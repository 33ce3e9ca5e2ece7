package runtime_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readMap(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

// maps are the pages with drawings and recipes.
var pages = []string{"README.md", "../gen/README.md"}

var (
	labelOf  = regexp.MustCompile(`(\w+)\["([^"]+)"\]`)
	likeLine = regexp.MustCompile("(?m)^Like .*$")
	placeOf  = regexp.MustCompile("(?m)^- `([^`]+)`: (.+)$")
	quoted   = regexp.MustCompile("`([^`]+)`")
)

// helpers are packages that only tests import.
var helpers = []string{"runtime/internal/runtimetest", "runtime/sqlstore/internal/agree", "runtime/sqlstore/internal/live"}

// TestMapShowsTheImports compares the dotted arrows with go list: all imports between packages of this module, without
// those that follow from others.
func TestMapShowsTheImports(t *testing.T) {
	drawn := map[string]bool{}
	for _, page := range pages {
		_, drawing, _ := strings.Cut(readMap(t, page), "```mermaid\n")
		drawing, _, _ = strings.Cut(drawing, "```")
		labels := map[string]string{"gen": "gen"}
		for _, m := range labelOf.FindAllStringSubmatch(drawing, -1) {
			labels[m[1]] = m[2]
		}
		for line := range strings.Lines(labelOf.ReplaceAllString(drawing, "$1")) {
			steps := strings.Split(strings.TrimSpace(line), " -.-> ")
			for i := range len(steps) - 1 {
				for _, to := range strings.Split(steps[i+1], " & ") {
					drawn[labels[steps[i]]+" -> "+labels[to]] = true
				}
			}
		}
	}
	assert.Equal(t, slices.Sorted(maps.Keys(importArrows(t))), slices.Sorted(maps.Keys(drawn)), "draw these arrows in runtime/README.md or gen/README.md")
}

// importArrows returns the imports between packages of this module, as "from -> to".
func importArrows(t *testing.T) map[string]bool {
	t.Helper()
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = ".."
	out, err := list.Output()
	require.NoError(t, err)
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		var ours []string
		for _, path := range strings.Fields(line) {
			if path, ok := strings.CutPrefix(path, module+"/"); ok {
				ours = append(ours, path)
			}
		}
		// Helpers of tests and programs of tests are no part of the house.
		if strings.HasPrefix(ours[0], "testdata/") || slices.Contains(helpers, ours[0]) {
			continue
		}
		imports[ours[0]] = ours[1:]
	}
	arrows := map[string]bool{}
	for from, all := range imports {
		for _, to := range all {
			follows := slices.ContainsFunc(all, func(other string) bool { return other != to && reaches(imports, other, to) })
			if !follows {
				arrows[from+" -> "+to] = true
			}
		}
	}
	return arrows
}

func reaches(imports map[string][]string, from, to string) bool {
	return slices.ContainsFunc(imports[from], func(next string) bool { return next == to || reaches(imports, next, to) })
}

// TestPathsNameFunctions looks for the functions of the table of lone calls in the packages under runtime.
func TestPathsNameFunctions(t *testing.T) {
	_, section, found := strings.Cut(readMap(t, "README.md"), "\n### A lone call, by driver\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	declared := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			of, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			receiver := ""
			if of.Recv != nil {
				receiver = types.ExprString(of.Recv.List[0].Type) + "."
				if strings.HasPrefix(receiver, "*") {
					receiver = "(" + strings.TrimSuffix(receiver, ".") + ")."
				}
			}
			declared[receiver+of.Name.Name] = true
		}
		return nil
	}))
	names := quoted.FindAllStringSubmatch(section, -1)
	require.Greater(t, len(names), 20)
	for _, name := range names {
		if name[1] != "Do" {
			assert.True(t, declared[name[1]], "no function %s: the path of a lone call has changed", name[1])
		}
	}
}

// brief are the locks that are held for operations in memory on the fields beside them.
var brief = []string{
	"waitQueue.mu in limiter/waitqueue.go", "Slot.mu in limiter/slot.go", "View.mu in override/view.go", "Gate.mu in internal/conn/gate.go",
	"Circuit.mu in internal/conn/circuit.go", "clock.mu in internal/conn/clock.go", "Executor.mu in internal/conn/exec.go",
	"queue.mu in internal/group/queue.go", "undoer.mu in sqlstore/undo.go", "Store.mu in internal/lease/store.go",
	"Store.mu in internal/denycache/denycache.go", "Store.mu in internal/lane/lane.go", "Places.mu in internal/table/places.go",
	"Prepared.mu in internal/table/prepare.go", "byLimit.mu in observe", "sketch.mu in observe", "Log.mu in observe",
	"Known.mu in internal/registry/registry.go", "InMemory.mu in internal/registry/memory.go", "Ledger.mu in internal/receipt/receipt.go",
	"SweepClock.mu in internal/meter/sweep.go", "Times.mu in internal/middleware/holds.go", "response.mu in limithttp/response.go",
}

// TestLocksAreListed compares the table of locks that are held for longer, and those above, with the mutexes of the packages
// under runtime.
func TestLocksAreListed(t *testing.T) {
	_, section, found := strings.Cut(readMap(t, "README.md"), "\n## Locks\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	listed := slices.Clone(brief)
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 2 {
			continue
		}
		if names := quoted.FindAllStringSubmatch(cells[1], -1); len(names) > 1 {
			for _, name := range names[:len(names)-1] {
				listed = append(listed, name[1]+" in "+names[len(names)-1][1])
			}
		}
	}
	for lock, path := range locks(t) {
		i := slices.IndexFunc(listed, func(row string) bool {
			name, in, _ := strings.Cut(row, " in ")
			return strings.HasPrefix(lock, name+" ") && strings.Contains("/"+path, "/"+in)
		})
		if assert.GreaterOrEqual(t, i, 0, "add `%s` to the locks in runtime/README.md, or to brief if it is held for operations in memory only", lock) {
			listed = slices.Delete(listed, i, i+1)
		}
	}
	assert.Equal(t, []string{"View.reading in override/view.go"}, listed, "the only lock that is a channel")
}

// locks returns the mutexes of structs and packages, as "name in path", with the path.
func locks(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || slices.Contains(helpers, "runtime/"+path) || path == "storetest" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		add := func(before string, names []*ast.Ident, of ast.Expr) {
			if of == nil || !strings.HasPrefix(types.ExprString(of), "sync.") || !strings.HasSuffix(types.ExprString(of), "Mutex") {
				return
			}
			for _, name := range names {
				all[before+name.Name+" in "+path] = path
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						add(n.Name.Name+".", field.Names, field.Type)
					}
				}
			case *ast.ValueSpec:
				add("", n.Names, n.Type)
			}
			return true
		})
		return nil
	}))
	return all
}

// recipe has the places and the names of the examples of a recipe, which may have a part in each page.
type recipe struct{ places, names []string }

// TestRecipesNameThePlaces compares each recipe with the files in which the identifier of its example occurs.
func TestRecipesNameThePlaces(t *testing.T) {
	recipes := map[string]*recipe{}
	for _, page := range pages {
		_, text, _ := strings.Cut(readMap(t, page), "\n## Recipes\n")
		for _, section := range strings.Split(text, "\n### ")[1:] {
			title, _, _ := strings.Cut(section, "\n")
			if recipes[title] == nil {
				recipes[title] = new(recipe)
			}
			recipes[title].add(t, page, section)
		}
	}
	require.Len(t, recipes, 11)
	for title, r := range recipes {
		t.Run(title, func(t *testing.T) {
			require.NotEmpty(t, r.names, "name an example: Like `Name`")
			assert.Equal(t, filesWith(t, r.names), slices.Sorted(slices.Values(r.places)), "the recipe must list the files with %v", r.names)
		})
	}
}

func (r *recipe) add(t *testing.T, page, section string) {
	t.Helper()
	for _, name := range quoted.FindAllStringSubmatch(likeLine.FindString(section), -1) {
		r.names = append(r.names, name[1])
	}
	for _, place := range placeOf.FindAllStringSubmatch(section, -1) {
		r.places = append(r.places, place[1])
		text, err := os.ReadFile(filepath.Join("..", place[1]))
		if !assert.NoError(t, err) {
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(place[2], -1) {
			assert.True(t, strings.Contains(string(text), name[1]), "%s says that %s is in %s", page, name[1], place[1])
		}
	}
}

// filesWith returns the files with an identifier or a string of one of the names. Tests, helpers of tests, benchmarks
// and examples are left out: the compiler or a failing test leads to them.
func filesWith(t *testing.T, names []string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path[min(len(path), len("../")):])
		if entry.IsDir() {
			skip := append([]string{".git", ".ci", "testdata", "example", "runtime/bench"}, helpers...)
			if slices.Contains(skip, path) || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", path), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found := false
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				found = found || slices.Contains(names, n.Name)
			case *ast.BasicLit:
				found = found || slices.Contains(names, strings.Trim(n.Value, `"`))
			}
			return !found
		})
		if found {
			files = append(files, path)
		}
		return nil
	}))
	return files
}
