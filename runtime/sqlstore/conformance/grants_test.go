package conformance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// program is the limits of the program whose roles are tested.
var program = struct{ plain, reserving, sharded, precise, leased, overridden *runtime.Policy }{
	plain: live.Once("plain", 100),
	reserving: &runtime.Policy{
		Name: "reserving", Kind: runtime.TokenBucket, Rate: 100, Period: runtime.MaxPeriod, Capacity: 100, MaxReserved: 100,
	},
	sharded: &runtime.Policy{
		Name: "sharded", Kind: runtime.TokenBucket, Rate: 100, Period: runtime.MaxPeriod, Capacity: 100, Shards: 2,
	},
	precise: &runtime.Policy{Name: "precise", Kind: runtime.SlidingWindow, Rate: 100, Period: time.Hour, Capacity: 100, Precise: true},
	leased: &runtime.Policy{
		Name: "leased", Kind: runtime.TokenBucket, Rate: 100, Period: runtime.MaxPeriod, Capacity: 100,
		Lease: runtime.Lease{Tokens: 10, For: time.Minute},
	},
	overridden: live.Overridable(),
}

func programPolicies() []*runtime.Policy {
	g := program
	return []*runtime.Policy{g.plain, g.reserving, g.sharded, g.precise, g.leased, g.overridden}
}

// owned registers policies for an owner, as generated code does.
func owned(owner string, policies ...*runtime.Policy) {
	var c runtime.Catalog
	for _, p := range policies {
		c.Limits = append(c.Limits, runtime.CatalogLimit{Name: p.Name, Key: []runtime.CatalogKey{{Name: "user", Type: "string"}}, Policies: []*runtime.Policy{p}})
	}
	runtime.NewCatalog(owner, c)
}

// actor is a program with a role of the database, and a word that no other has had, for its keys and limits.
type actor struct {
	dialect dialect.Dialect
	db      *sql.DB
	store   *sqlstore.Store
	word    string
}

func (a actor) key() runtime.Key { return runtime.KeyOf(runtime.String(a.word)) }

func (a actor) limit(p *runtime.Policy) limiter.Limit { return limiter.New(a.store).Limit(p, a.key()) }

func (a actor) overrides() limiter.Overrides {
	return limiter.New(a.store).Overrides(program.overridden, a.key())
}

// inTx calls do in a transaction.
func (a actor) inTx(ctx context.Context, do func(*limiter.Limiter) error) error {
	return sqlstore.RunInTx(ctx, a.db, func(tx *sql.Tx) error { return do(limiter.New(a.store).WithTx(tx)) })
}

var (
	endIt   = runtime.OverrideEnd{Reason: "a test", Author: "a test"}
	blockIt = runtime.Block{Until: runtime.ForGood(), Reason: "a test", Author: "a test"}
	giveIt  = runtime.Override{Capacity: 50, Until: runtime.ForGood(), Reason: "a test", Author: "a test"}
)

// stale inserts a row of a limit that is not needed any more.
func (a actor) stale(t *testing.T, table, limit string) {
	live.Must(a.db.Exec(fmt.Sprintf("INSERT INTO %s VALUES ('%s', '%s', 0, 0, 1, 0, NULL)", table, limit, a.word)))(t)
}

// programAction is something that a program or an operator does.
type programAction struct {
	name    string
	prepare func(t *testing.T, owner actor, table string) any
	do      func(ctx context.Context, a actor, prepared any) error
}

