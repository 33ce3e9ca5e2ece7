package internal_test

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
	"modernc.org/sqlite"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

const module = "github.com/ratelimitgen/ratelimitgen"

const (
	// maxFrames is the most functions of this module through which a plain Allow on Postgres passes before database/sql,
	// on both of its goroutines: the caller's, which waits, and the group's, which runs the batch.
	maxFrames = 15
	// maxStoreFrames is the same for sqlstore and its internal packages.
	maxStoreFrames = 10
)

// With -v it prints the path. The drawing in runtime/README.md must be the same.
func TestPathOfAllowIsShort(t *testing.T) {
	d := dialect.Postgres
	d.Describe, d.Parts, d.Session, d.SessionNeeds = "", "", "", "" // the fake database has no table to check
	fake := new(fakePostgres)
	db := sql.OpenDB(fake)
	defer db.Close()
	store, err := agree.NewStore(db, d, sqlstore.Options{Clock: time.Now})
	require.NoError(t, err)
	defer store.Close()

	// With a driver of which the store does not know that it honors contexts, a caller waits while another goroutine runs its
	// batch: the longer of the two paths.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The first call compares the limit with its registration, and the second is like all others.
	for range 2 {
		decision, err := limits.New(store).SendMessage(42).Allow(ctx)
		require.NoError(t, err)
		require.True(t, decision.Allowed)
	}
	require.NotEmpty(t, fake.caller, "the stack of the goroutine that waits")
	path := slices.Concat(fake.caller, fake.runner)
	t.Logf("%d functions:\n%s\n-- goroutine of the group\n%s\ndatabase/sql",
		len(path), strings.Join(fake.caller, "\n"), strings.Join(fake.runner, "\n"))
	ofStore := 0
	for _, function := range path {
		if strings.Contains(function, "/sqlstore") {
			ofStore++
		}
	}
	const reason = "a call must stay short enough to draw"
	assert.LessOrEqual(t, len(path), maxFrames, reason)
	assert.LessOrEqual(t, ofStore, maxStoreFrames, reason)
	assert.Equal(t, path, slices.Concat(drawnPath(t, "allow"), drawnPath(t, "run")), "draw the path that -v prints in runtime/README.md")
}

var (
	drawnPackage  = regexp.MustCompile(`^\s*subgraph \w+\["([^"]+)"\]`)
	drawnFunction = regexp.MustCompile(`(\w+)\["([^"]+)"\]`)
)

// drawnPath returns the functions in the drawing of runtime/README.md, from one on along the arrows of calls.
func drawnPath(t *testing.T, from string) (path []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	functions, next, in := map[string]string{}, map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
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

// fakePostgres is a database in which every row has enough tokens. It records the stacks at its last query.
type fakePostgres struct{ caller, runner []string }

func (f *fakePostgres) Connect(context.Context) (driver.Conn, error) { return f, nil }

// Driver returns one whose behavior the store knows. With an unknown driver, statements go in transactions.
func (*fakePostgres) Driver() driver.Driver { return new(sqlite.Driver) }

func (*fakePostgres) Close() error                        { return nil }
func (*fakePostgres) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (*fakePostgres) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (f *fakePostgres) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if strings.Contains(query, "rate_limit_registry") {
		return noRows{}, nil
	}
	f.runner = functions(stacks()[0])
	for range 1000 {
		for _, stack := range stacks()[1:] {
			if strings.Contains(stack, "sqlstore.(*Store).Do(") {
				f.caller = functions(stack)
				// It waits for an answer, and is not on its way there.
				if header, _, _ := strings.Cut(stack, "\n"); strings.Contains(header, "[select") || strings.Contains(header, "[chan") {
					return &takenRow{value: args[2].Value, at: args[3].Value}, nil
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

// functions returns the functions of this module on a stack, the outermost first.
func functions(stack string) (names []string) {
	for line := range strings.Lines(stack) {
		name, isOurs := strings.CutPrefix(line, module+"/")
		if !isOurs || strings.Contains(name, "_test.") {
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
