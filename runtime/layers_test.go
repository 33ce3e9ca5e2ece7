package runtime_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inseparable are files whose types name one another.
var inseparable = map[string][]string{
	"runtime":                          {"policy.go", "numbers.go"},
	"runtime/sqlstore/internal/conn":   {"place.go", "schema.go", "server.go"},
	"runtime/sqlstore/internal/decide": {"plan.go", "upsert.go", "engine.go"},
	"runtime/storetest/model":          {"run.go", "settle.go"},
	"runtime/limithttp":                {"binder.go", "denial.go"},
	"runtime/sqlstore/internal/group":  {"batch.go", "flight.go"},
}

// TestFilesHaveAnOrder: the files of a package can be put in an order in which none uses a later one.
func TestFilesHaveAnOrder(t *testing.T) {
	for _, root := range []string{"cmd/ratelimitgen", "gen", "internal", "runtime"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || entry.Name() == "testdata" {
				return filepath.SkipDir // a program for tests only
			}
			folder, _ := filepath.Rel("..", path)
			rest := usesOf(t, path)
			// What uses only files that were removed is removed next.
			for removed := true; removed; {
				removed = false
				for file, uses := range rest {
					if !slices.ContainsFunc(slices.Collect(maps.Keys(uses)), func(other string) bool {
						return rest[other] != nil && !slices.Contains(inseparable[folder], other)
					}) {
						delete(rest, file)
						removed = true
					}
				}
			}
			assert.Empty(t, rest, "files of %s use one another, or what uses them", folder)
			return nil
		}))
	}
}

// usesOf returns which identifiers each file of a package uses, by the file that declares them.
func usesOf(t *testing.T, folder string) map[string]map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	fset, uses := token.NewFileSet(), map[string]map[string]string{}
	var files []*ast.File
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			file, err := parser.ParseFile(fset, path, nil, 0)
			require.NoError(t, err)
			files = append(files, file)
			uses[filepath.Base(path)] = map[string]string{}
		}
	}
	// What is imported is of no interest, and the errors that its absence causes are not either.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	ignore := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = ignore.Check(folder, fset, files, info)
	for id, object := range info.Uses {
		from, to := fset.Position(id.Pos()).Filename, fset.Position(object.Pos()).Filename
		if to != "" && from != to {
			uses[filepath.Base(from)][filepath.Base(to)] = object.Name()
		}
	}
	return uses
}

// noImports has no package.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not imported", path)
}