// programActions are what a program and its operators can do, after the owner has prepared it.
var programActions = []programAction{
	{name: "Allow", do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.limit(program.plain).Allow(ctx))
	}},
	{name: "AllowN of a used key", prepare: use, do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.limit(program.plain).AllowN(ctx, 2))
	}},
	{name: "AllowUpTo", do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.limit(program.plain).AllowUpTo(ctx, 2))
	}},
	{name: "Check", prepare: use, do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.limit(program.plain).Check(ctx))
	}},
	{name: "Charge", do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.limit(program.plain).Charge(ctx, 200))
	}},
	{name: "Reserve", do: func(ctx context.Context, a actor, _ any) error {
		return errOf(limiter.New(a.store).Reservable(program.reserving, a.key()).Reserve(ctx))
	}},
	{name: "Settle", prepare: reserve, do: func(ctx context.Context, a actor, text any) error {
		r, err := limiter.New(a.store).Reservable(program.reserving, a.key()).Resume(text.([]byte))
		if err != nil {
			return err
		}
		return r.Settle(ctx, 1)
	}},
	{name: "Cancel", prepare: reserve, do: func(ctx context.Context, a actor, text any) error {
		r, err := limiter.New(a.store).Reservable(program.reserving, a.key()).Resume(text.([]byte))
		if err != nil {
			return err
		}
		return r.Cancel(ctx)
	}},
	{name: "Refund", prepare: use, do: func(ctx context.Context, a actor, d any) error {
		return errOf(a.limit(program.plain).Refund(ctx, d.(runtime.Decision)))
	}},
	{name: "Reset", prepare: use, do: func(ctx context.Context, a actor, _ any) error {
		return a.limit(program.plain).Reset(ctx)
	}},
	{name: "Peek", prepare: use, do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.limit(program.plain).Peek(ctx))
	}},
	{name: "PeekAll", prepare: use, do: func(ctx context.Context, a actor, _ any) error {
		return errOf(limiter.New(a.store).PeekAll(ctx, a.limit(program.plain), a.limit(program.sharded), a.limit(program.precise)))
	}},
	{name: "Wait", do: func(ctx context.Context, a actor, _ any) error { return a.limit(program.plain).Wait(ctx) }},
	{name: "All", do: func(ctx context.Context, a actor, _ any) error {
		l := limiter.New(a.store)
		return errOf(l.All(ctx, a.of(l, program.plain), a.of(l, program.sharded)))
	}},
	{name: "Group", do: func(ctx context.Context, a actor, _ any) error {
		l := limiter.New(a.store)
		return errOf(l.Group(l.Reservable(program.reserving, a.key()).N(2), a.of(l, program.plain)).Reserve(ctx))
	}},
	{name: "a sharded limit", do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.limit(program.sharded).AllowN(ctx, 80))
	}},
	{name: "a precise limit", do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.limit(program.precise).Allow(ctx))
	}},
	{name: "a leased limit", do: func(ctx context.Context, a actor, _ any) error {
		if err := errOf(a.limit(program.leased).Allow(ctx)); err != nil {
			return err
		}
		return a.store.Close() // gives back
	}},
	{name: "a limit with overrides", do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.limit(program.overridden).Allow(ctx))
	}},
	{name: "WithTx", do: func(ctx context.Context, a actor, _ any) error {
		return a.inTx(ctx, func(l *limiter.Limiter) error { return a.of(l, program.plain).Require(ctx) })
	}},
	{name: "WithTx of a limit with overrides", do: func(ctx context.Context, a actor, _ any) error {
		return a.inTx(ctx, func(l *limiter.Limiter) error { return a.of(l, program.overridden).Require(ctx) })
	}},
	{name: "Block", do: func(ctx context.Context, a actor, _ any) error { return errOf(a.overrides().Block(ctx, blockIt)) }},
	{name: "Set", do: func(ctx context.Context, a actor, _ any) error { return errOf(a.overrides().Set(ctx, giveIt)) }},
	{name: "Unblock", prepare: block, do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.overrides().Unblock(ctx, endIt))
	}},
	{name: "End", prepare: block, do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.overrides().End(ctx, endIt))
	}},
	{name: "History", do: func(ctx context.Context, a actor, _ any) error { return errOf(a.overrides().History(ctx)) }},
	{name: "OverridesSince", do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.store.OverridesSince(ctx, 1))
	}},
	{name: "Rows", do: func(ctx context.Context, a actor, _ any) error {
		_, _, err := a.store.Rows(ctx, runtime.Row{Name: program.plain.Name, Shard: -1}, 10)
		return err
	}},
	{name: "Sweep", prepare: func(t *testing.T, owner actor, table string) any {
		owner.stale(t, table, program.plain.Name)
		for _, what := range []string{runtime.OverrideBlock, runtime.OverrideUnblock} {
			live.Must(owner.store.AppendOverride(t.Context(), runtime.OverrideEntry{
				Limit: program.overridden.Name, Key: owner.word, What: what, Until: time.Unix(2, 0), At: time.Unix(1, 0), Reason: "a test", Author: "a test",
			}))(t)
		}
		return nil
	}, do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.store.Sweep(ctx, programPolicies()...))
	}},
	{name: "Sweep with KeepOverrides -1", prepare: func(t *testing.T, owner actor, table string) any {
		owner.stale(t, table, program.plain.Name)
		return table
	}, do: func(ctx context.Context, a actor, table any) error {
		store, err := agree.NewStore(a.db, a.dialect, sqlstore.Options{Table: table.(string), KeepOverrides: -1})
		if err != nil {
			return err
		}
		defer store.Close()
		return errOf(store.Sweep(ctx, programPolicies()...))
	}},
	{name: "Forget", prepare: func(t *testing.T, owner actor, table string) any {
		gone := live.Overridable()
		gone.Name = owner.word
		owner.stale(t, table, gone.Name)
		live.Must(limiter.New(owner.store).OverridesForAll(gone).Block(t.Context(), blockIt))(t)
		return nil
	}, do: func(ctx context.Context, a actor, _ any) error {
		return errOf(a.store.Forget(ctx, a.word, programPolicies()...))
	}},
	{name: "Erase", prepare: use, do: func(ctx context.Context, a actor, _ any) error { return a.limit(program.plain).Erase(ctx) }},
	{name: "Erase in WithTx", prepare: use, do: func(ctx context.Context, a actor, _ any) error {
		return a.inTx(ctx, func(l *limiter.Limiter) error { return a.of(l, program.plain).Erase(ctx) })
	}},
	{name: "Erase of a key in the log", prepare: logged, do: func(ctx context.Context, a actor, _ any) error {
		return a.limit(program.overridden).Erase(ctx)
	}},
	{name: "Erase of a key in the log, in WithTx", prepare: logged, do: func(ctx context.Context, a actor, _ any) error {
		return a.inTx(ctx, func(l *limiter.Limiter) error { return a.of(l, program.overridden).Erase(ctx) })
	}},
	{name: "Registrations", do: func(ctx context.Context, a actor, _ any) error { return errOf(a.store.Registrations(ctx)) }},
	{name: "Migrate", do: func(ctx context.Context, a actor, _ any) error { return a.store.Migrate(ctx, programPolicies()...) }},
	{name: "Adopt", do: func(ctx context.Context, a actor, _ any) error { return a.store.Adopt(ctx, programPolicies()...) }},
	{name: "Migrate of a new limit", do: func(ctx context.Context, a actor, _ any) error {
		p := live.Once(a.word, 1)
		owned("example.com/app", p)
		return a.store.Migrate(ctx, p)
	}},
	{name: "Adopt of another program's limit", prepare: func(t *testing.T, owner actor, _ string) any {
		p := live.Once(owner.word, 1)
		owned("example.com/old", p)
		require.NoError(t, owner.store.Migrate(t.Context(), p))
		return nil
	}, do: func(ctx context.Context, a actor, _ any) error {
		p := live.Once(a.word, 1)
		owned("example.com/app", p)
		return a.store.Adopt(ctx, p)
	}},
}

