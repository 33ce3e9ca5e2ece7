package conformance

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// edit is an edit of a limit.
type edit struct {
	name, old, new string
	// blocked are keys that operators have blocked before it. Those that have no new key are listed by a statement.
	blocked []moved
	// unblocked are keys of the new version that must not be blocked.
	unblocked [][]string
}

// merges reports whether keys of the old version become one, which starts full.
func (e edit) merges() bool {
	for i, key := range e.blocked {
		same := func(other moved) bool { return key.new != nil && slices.Equal(key.new, other.new) }
		if slices.ContainsFunc(e.blocked[i+1:], same) {
			return true
		}
	}
	return false
}

// moved is a key before and after an edit.
type moved struct{ old, new []string }

const hostile = `a\"|b'%` + "\n" + "é"

var edits = []edit{
	{
		"rename", "send: {key: userID, ", "post: {key: userID, goName: Send, ",
		[]moved{{[]string{"7"}, []string{"7"}}, {[]string{hostile}, []string{hostile}}},
		[][]string{{"8"}},
	},
	{
		"rename of a limit with plans", "send: {key: userID, period: 1h, capacity: {free: 10, pro: 20}, ", "post: {key: userID, goName: Send, period: 1h, capacity: {free: 10, pro: 20}, ",
		[]moved{{[]string{"7"}, []string{"7"}}},
		nil,
	},
	{
		"order", "send: {key: {from: string, to: string}, ", "send: {key: {to: string, from: string}, ",
		[]moved{
			{[]string{"1", "2"}, []string{"2", "1"}}, {[]string{"2", "1"}, []string{"1", "2"}}, {[]string{"3", "4"}, []string{"4", "3"}},
			{[]string{hostile, ""}, []string{"", hostile}}, {[]string{strings.Repeat("long", 100), "2"}, nil},
		},
		[][]string{{"3", "4"}, {hostile, ""}},
	},
	{
		"order of three", "send: {key: {team: string, model: string, zone: string}, ", "send: {key: {zone: string, team: string, model: string}, ",
		[]moved{{[]string{"t", "m", "z"}, []string{"z", "t", "m"}}, {[]string{"", hostile, "|"}, []string{"|", "", hostile}}},
		[][]string{{"t", "m", "z"}},
	},
	{
		"fewer parts", "send: {key: {team: string, model: string}, ", "send: {key: {team: string}, ",
		[]moved{{[]string{"t", "m"}, []string{"t"}}, {[]string{"two", "m"}, []string{"two"}}, {[]string{"two", "n"}, []string{"two"}}},
		[][]string{{"m"}},
	},
	{
		"another part", "send: {key: {team: string}, ", "send: {key: {team: string, model: string}, ",
		[]moved{{[]string{"t"}, nil}, {[]string{"u"}, nil}},
		[][]string{{"t", "m"}},
	},
	{
		"hashed", "send: {key: {email: string}, ", "send: {key: {email: hashed string}, ",
		[]moved{{[]string{"a@example.com"}, nil}},
		nil,
	},
	{"no key", "send: {key: {team: string}, ", "send: {", []moved{{[]string{"t"}, nil}}, [][]string{{}}},
	{"first key", "send: {", "send: {key: {team: string}, ", nil, [][]string{{"t"}}},
	{
		"type", "send: {key: {userID: int64}, ", "send: {key: {userID: string}, ",
		[]moved{{[]string{"7"}, []string{"7"}}},
		[][]string{{"8"}},
	},
	{
		"name of a part", "send: {key: {userID: string}, ", "send: {key: {accountID: string}, ",
		[]moved{{[]string{"7"}, []string{"7"}}},
		nil,
	},
}

// reviewKeepsBlocks runs, for edits of the name and the key of a limit, the SQL that a review prints for a dialect. Before
// it, while it runs and after it, blocked keys are blocked in the old version and in the new one, in processes that have
// followed the log and in those that read it later; and keys keep their counts, unless several become one. open returns a
// store of another process on the table, which was migrated.
func reviewKeepsBlocks(t *testing.T, db *sql.DB, database, table string, open func(t *testing.T) *sqlstore.Store) {
	for _, e := range edits {
		t.Run(e.name, func(t *testing.T) {
			old, now := parse(t, e.file(e.old)), parse(t, e.file(e.new))
			d := deployOf(t, old, now, db, database, table)
			d.edit = e
			d.run(func() process { return process{t, old, open(t)} }, func() process { return process{t, now, open(t)} })
		})
	}
}

// deploy is a deploy of an edit, with the statements of its review for one database.
type deploy struct {
	t *testing.T
	edit
	db    *sql.DB
	table string
	sql   []review.Statement
}

// deployOf returns the deploy of a new version, with the statements that its review has for a dialect.
func deployOf(t *testing.T, old, now *spec.File, db *sql.DB, database, table string) deploy {
	d := deploy{t: t, db: db, table: table}
	for _, subject := range judge.Review(old, now).Subjects {
		for _, s := range subject.SQL {
			if s.Dialects == nil || slices.Contains(s.Dialects, database) {
				d.sql = append(d.sql, s)
			}
		}
	}
	return d
}

