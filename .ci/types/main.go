// Types checks the types of all packages of this module and of their tests, for other systems and processors. go vet would
// compile everything that they import first, of which SQLite alone takes minutes.
//
// Usage: go run ./.ci/types GOOS/GOARCH ...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	for _, target := range os.Args[1:] {
		if err := check(target); err != nil {
			fmt.Fprintf(os.Stderr, "types: %s: %v\n", target, err)
			os.Exit(1)
		}
	}
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	// ImportMap is from an import in the files to the ImportPath, where they differ.
	ImportMap map[string]string
	Module    *struct{ Main bool }
}

// check checks the packages of a target in the order of their imports.
func check(target string) error {
	system, processor, _ := strings.Cut(target, "/")
	list := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./...")
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return err
	}
	if err := list.Start(); err != nil {
		return err
	}
	sizes := types.SizesFor("gc", processor)
	if sizes == nil {
		return errors.New("go/types does not know the processor")
	}
	checked, own := map[string]*types.Package{"unsafe": types.Unsafe}, 0
	for packages := json.NewDecoder(out); ; {
		var p listed
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		// The main package of a test has no file but one that the go command makes.
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		if p.Module != nil && p.Module.Main {
			own++
		}
		if checked[p.ImportPath], err = p.check(sizes, checked); err != nil {
			return err
		}
	}
	if err := list.Wait(); err != nil {
		return err
	}
	if own == 0 {
		return errors.New("there are no packages")
	}
	fmt.Printf("%s: the types of %d packages and tests are right\n", target, own)
	return nil
}

// check checks a package whose imports have been checked. Of one of another module, it only needs the declarations.
func (p *listed) check(sizes types.Sizes, checked map[string]*types.Package) (*types.Package, error) {
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	own := p.Module != nil && p.Module.Main
	config := types.Config{
		Sizes: sizes, IgnoreFuncBodies: !own, FakeImportC: true,
		Importer: importer(func(path string) (*types.Package, error) {
			if to, ok := p.ImportMap[path]; ok {
				path = to
			}
			if done := checked[path]; done != nil {
				return done, nil
			}
			return nil, fmt.Errorf("go list has no package %s before %s", path, p.ImportPath)
		}),
	}
	return config.Check(p.ImportPath, files, parsed, nil)
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