// of returns the limit of the actor's key with another limiter.
func (a actor) of(l *limiter.Limiter, p *runtime.Policy) limiter.Limit { return l.Limit(p, a.key()) }

func errOf[T any](_ T, err error) error { return err }

func use(t *testing.T, owner actor, _ string) any {
	d := live.Must(owner.limit(program.plain).Allow(t.Context()))(t)
	return d
}

func reserve(t *testing.T, owner actor, _ string) any {
	r := live.Must(limiter.New(owner.store).Reservable(program.reserving, owner.key()).ReserveN(t.Context(), 2))(t)
	text := live.Must(r.MarshalText())(t)
	return text
}

func block(t *testing.T, owner actor, _ string) any {
	live.Must(owner.overrides().Block(t.Context(), blockIt))(t)
	return nil
}

func logged(t *testing.T, owner actor, table string) any {
	block(t, owner, table)
	live.Must(owner.overrides().End(t.Context(), endIt))(t)
	return nil
}

// Rights by the verb and the table, in the order in which a role lacks them.
const (
	readCounts    = "SELECT ON quotas"
	insertCounts  = "INSERT ON quotas"
	updateCounts  = "UPDATE ON quotas"
	deleteCounts  = "DELETE ON quotas"
	readLog       = "SELECT ON quotas_overrides"
	insertLog     = "INSERT ON quotas_overrides"
	updateLog     = "UPDATE ON quotas_overrides"
	deleteLog     = "DELETE ON quotas_overrides"
	readRegistry  = "SELECT ON quotas_registry"
	writeRegistry = "INSERT, UPDATE ON quotas_registry"
)

