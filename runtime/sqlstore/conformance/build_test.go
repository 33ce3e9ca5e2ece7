package conformance

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/ratelimitgen/ratelimitgen"

// app is a program with generated limits that connects to Postgres by DRIVER.
const app = `package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"

	_ "DRIVER"

	"example.com/app/limits"
	"` + module + `/runtime/sqlstore"
	"` + module + `/runtime/sqlstore/dialect"
)

func main() {
	db, err := sql.Open("NAME", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqlstore.New(db, dialect.Postgres, sqlstore.Options{Table: os.Args[2]})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limits.New(store).SendMessage(7).Allow(context.Background()))
}
`

// A program that uses Postgres compiles no other database, has a short go.sum, and works.
func TestPostgresProgramCompilesNoOtherDatabase(t *testing.T) {
	// sums bounds the lines of go.sum: two for each module that a driver needs, and one for each module whose go.mod alone is
	// read.
	for _, s := range named(t, "postgres-pgx", "postgres-pq") {
		path, sums := "github.com/jackc/pgx/v5/stdlib", 30
		if s.Driver == "postgres" {
			path, sums = "github.com/lib/pq", 10
		}
		t.Run(s.Driver, func(t *testing.T) {
			a := newApp(t, strings.NewReplacer("DRIVER", path, "NAME", s.Driver).Replace(app))
			a.run(t, "go", "mod", "tidy")
			text := live.Must(os.ReadFile(filepath.Join(string(a), "go.sum")))(t)
			lines := bytes.Count(text, []byte("\n"))
			assert.LessOrEqual(t, lines, sums, "go.sum:\n%s", text)
			assert.NotContains(t, string(text), "modernc.org")

			deps := a.run(t, "go", "list", "-deps", ".")
			assert.Contains(t, deps, module+"/runtime/sqlstore\n")
			for _, other := range []string{"modernc.org/", "sqlite", "mysql", "yaml", "jennifer", "testify"} {
				assert.NotContains(t, deps, other, "users pay for the database that they chose, and for no other")
			}

			a.run(t, "go", "build", "-o", "app", "-ldflags=-s -w", ".")
			built := live.Must(os.Stat(filepath.Join(string(a), "app")))(t)
			t.Logf("%d lines of go.sum, a binary of %.1f MB", lines, float64(built.Size())/1e6)

			table := live.NewTable()
			s.StoreIn(t, s.Open(t), table, nil)
			assert.Equal(t, "allowed, 19 left <nil>\n", a.run(t, "./app", s.DSN, table))
		})
	}
}

// folder is the directory of a module.
type folder string

// newApp writes a module with a program and the limits of the example. Its requirements have the versions of this
// module.
func newApp(t *testing.T, program string) folder {
	t.Helper()
	root := live.Must(filepath.Abs("../../.."))(t)
	limits := live.Must(os.ReadFile(filepath.Join(root, "example", "gen", "limits.gen.go")))(t)
	ours := live.Must(os.ReadFile("go.mod"))(t)
	text := strings.NewReplacer("module "+module+"/runtime/sqlstore/conformance", "module example.com/app", "../../..", root).Replace(string(ours))
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": text, "main.go": program, "limits/limits.gen.go": string(limits)} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return folder(dir)
}

// run runs a command in the folder, and returns its output.
func (f folder) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var complaints bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir = string(f)
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s: %s", name, args, &complaints)
	return string(out)
}
