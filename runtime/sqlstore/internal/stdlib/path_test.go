// Package stdlib records the path of a call on Postgres. It has the name of the package of pgx's driver, because the store
// knows a driver by the name of its type.
package stdlib

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"os"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

const module = "github.com/ratelimitgen/ratelimitgen"

// maxFrames is the most functions of this module through which a plain Allow on Postgres by pgx passes before the driver,
// and maxStoreFrames those of sqlstore and its internal packages.
const maxFrames, maxStoreFrames = 12, 9

// With -v it prints the paths. The drawing in runtime/README.md must be that by pgx, and the rows of its table name
// functions of both.
func TestPathOfAllowIsShort(t *testing.T) {
	pgx, other := pathOfAllow(t, &fakePostgres{driver: &Driver{}}), pathOfAllow(t, &fakePostgres{driver: &otherDriver{}})
	ofStore := 0
	for _, function := range pgx {
		if strings.Contains(function, "/sqlstore") {
			ofStore++
		}
	}
	const reason = "a call must stay short enough to draw"
	assert.LessOrEqual(t, len(pgx), maxFrames, reason)
	assert.LessOrEqual(t, ofStore, maxStoreFrames, reason)
	assert.Equal(t, pgx, drawnPath(t, "allow"), "draw the path that -v prints in runtime/README.md")
	for driver, path := range map[string][]string{"Postgres by pgx": pgx, "Postgres by lib/pq": other} {
		names := rowOf(t, driver)
		require.NotEmpty(t, names)
		at := 0
		for _, function := range path {
			if at < len(names) && strings.HasSuffix(function, "."+names[at]) {
				at++
			}
		}
		assert.Empty(t, names[at:], "the row %s of runtime/README.md is not the path that -v prints", driver)
	}
}

// pathOfAllow returns the functions of a plain Allow, the outermost first, and for a driver of which the store does not know
// that it honors contexts those of the goroutine that runs the batch after those of the caller.
func pathOfAllow(t *testing.T, fake *fakePostgres) []string {
	d := dialect.Postgres
	d.Describe, d.Parts, d.Session, d.SessionNeeds = "", "", "", "" // the fake database has no table to check
	db := sql.OpenDB(fake)
	defer db.Close()
	store, err := agree.NewStore(db, d, sqlstore.Options{Clock: time.Now})
	require.NoError(t, err)
	defer store.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The first call compares the limit with its registration, and the second is like all others.
	for range 2 {
		decision, err := limits.New(store).SendMessage(42).Allow(ctx)
		require.NoError(t, err)
		require.True(t, decision.Allowed)
	}
	t.Logf("%d functions:\n%s\n-- goroutine of the group\n%s\nthe driver",
		len(fake.caller)+len(fake.runner), strings.Join(fake.caller, "\n"), strings.Join(fake.runner, "\n"))
	return slices.Concat(fake.caller, fake.runner)
}

