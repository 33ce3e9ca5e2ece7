package gen

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// A part of a key with several types has a generated type: it must not have a name that the generated code declares.
func TestOwnNamesAreThoseOfGeneratedCode(t *testing.T) {
	declared := map[string]bool{}
	for _, name := range goldens {
		own := map[string]bool{}
		for _, l := range limitsOf(t, name) {
			own[l.NumbersType()], own[l.UsageType()], own[l.PriorityType()] = true, true, true
			for _, class := range l.Priorities {
				own[class.GoName] = true
			}
			for _, part := range l.Key {
				own[part.GoType()] = true
				for _, of := range part.Alternatives() {
					own[part.Constructor(of)] = true
				}
			}
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, golden(t, name), parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			for _, id := range namesIn(d) {
				ofGroup := strings.HasSuffix(id, "Group") || strings.HasSuffix(id, "Decisions") || strings.HasSuffix(id, "Reservations") || strings.HasSuffix(id, "Usage")
				ofPlan := strings.HasPrefix(id, "Plan") && id != "Plan" && id != "Plans"
				if ast.IsExported(id) && !own[id] && !ofPlan && (!ofGroup || slices.Contains(spec.OwnTypes, id)) {
					declared[id] = true
				}
			}
		}
	}
	known := slices.Concat(spec.OwnTypes, spec.OwnNames)
	for id := range declared {
		assert.Contains(t, known, id, "add it to OwnNames")
	}
	for _, id := range known {
		assert.True(t, declared[id], "no golden file declares %s", id)
	}
}

// namesIn returns the names that a declaration of a package declares.
func namesIn(d ast.Decl) (list []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			list = append(list, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				list = append(list, s.Name.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					list = append(list, name.Name)
				}
			}
		}
	}
	return list
}