// empty empties the tables.
func (d deploy) empty() {
	for _, table := range []string{"rate_limit_overrides", "rate_limits", "rate_limit_registry"} {
		d.execute("DELETE FROM " + table)
	}
}

// run starts processes of the old and of the new version when they matter.
func (d deploy) run(old, now func() process) {
	d.empty()
	was, is := old(), now()
	require.NoError(d.t, was.store.Migrate(d.t.Context(), was.policy()))
	was.block([]string{"forgotten"}, time.Hour)
	d.execute("UPDATE rate_limit_overrides SET until_ns = 1")
	erased, err := was.store.Erase(d.t.Context(), was.policy().Name, "forgotten", runtime.OverrideEnd{Reason: "r", Author: "a"})
	require.NoError(d.t, err)
	require.Equal(d.t, 1, erased.Entries)
	for i, key := range d.blocked {
		was.ask(runtime.Take, key.old, int64(i+1))
		was.block(key.old, time.Duration(i+1)*time.Hour)
	}
	was.block([]string{"lifted"}, time.Hour)
	_, err = was.limit([]string{"lifted"}).Unblock(d.t.Context(), runtime.OverrideEnd{Reason: "r", Author: "a"})
	require.NoError(d.t, err)
	_, err = limiter.New(was.store).OverridesForAll(was.policy()).Set(d.t.Context(), runtime.Override{Rate: 77, Until: runtime.ForGood(), Reason: "r", Author: "a"})
	require.NoError(d.t, err)
	oldKey, newKey := func(k moved) []string { return k.old }, func(k moved) []string { return k.new }
	d.check(oldKey, was)
	require.NoError(d.t, is.store.OverrideView().Refresh(d.t.Context()))

	d.lists()
	d.executeAll(review.BeforeNew)
	d.check(oldKey, was, old())
	d.check(newKey, is, now())
	d.executeAll(review.BetweenVersions)
	d.executeAll(review.AfterOld)
	require.NoError(d.t, is.store.Migrate(d.t.Context(), is.policy()), "the registry is that of the new version")
	for i, key := range d.blocked {
		if key.new != nil && !d.merges() {
			require.InDelta(d.t, float64(is.policy().Capacity)-float64(i+1), is.ask(runtime.Peek, key.new, 0).Value, 0.1, "the count of %q", key.new)
		}
	}
	for _, p := range []process{is, now()} {
		d.check(newKey, p)
		for _, key := range append(d.unblocked, []string{"lifted"}) {
			require.NotEqual(d.t, runtime.ModeBlock, p.inForce(key).Mode, "key %q", key)
		}
		require.NoError(d.t, p.store.Ready(d.t.Context(), p.policy()))
	}
	var entries int
	require.NoError(d.t, d.db.QueryRow(d.inTable("SELECT COUNT(*) FROM rate_limit_overrides WHERE what = 'erased' OR reason = 'erased'")).Scan(&entries))
	require.Equal(d.t, 2, entries, "the entries of an erased key are not in force")
}

// check checks that keys are blocked in some processes, and that the override of the whole limit is in force.
func (d deploy) check(key func(moved) []string, processes ...process) {
	d.t.Helper()
	for _, p := range processes {
		require.NoError(d.t, p.store.OverrideView().Refresh(d.t.Context()))
		for _, k := range d.blocked {
			if parts := key(k); parts != nil {
				require.Equal(d.t, runtime.ModeBlock, p.inForce(parts).Mode, "key %q", parts)
			}
		}
		require.EqualValues(d.t, 77, p.inForce([]string{"another", "key", "altogether"}).Rate, "the override of the whole limit")
	}
}

// lists checks that a statement lists the keys that have no new key.
func (d deploy) lists() {
	var lost, listed []string
	for _, k := range d.blocked {
		if k.new == nil {
			lost = append(lost, keyOf(k.old).String())
		}
	}
	for _, s := range d.sql {
		if !strings.HasPrefix(s.Text, "SELECT ") {
			continue
		}
		rows, err := d.db.Query(d.inTable(s.Text))
		require.NoError(d.t, err, s.Text)
		defer rows.Close()
		for rows.Next() {
			var key, what, reason string
			var until int64
			require.NoError(d.t, rows.Scan(&key, &what, &until, &reason))
			listed = append(listed, key)
		}
		require.NoError(d.t, rows.Err())
	}
	require.ElementsMatch(d.t, lost, listed)
}

// executeAll executes the statements that keep what is stored, for a moment.
func (d deploy) executeAll(at review.Moment) {
	for _, s := range d.sql {
		if s.Keeps == at {
			d.execute(s.Text)
		}
	}
}

func (d deploy) execute(text string) {
	_, err := d.db.Exec(d.inTable(text))
	require.NoError(d.t, err, text)
}

// inTable returns a statement for the table of the test.
func (d deploy) inTable(text string) string {
	return strings.NewReplacer("rate_limit_overrides", dialect.OverridesTable(d.table), "rate_limit_registry", dialect.RegistryTable(d.table),
		"rate_limits", d.table).Replace(text)
}

