package limiter_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// The types that generated methods return have all of their methods in go doc, each with a text, and no fields to
// offer.
func TestHandlesDocumentThemselves(t *testing.T) {
	shown := documented(t)
	all := reflect.TypeFor[*limiter.Limiter]()
	var handles []string
	for i := range all.NumMethod() {
		method := all.Method(i)
		if method.Type.NumOut() != 1 || method.Type.Out(0).Kind() != reflect.Struct {
			continue
		}
		handle := method.Type.Out(0)
		handles = append(handles, handle.Name())
		for _, field := range reflect.VisibleFields(handle) {
			assert.False(t, field.IsExported(), "%s has the field %s", handle, field.Name)
		}
		for i := range handle.NumMethod() {
			name := handle.Method(i).Name
			assert.True(t, strings.HasPrefix(shown[handle.Name()][name], name+" "), "go doc of %s.%s: %q", handle, name, shown[handle.Name()][name])
		}
	}
	require.Equal(t, []string{"Group", "Limit", "Overrides", "Overrides", "ReservableLimit", "ReserveOnlyLimit", "SlotLimit"}, handles)
}

// A limit with reservations has what a limit has, but for its item, which can be reserved.
func TestReservableLimitHasTheVerbsOfALimit(t *testing.T) {
	limit, reservable := reflect.TypeFor[limiter.Limit](), reflect.TypeFor[limiter.ReservableLimit]()
	for i := range limit.NumMethod() {
		_, has := reservable.MethodByName(limit.Method(i).Name)
		assert.True(t, has, "%s of Limit: add it to runtime/limiter/reservable.go", limit.Method(i).Name)
	}
}

// documented returns the texts of the methods that go doc shows of the package, by type and name.
func documented(t *testing.T) map[string]map[string]string {
	t.Helper()
	folder := must(os.ReadDir("."))
	fset := token.NewFileSet()
	var files []*ast.File
	for _, entry := range folder {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file := must(parser.ParseFile(fset, name, nil, parser.ParseComments))
			files = append(files, file)
		}
	}
	of := must(doc.NewFromFiles(fset, files, "limiter"))
	shown := map[string]map[string]string{}
	for _, typ := range of.Types {
		shown[typ.Name] = map[string]string{}
		for _, method := range typ.Methods {
			shown[typ.Name][method.Name] = method.Doc
		}
	}
	return shown
}