// appRights are those of a program's role.
var appRights = []string{
	readCounts, insertCounts, updateCounts, deleteCounts, readLog, insertLog, updateLog, deleteLog, readRegistry,
}

// leftOut are what Ready passes although the right is missing, because it cannot know whether the program will do that.
var leftOut = map[string][]string{
	updateLog:     {"Erase of a key in the log", "Erase of a key in the log, in WithTx"},
	deleteLog:     {"Sweep"},
	writeRegistry: {"Migrate of a new limit", "Adopt of another program's limit"},
}

// Whatever fails for lack of a right was named by Ready before, or is left out there on purpose, and the error names the
// table and the right. Whatever Ready passes works.
func TestReadyNamesWhatFails(t *testing.T) {
	owned("example.com/app", programPolicies()...)
	onEachServer(t, func(t *testing.T, s live.Server) {
		db, at := s.Open(t), s
		schema := schema(t, s, db)
		table := schema + ".quotas"
		if s.Driver == "mysql" {
			at = database(t, s, schema)
		}
		migrator, app := user(t, at, db), user(t, at, db)
		statements := live.Must(s.Dialect.GrantsFor(table, dialect.Roles{App: role(t, app), Migrator: role(t, migrator)}))(t)
		before, after, _ := strings.Cut(statements, "-- After Migrate.\n")
		executeLines(t, db, before)
		t.Cleanup(func() { live.Drop(t, db, table) })
		owner := actor{dialect: at.Dialect, db: db, store: s.StoreWith(t, db, sqlstore.Options{Table: table})}
		require.NoError(t, migrator.Visit(t, table).Migrate(t.Context(), programPolicies()...))
		executeLines(t, db, after)

		with := func(rights ...string) live.Server {
			var grants []string
			for _, right := range rights {
				grants = append(grants, strings.Replace(right, " ON ", " ON "+schema+".", 1))
			}
			if s.Driver != "mysql" && len(rights) > 0 {
				grants = append(grants, "USAGE ON SCHEMA "+schema)
			}
			return user(t, at, db, grants...)
		}
		t.Run("app", func(t *testing.T) { owner.compare(t, app, table, writeRegistry) })
		t.Run("no right", func(t *testing.T) {
			failing := owner.compare(t, with(), table, append([]string{writeRegistry}, appRights...)...)
			assert.Len(t, failing, len(programActions))
		})
		t.Run("reads", func(t *testing.T) {
			owner.compare(t, with(readCounts, readLog, readRegistry), table,
				insertCounts, updateCounts, deleteCounts, insertLog, updateLog, deleteLog, writeRegistry)
		})
		for i, right := range appRights {
			t.Run("app without "+right, func(t *testing.T) {
				user := with(slices.Delete(slices.Clone(appRights), i, i+1)...)
				failing := owner.compare(t, user, table, right, writeRegistry)
				assert.NotEmpty(t, failing, "the right is not needed")
			})
		}
		t.Run("migrator", func(t *testing.T) {
			db := live.Must(sql.Open(migrator.Driver, migrator.DSN))(t)
			defer db.Close()
			for _, action := range programActions {
				if strings.HasPrefix(action.name, "Migrate") || strings.HasPrefix(action.name, "Adopt") {
					assert.NoError(t, owner.act(t, migrator, db, table, action), action.name)
				}
			}
		})
	})
}