// rowOf returns the functions in the columns group, engine and statement of a row of the table of lone calls.
func rowOf(t *testing.T, driver string) (names []string) {
	t.Helper()
	_, row, _ := strings.Cut(readmeText(t), "\n| "+driver+" |")
	row, _, _ = strings.Cut(row, "\n")
	for _, cell := range strings.Split(row, "|")[:3] {
		for _, m := range quotedFunction.FindAllStringSubmatch(cell, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

func readmeText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	return string(text)
}

var quotedFunction = regexp.MustCompile("`([^`]+)`")

var (
	drawnPackage  = regexp.MustCompile(`^\s*subgraph \w+\["([^"]+)"\]`)
	drawnFunction = regexp.MustCompile(`(\w+)\["([^"]+)"\]`)
)

// drawnPath returns the functions in the drawing of runtime/README.md, from one on along the arrows of calls.
func drawnPath(t *testing.T, from string) (path []string) {
	t.Helper()
	functions, next, in := map[string]string{}, map[string]string{}, ""
	for line := range strings.Lines(readmeText(t)) {
		if m := drawnPackage.FindStringSubmatch(line); m != nil {
			in = m[1]
			continue
		}
		for _, m := range drawnFunction.FindAllStringSubmatch(line, -1) {
			functions[m[1]] = in + "." + m[2]
		}
		calls := strings.Split(strings.TrimSpace(drawnFunction.ReplaceAllString(line, "$1")), " --> ")
		for i := range len(calls) - 1 {
			next[calls[i]] = calls[i+1]
		}
	}
	for at := from; at != ""; at = next[at] {
		path = append(path, functions[at])
	}
	return path
}

// Driver is to the store the driver of pgx.
type Driver struct{ driver.Driver }

// otherDriver is one that the store does not know.
type otherDriver struct{ driver.Driver }

// fakePostgres is a database in which every row has enough tokens. It records the stacks at its last query.
type fakePostgres struct {
	driver         driver.Driver
	caller, runner []string
}

func (f *fakePostgres) Connect(context.Context) (driver.Conn, error) { return f, nil }

func (f *fakePostgres) Driver() driver.Driver { return f.driver }

// Conn and Config are methods of pgx, by which the store finds its mode.
func (f *fakePostgres) Conn() *fakePostgres { return f }

func (*fakePostgres) Config() (config struct{ DefaultQueryExecMode string }) {
	config.DefaultQueryExecMode = "cache statement"
	return config
}

func (*fakePostgres) Close() error                        { return nil }
func (*fakePostgres) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (*fakePostgres) Commit() error                       { return nil }
func (*fakePostgres) Rollback() error                     { return nil }
func (*fakePostgres) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (f *fakePostgres) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return f, nil }

func (f *fakePostgres) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if strings.Contains(query, "rate_limit_registry") {
		return noRows{}, nil
	}
	const caller = "sqlstore.(*Store).Do("
	row := &takenRow{value: args[3].Value, at: args[4].Value}
	all := stacks()
	if strings.Contains(all[0], caller) {
		f.caller, f.runner = functions(all[0]), nil
		return row, nil
	}
	f.runner = functions(all[0])
	for range 1000 {
		for _, stack := range stacks()[1:] {
			if strings.Contains(stack, caller) {
				f.caller = functions(stack)
				// It waits for an answer, and is not on its way there.
				if header, _, _ := strings.Cut(stack, "\n"); strings.Contains(header, "[select") || strings.Contains(header, "[chan") {
					return row, nil
				}
			}
		}
		time.Sleep(time.Millisecond)
	}
	return nil, errors.New("no goroutine waits in Store.Do")
}

// stacks returns the stacks of all goroutines, this one's first.
func stacks() []string {
	text := make([]byte, 1<<20)
	return strings.Split(string(text[:goruntime.Stack(text, true)]), "\n\n")
}

// functions returns the functions of this module on a stack, the outermost first, without closures, which are parts of
// others.
func functions(stack string) (names []string) {
	for line := range strings.Lines(stack) {
		name, isOurs := strings.CutPrefix(line, module+"/")
		if !isOurs || strings.Contains(name, "internal/stdlib.") || strings.Contains(name, ".func") {
			continue
		}
		names = append(names, name[:strings.LastIndexByte(name, '(')])
	}
	slices.Reverse(names)
	return names
}

// noRows is the result of the table of registrations.
type noRows struct{}

func (noRows) Columns() []string         { return make([]string, 6) }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

// takenRow is the row that a TakeOne statement returns.
type takenRow struct {
	value, at driver.Value
	read      bool
}

func (*takenRow) Columns() []string { return []string{"value", "at_ns", "prev", "taken"} }
func (*takenRow) Close() error      { return nil }

func (r *takenRow) Next(row []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	copy(row, []driver.Value{r.value, r.at, -1e-20, true})
	return nil
}
