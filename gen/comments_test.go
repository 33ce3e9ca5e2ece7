package gen

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// linkForm matches a link of a comment to a declaration, with or without its type and its package.
	linkForm = regexp.MustCompile(`(?:^|[\s(])\[\*?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*){0,2})\](?:$|[\s.,:;)'])`)
	// fileForm matches the name of a file that comments and pages refer to, with or without a path.
	fileForm = regexp.MustCompile(`(?:^|[\s("` + "`" + `])((?:[\w.-]+/)*[a-z][\w-]*\.(?:go|js|md|css|html|txt|tmpl|mjs|sh|jsonl))(?:$|[\s.,:;)"'` + "`" + `])`)
)

// elsewhere are names of files that are examples, or that users have.
var elsewhere = []string{
	"limits.gen.go", "review.md", "limits.html", "requests.jsonl", "requests.html",
}

// tree is what the comments of this module can refer to.
type tree struct {
	files *token.FileSet
	// names are the declarations of the package in each directory, methods and fields after their type.
	names map[string]map[string]bool
	// sources are the Go files, by path.
	sources map[string]*ast.File
	// paths are those of all files.
	paths []string
}

func readTree(t *testing.T) *tree {
	t.Helper()
	r := &tree{files: token.NewFileSet(), names: map[string]map[string]bool{}, sources: map[string]*ast.File{}}
	top := root(t)
	require.NoError(t, filepath.WalkDir(top, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(top, at)
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return fs.SkipDir
		case entry.IsDir():
			return err
		}
		r.paths = append(r.paths, name)
		if filepath.Ext(name) != ".go" {
			return err
		}
		source, err := parser.ParseFile(r.files, at, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil // such as a broken file in testdata
		}
		r.sources[name] = source
		r.declare(path.Dir(name), source)
		return nil
	}))
	return r
}

func (r *tree) declare(dir string, source *ast.File) {
	if r.names[dir] == nil {
		r.names[dir] = map[string]bool{}
	}
	names := r.names[dir]
	for _, d := range source.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiverOf(d.Recv.List[0].Type) + "." + name
			}
			names[name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
					declareFields(names, s)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
}

func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.IndexListExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func declareFields(names map[string]bool, s *ast.TypeSpec) {
	var list *ast.FieldList
	switch of := s.Type.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names[s.Name.Name+"."+n.Name] = true
		}
	}
}

// resolves reports whether a link of a file leads to a declaration. Packages of other modules are not checked.
func (r *tree) resolves(file, link string) bool {
	dir := path.Dir(file)
	if r.has(dir, link) {
		return true
	}
	pkg, name, qualified := strings.Cut(link, ".")
	if !qualified {
		return false
	}
	for _, spec := range r.sources[file].Imports {
		from, _ := strconv.Unquote(spec.Path.Value)
		if path.Base(from) != pkg && (spec.Name == nil || spec.Name.Name != pkg) {
			continue
		}
		inside, ours := strings.CutPrefix(from, modulePath+"/")
		return !ours || r.has(inside, name)
	}
	// Comments may refer to packages that the file does not import, by their path's last element, if only one has the name.
	for inside := range r.names {
		if path.Base(inside) == pkg && r.has(inside, name) {
			return true
		}
	}
	return slices.Contains([]string{"context", "math"}, pkg)
}

// has reports whether a package has a declaration, also one that a type has from a type that it embeds or is.
func (r *tree) has(dir, name string) bool {
	if r.names[dir][name] {
		return true
	}
	_, member, ok := strings.Cut(name, ".")
	if !ok || !r.names[dir][strings.TrimSuffix(name, "."+member)] {
		return false
	}
	for _, names := range r.names {
		for other := range names {
			if strings.HasSuffix(other, "."+member) {
				return true
			}
		}
	}
	return false
}

// isFile reports whether a file has a name: relative to the directory, to the root, or the end of the path of some file.
func (r *tree) isFile(dir, name string) bool {
	return slices.ContainsFunc(r.paths, func(p string) bool {
		return p == path.Join(dir, name) || p == name || strings.HasSuffix(p, "/"+name)
	})
}

// Comments of the generator refer to declarations and files that exist.
func TestCommentsReferToWhatExists(t *testing.T) {
	r := readTree(t)
	checked := 0
	for file, source := range r.sources {
		if !strings.HasPrefix(file, "gen/") && !strings.HasPrefix(file, "cmd/") {
			continue
		}
		for _, group := range source.Comments {
			for _, comment := range group.List {
				for line := range strings.Lines(comment.Text) {
					text := strings.TrimPrefix(strings.TrimSpace(line), "//")
					if strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "go:") {
						continue // code
					}
					at := r.files.Position(comment.Pos())
					where := file + ":" + strconv.Itoa(at.Line)
					for _, match := range linkForm.FindAllStringSubmatch(text, -1) {
						checked++
						assert.True(t, r.resolves(file, match[1]), "%s: no declaration [%s]", where, match[1])
					}
					for _, match := range fileForm.FindAllStringSubmatch(text, -1) {
						assert.True(t, slices.Contains(elsewhere, path.Base(match[1])) || r.isFile(path.Dir(file), match[1]), "%s: no file %s", where, match[1])
					}
				}
			}
		}
	}
	assert.Greater(t, checked, 50)
}

// Pages link to files that exist, and name such.
func TestPagesOfGeneratorReferToWhatExists(t *testing.T) {
	r := readTree(t)
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
	for _, page := range r.paths {
		if path.Ext(page) != ".md" || !strings.HasPrefix(page, "gen/") && !strings.HasPrefix(page, "cmd/") && page != "README.md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), page))
		require.NoError(t, err)
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(filepath.Join(root(t), path.Dir(page), match[1]))
			assert.NoError(t, err, "%s links to %s", page, match[1])
		}
		for _, match := range fileForm.FindAllStringSubmatch(string(text), -1) {
			assert.True(t, slices.Contains(elsewhere, path.Base(match[1])) || r.isFile(path.Dir(page), match[1]), "%s: no file %s", page, match[1])
		}
	}
}