// executeLines executes statements, one a line.
func executeLines(t *testing.T, db *sql.DB, statements string) {
	for line := range strings.Lines(statements) {
		if !strings.HasPrefix(line, "--") {
			live.Execute(t, db, strings.TrimSuffix(strings.TrimSpace(line), ";"))
		}
	}
}

// act lets a user do what the owner has prepared.
func (owner actor) act(t *testing.T, user live.Server, db *sql.DB, table string, action programAction) error {
	t.Helper()
	owner.word = live.NewTable()
	var prepared any
	if action.prepare != nil {
		prepared = action.prepare(t, owner, table)
	}
	as := actor{dialect: user.Dialect, db: db, word: owner.word}
	store := live.Must(agree.NewStore(db, user.Dialect, sqlstore.Options{Table: table}))(t)
	defer store.Close()
	as.store = store
	return action.do(t.Context(), as, prepared)
}

// compare compares what Ready returns for a user with what fails then.
func (owner actor) compare(t *testing.T, user live.Server, table string, lacks ...string) (failing []string) {
	t.Helper()
	ready := user.Visit(t, table).Ready(t.Context(), programPolicies()...)
	if errors.Is(ready, runtime.ErrUnusedOverrides) {
		ready = nil // everything else is in order: a Forget that failed has left them
	}
	if ready != nil {
		assert.True(t, explained(ready, table, lacks), "Ready: %v", ready)
	}
	db := live.Must(sql.Open(user.Driver, user.DSN))(t)
	defer db.Close()
	for _, action := range programActions {
		if err := owner.act(t, user, db, table, action); err != nil {
			failing = append(failing, action.name)
			assert.True(t, explained(err, table, lacks), "%s: %v", action.name, err)
		}
	}
	if ready == nil {
		var known []string
		for _, right := range lacks {
			known = append(known, leftOut[right]...)
		}
		assert.ElementsMatch(t, known, failing, "what fails although Ready passes")
	}
	t.Logf("Ready: %v\nfails: %s", ready, strings.Join(failing, ", "))
	return failing
}

// explained reports whether an error is about a table on which one of these rights is missing, and names the right.
func explained(err error, table string, lacks []string) bool {
	if strings.Contains(err.Error(), "Access denied for user") {
		// MySQL, to a database with no table that the user may use.
		return len(lacks) > len(appRights)
	}
	return slices.ContainsFunc(lacks, func(right string) bool {
		verbs, on, _ := strings.Cut(right, " ON ")
		on = strings.Replace(table, ".quotas", "."+on, 1)
		_, text, named := strings.Cut(err.Error(), " table "+strconv.Quote(on))
		if strings.HasPrefix(text, ", or no right to see it") {
			return right == readRegistry
		}
		hint, cause := text, ""
		if i := driverError.FindStringIndex(text); i != nil {
			hint, cause = text[:i[0]], text[i[0]:]
		}
		denied := deniedTable.FindStringSubmatch(cause)
		verb, _, _ := strings.Cut(verbs, ",")
		return named && strings.Contains(hint, verb) && denied != nil && slices.Contains(strings.Split(on, "."), denied[1])
	})
}

// driverError is the beginning of the error of a driver.
var driverError = regexp.MustCompile(`ERROR: |pq: |Error \d`)

// deniedTable finds the table, or the schema, in the error of a driver.
var deniedTable = regexp.MustCompile("(?:for|in) (?:table|schema) (?:\\S+\\.)?[`']?(\\w+)")
