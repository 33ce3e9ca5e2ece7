package main

import (
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// packageName returns the name of the package that the code is to be in.
func (g *generation) packageName(file *spec.File) (string, error) {
	directory, err := filepath.Abs(filepath.Dir(g.output))
	if err != nil {
		return "", err
	}
	for _, name := range []string{g.pkg, file.Package, g.goGeneratePackage(), packageBeside(g.output)} {
		if name != "" {
			return name, nil
		}
	}
	name := filepath.Base(directory)
	if !spec.IsPackageName(name) {
		return "", misusef("the package cannot be named %q as its directory; pass -package NAME, or write package: NAME in %s", name, shown(g.source))
	}
	return name, nil
}

// goGeneratePackage returns the package of the file with the go:generate directive, if the output stands
// beside it.
func (g *generation) goGeneratePackage() string {
	if filepath.Dir(g.output) != "." {
		return ""
	}
	return strings.TrimSuffix(os.Getenv("GOPACKAGE"), "_test")
}

// packageBeside returns the package of the other Go files in the directory of the output, as go build sees
// them; "" if there are none.
func packageBeside(output string) string {
	directory := filepath.Dir(output)
	entries, _ := os.ReadDir(directory)
	for _, entry := range entries {
		name := entry.Name()
		path := filepath.Join(directory, name)
		if filepath.Ext(name) != ".go" || !isRegular(path) {
			continue
		}
		built, _ := build.Default.MatchFile(directory, name)
		if !built || name == filepath.Base(output) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly); err == nil {
			return file.Name.Name
		}
	}
	return ""
}