// planName is the name of a plan.
type planName string

func (p planName) MarshalText() ([]byte, error) { return []byte(p), nil }

// reviewKeepsPlans does the same for an override that gives a key a plan which is then renamed.
func reviewKeepsPlans(t *testing.T, db *sql.DB, database, table string, open func(t *testing.T) *sqlstore.Store) {
	const text = "version: 1\nplans: [free, pro]\nlimits:\n  send: {key: userID, kind: token bucket, rate: {free: 5, pro: 60}, period: 1h, overrides: {rate: 100}}\n"
	old, now := parse(t, text), parse(t, strings.ReplaceAll(text, "pro", "gold"))
	d := deployOf(t, old, now, db, database, table)
	d.execute("DELETE FROM rate_limit_overrides")
	_, err := process{t, old, open(t)}.limit([]string{"7"}).Set(t.Context(), runtime.Override{
		Plan: planName("pro"), Rate: 70, Until: runtime.ForGood(), Reason: "r", Author: "a",
	})
	require.NoError(t, err)
	// A limit of another program, which still has the plan.
	d.execute("INSERT INTO rate_limit_overrides SELECT o.id + 1, 'other', o.key, o.what, o.plan, o.rate, o.capacity, o.max_reserved, o.most_rate, " +
		"o.most_capacity, o.most_reserved, o.may_lift, o.until_ns, o.reason, o.author, o.at_ns FROM rate_limit_overrides o")
	d.executeAll(review.BetweenVersions)
	var others int
	require.NoError(t, d.db.QueryRow(d.inTable("SELECT COUNT(*) FROM rate_limit_overrides WHERE name = 'other'")).Scan(&others))
	require.Equal(t, 1, others)
	d.execute("DELETE FROM rate_limit_overrides WHERE name = 'other'")
	is := process{t, now, open(t)}
	require.NoError(t, is.store.OverrideView().Refresh(t.Context()))
	require.EqualValues(t, 70, is.inForce([]string{"7"}).Rate)
	require.NoError(t, is.store.Ready(t.Context(), is.policy()))
}

// file returns a file with a limit that has overrides.
func (e *edit) file(limit string) string {
	rate, plans := "rate: 10, period: 1h", ""
	if strings.Contains(limit, "free:") {
		rate, plans = "rate: {free: 5, pro: 6}", "plans: [free, pro]\n"
	}
	return "version: 1\n" + plans + "limits:\n  " + limit + "doc: bounds sending., kind: token bucket, " + rate + ", overrides: {rate: 100, capacity: 100}}\n"
}

func parse(t *testing.T, text string) *spec.File {
	t.Helper()
	file, problems := fields.Parse("limits.yaml", []byte(text))
	require.Empty(t, problems, text)
	return file
}

// process is a process that runs one version of the limit.
type process struct {
	t     *testing.T
	file  *spec.File
	store *sqlstore.Store
}

// policy returns that of the first plan, as generated code has it.
func (p process) policy() *runtime.Policy {
	policy, of := p.policyOf(), runtime.CatalogLimit{}
	for _, part := range p.file.Limits[0].Key {
		of.Key = append(of.Key, runtime.CatalogKey{Type: part.Type})
	}
	of.Policies = []*runtime.Policy{policy}
	runtime.NewCatalog("example.com/app", runtime.Catalog{Limits: []runtime.CatalogLimit{of}})
	return policy
}

func (p process) policyOf() *runtime.Policy {
	limit, names, policies := p.file.Limits[0], runtime.PlanNames{""}, runtime.PlanPolicies{{}}
	if len(limit.Plans) == 0 {
		return &limit.Policy
	}
	for _, plan := range limit.Plans {
		names, policies = append(names, plan.Plan), append(policies, plan.Policy)
	}
	return &policies.Overridable(names)[1]
}

func keyOf(parts []string) runtime.Key {
	all := make([]runtime.Part, len(parts))
	for i, part := range parts {
		all[i] = runtime.String(part)
	}
	return runtime.KeyOf(all...)
}

func (p process) limit(key []string) limiter.Overrides {
	return limiter.New(p.store).Overrides(p.policy(), keyOf(key))
}

// ask makes a request for a key, whatever is in force for it.
func (p process) ask(op runtime.Op, key []string, n int64) runtime.Decision {
	p.t.Helper()
	q := runtime.Request{Op: op, Policy: p.policy(), Key: keyOf(key).String(), Count: n}
	answers, err := p.store.Do(p.t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
	require.NoError(p.t, err)
	require.NoError(p.t, answers[0].Err)
	return answers[0].Decisions[0]
}

func (p process) block(key []string, length time.Duration) {
	p.t.Helper()
	_, err := p.limit(key).Block(p.t.Context(), runtime.Block{Until: time.Now().Add(length), Reason: fmt.Sprintf("%q", key), Author: "a"})
	require.NoError(p.t, err)
}

func (p process) inForce(key []string) *runtime.Policy {
	p.t.Helper()
	policy, err := p.store.OverrideView().PolicyOf(p.policy(), keyOf(key).String())
	require.NoError(p.t, err)
	return policy
}
