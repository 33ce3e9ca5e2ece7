package runtime_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// classified is an error with its origin. A denial has none.
type classified struct {
	err    error
	origin runtime.Origin
	denial bool
}

// classes has every error that a package under runtime exports.
var classes = map[string]classified{
	"runtime.ErrLimited":                 {err: runtime.ErrLimited, denial: true},
	"runtime.LimitedError":               {err: &runtime.LimitedError{}, denial: true},
	"runtime.ErrExceedsCapacity":         {err: runtime.ErrExceedsCapacity, origin: runtime.OriginRequest},
	"runtime.ErrInvalidCount":            {err: runtime.ErrInvalidCount, origin: runtime.OriginRequest},
	"runtime.ErrEmptyKey":                {err: runtime.ErrEmptyKey, origin: runtime.OriginRequest},
	"runtime.ErrInvalidOverride":         {err: runtime.ErrInvalidOverride, origin: runtime.OriginRequest},
	"runtime.ErrNoOverride":              {err: runtime.ErrNoOverride, origin: runtime.OriginRequest},
	"runtime.ErrOverrideInForce":         {err: runtime.ErrOverrideInForce, origin: runtime.OriginRequest},
	"runtime.ErrInvalidPolicy":           {err: runtime.ErrInvalidPolicy, origin: runtime.OriginProgram},
	"runtime.ErrInvalidPlan":             {err: runtime.ErrInvalidPlan, origin: runtime.OriginProgram},
	"runtime.ErrInvalidPriority":         {err: runtime.ErrInvalidPriority, origin: runtime.OriginProgram},
	"runtime.ErrInvalidNumbers":          {err: runtime.ErrInvalidNumbers, origin: runtime.OriginProgram},
	"runtime.ErrInvalidKey":              {err: runtime.ErrInvalidKey, origin: runtime.OriginProgram},
	"runtime.ErrInvalidCall":             {err: runtime.ErrInvalidCall, origin: runtime.OriginProgram},
	"runtime.ErrNoStore":                 {err: runtime.ErrNoStore, origin: runtime.OriginProgram},
	"runtime.ErrClosed":                  {err: runtime.ErrClosed, origin: runtime.OriginProgram},
	"runtime.ErrNoTx":                    {err: runtime.ErrNoTx, origin: runtime.OriginProgram},
	"runtime.ErrNilTx":                   {err: runtime.ErrNilTx, origin: runtime.OriginProgram},
	"runtime.ErrRolledBack":              {err: runtime.ErrRolledBack, origin: runtime.OriginProgram},
	"runtime.ErrNotReserved":             {err: runtime.ErrNotReserved, origin: runtime.OriginProgram},
	"runtime.ErrNoErase":                 {err: runtime.ErrNoErase, origin: runtime.OriginProgram},
	"runtime.ErrNoOverrides":             {err: runtime.ErrNoOverrides, origin: runtime.OriginProgram},
	"runtime.ErrOverridesInTx":           {err: runtime.ErrOverridesInTx, origin: runtime.OriginProgram},
	"runtime.ErrUnknownOverride":         {err: runtime.ErrUnknownOverride, origin: runtime.OriginProgram},
	"runtime.ErrUnusedOverrides":         {err: runtime.ErrUnusedOverrides, origin: runtime.OriginProgram},
	"runtime.ErrForeignCounts":           {err: runtime.ErrForeignCounts, origin: runtime.OriginProgram},
	"runtime.RegistrationError":          {err: &runtime.RegistrationError{}, origin: runtime.OriginProgram},
	"runtime.ShardsError":                {err: &runtime.ShardsError{}, origin: runtime.OriginProgram},
	"runtime.ErrInUse":                   {err: runtime.ErrInUse, origin: runtime.OriginProgram},
	"runtime.ErrOverridesUnread":         {err: runtime.ErrOverridesUnread, origin: runtime.OriginStore},
	"runtime.ErrSlotLost":                {err: runtime.ErrSlotLost, origin: runtime.OriginStore},
	"runtime/limiter.ErrNotTaken":        {err: limiter.ErrNotTaken, origin: runtime.OriginProgram},
	"runtime/memstore.ErrTxConflict":     {err: memstore.ErrTxConflict, origin: runtime.OriginStore},
	"runtime/operate.ErrUsage":           {err: operate.ErrUsage, origin: runtime.OriginRequest},
	"runtime/sqlstore.ErrClosed":         {err: sqlstore.ErrClosed, origin: runtime.OriginProgram},
	"runtime/sqlstore.RetryTxError":      {err: &sqlstore.RetryTxError{Err: fs.ErrInvalid}, origin: runtime.OriginStore},
	"runtime/sqlstore.ErrOutcomeUnknown": {err: sqlstore.ErrOutcomeUnknown, origin: runtime.OriginStore},
	"runtime/limithttp.ErrNotTaken":      {err: limithttp.ErrNotTaken, origin: runtime.OriginProgram},
	"runtime/limithttp.ErrNoClientIP":    {err: limithttp.ErrNoClientIP, origin: runtime.OriginProgram},
}

// TestEveryErrorHasAClass compares the errors that the packages under runtime export with classes, so that a new error
// gets a class: by default it would be a failure of the store, for which limits with onError: open let requests pass.
func TestEveryErrorHasAClass(t *testing.T) {
	require.Equal(t, slices.Sorted(maps.Keys(classes)), exportedErrors(t),
		"an error is missing in the table, or is not exported any more: decide what a new one is, in origins of errors.go or by its method Origin, and enter it here")
	for name, c := range classes {
		wrapped := fmt.Errorf("limit %q: %w", "send", fmt.Errorf("%w: %w", fs.ErrClosed, c.err))
		require.ErrorIs(t, wrapped, c.err)
		if !c.denial {
			require.Equal(t, c.origin, runtime.OriginOf(c.err), name)
			require.Equal(t, c.origin, runtime.OriginOf(wrapped), "%s, wrapped beside a failure", name)
		}
	}
}

// exportedErrors returns the variables and types of errors that users can name.
func exportedErrors(t *testing.T) (names []string) {
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{"internal", "testdata", "storetest", "bench", "frameworks"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		if err != nil || file.Name.Name == "main" {
			return err
		}
		in := filepath.ToSlash(filepath.Join("runtime", filepath.Dir(path)))
		for _, d := range file.Decls {
			for _, name := range errorsIn(d) {
				if ast.IsExported(name) {
					names = append(names, in+"."+name)
				}
			}
		}
		return nil
	}))
	slices.Sort(names)
	return names
}

// errorsIn returns the names of the errors that a declaration makes: variables called Err or made by a function that makes
// errors, and types with the method Error.
func errorsIn(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil && d.Name.Name == "Error" && len(d.Type.Params.List) == 0 {
			of := d.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			names = append(names, of.(*ast.Ident).Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			value, ok := s.(*ast.ValueSpec)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for i, name := range value.Names {
				if strings.HasPrefix(name.Name, "Err") || i < len(value.Values) && makesError(value.Values[i]) {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

func makesError(value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch of := call.Fun.(type) {
	case *ast.SelectorExpr:
		return of.Sel.Name == "Errorf" || of.Sel.Name == "New" && of.X.(*ast.Ident).Name == "errors"
	case *ast.Ident:
		return of.Name == "Error"
	}
	return false
}
