// Package viewstest compares the views of package views with package runtime, on any database.
//
// Random histories of requests, partly under an earlier version of the limits, leave their rows in a table. At random
// instants, the view must show of every key what a Peek returns.
package viewstest

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/gen/views"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// Limits has limits of every kind, with shards, plans, calendars, and numbers that round.
const Limits = `
version: 1
plans: [free, pro, enterprise]
limits:
  bucket: {key: k, kind: token bucket, rate: 10, period: 1m, capacity: 20}
  deep: {key: k, kind: token bucket, rate: 7, period: 1d, capacity: 1000, maxReserved: unbounded}
  spaced: {key: k, kind: token bucket, rate: 2, period: 1m, capacity: 0, maxReserved: 6}
  large: {key: k, kind: token bucket, rate: 1_000_000_000_000, period: 7s, capacity: 900_000_000_000_000}
  quick: {key: k, kind: token bucket, rate: 1000, period: 1ms}
  split: {key: k, kind: token bucket, rate: 40_003, period: 1m, capacity: 40_007, maxReserved: 80_001, shards: 10}
  byPlan:
    key: k
    kind: token bucket
    rate: {free: 60, pro: 700, enterprise: unlimited}
    capacity: {free: 100, pro: 1_000}
    period: {free: 1m, pro: 2m}
  perKey: {key: k, kind: fixed window, rate: 100, period: 1h}
  carried: {key: k, kind: fixed window, rate: 100, period: 1h, capacity: 330, maxReserved: 70}
  endless: {key: k, kind: fixed window, rate: 3, period: 90s, maxReserved: unbounded}
  dated: {key: k, kind: fixed window, rate: 5000, period: 1d, capacity: 7500, start: 2024-01-01T03:00:00Z}
  offset: {key: k, kind: fixed window, rate: 12, period: 1h, capacity: 30, start: 25m, maxReserved: 40}
  splitWindow: {key: k, kind: fixed window, rate: 101, period: 1h, capacity: 230, maxReserved: 70, shards: 4}
  firstUse: {key: k, kind: fixed window, rate: 3, period: 10m, capacity: 5, start: first use, maxReserved: 6}
  windowByPlan:
    key: k
    kind: fixed window
    rate: {free: 10, pro: 100, enterprise: unlimited}
    period: 1h
  berlin: {key: k, kind: fixed window, rate: 100_000, period: month, zone: Europe/Berlin, start: 15th}
  santiago: {key: k, kind: fixed window, rate: 10, period: day, capacity: 35, zone: America/Santiago, maxReserved: 40}
  weekly: {key: k, kind: fixed window, rate: 10, period: week, zone: Asia/Kathmandu, start: monday}
  quarterly: {key: k, kind: fixed window, rate: 10, period: 3 month, zone: UTC, capacity: 25}
  splitDay: {key: k, kind: fixed window, rate: 10, period: day, capacity: 31, zone: Australia/Lord_Howe, shards: 3, maxReserved: 20}
  sliding: {key: k, kind: sliding window, rate: 5, period: 1m}
  slidingOffset: {key: k, kind: sliding window, rate: 50, period: 1h, start: 10m}
  splitSliding: {key: k, kind: sliding window, rate: 103, period: 1m, shards: 4}
  log: {key: k, kind: sliding window, rate: 12, period: 1m, precise: true}
  one: {key: k, kind: sliding window, rate: 1, period: 1m, precise: true}
  blocked: {key: k, kind: token bucket, rate: 10, period: 1m, mode: block}
  shadowed: {key: k, kind: token bucket, rate: 10, period: 1m, mode: shadow}
  anniversary: {key: k, kind: fixed window, rate: 10, period: month, zone: UTC, start: anniversary}
  local: {key: k, kind: fixed window, rate: 10, period: day, zone: per key}
  off: {key: k, kind: token bucket, rate: 10, period: 1m, mode: off}
  given: {key: k, kind: token bucket, rate: 10, period: 1m, capacity: 20, maxReserved: 5, overrides: {rate: 100, capacity: 300, maxReserved: 40}}
  givenAny: {key: k, kind: token bucket, rate: 10, period: 1m, maxReserved: unbounded, overrides: {rate: unlimited}}
  givenShards: {key: k, kind: token bucket, rate: 403, period: 1m, capacity: 407, maxReserved: 81, shards: 4, overrides: {rate: 2000, capacity: 3000, maxReserved: 500}}
  givenPlan:
    key: k
    kind: token bucket
    rate: {free: 60, pro: 700, enterprise: unlimited}
    capacity: {free: 100, pro: 1_000}
    period: {free: 1m, pro: 2m}
    overrides: {rate: 2_000, capacity: 5_000}
  givenWindow: {key: k, kind: fixed window, rate: 100, period: 1h, capacity: 330, maxReserved: 70, overrides: {rate: 300, capacity: 500, maxReserved: 90}}
  givenEndless: {key: k, kind: fixed window, rate: 3, period: 90s, maxReserved: unbounded, overrides: {rate: unlimited}}
  givenSplitWindow: {key: k, kind: fixed window, rate: 101, period: 1h, capacity: 230, maxReserved: 70, shards: 4, overrides: {rate: 300, capacity: 500, maxReserved: 90}}
  givenPlanWindow:
    key: k
    kind: fixed window
    rate: {free: 10, pro: 100, enterprise: unlimited}
    period: 1h
    overrides: {rate: 500}
  givenMonth: {key: k, kind: fixed window, rate: 100, period: month, zone: Europe/Berlin, start: 15th, capacity: 250, overrides: {rate: 300, capacity: 600}}
  givenSliding: {key: k, kind: sliding window, rate: 50, period: 1h, start: 10m, overrides: {rate: unlimited}}
  givenSplitSliding: {key: k, kind: sliding window, rate: 103, period: 1m, shards: 4, overrides: {rate: 300}}
  givenLog: {key: k, kind: sliding window, rate: 12, period: 1m, precise: true, overrides: {rate: 30}}
`

// keysPerLimit is how many keys each limit has, and instantsPerRows at how many instants their rows are read.
const (
	keysPerLimit    = 3
	instantsPerRows = 100
)

// suite is a table with views, and the keys in it.
type suite struct {
	*rand.Rand
	t             *testing.T
	db            *sql.DB
	dialect       sqlstore.Dialect
	table, clock  string
	limits, peeks []*runtime.Policy
	plans         map[*runtime.Policy]string
	keys          []key
	// view selects the rows of the view.
	view *sql.Stmt
	// log has the blocks and overrides, and now is its time.
	log *runtime.MemStore
	now int64
	// latest is the instant at which the histories end.
	latest int64
	// resolution is that of the timestamps of the database.
	resolution time.Duration
}

// key is the rows of one key of a limit.
type key struct {
	name, key string
	states    []runtime.State
}

// Run compares the views with the runtime at a number of random instants. The tables that it creates begin with a name,
// and are dropped.
func Run(t *testing.T, db *sql.DB, dialect sqlstore.Dialect, table string, instants int) {
	s := create(t, db, dialect, table, "(SELECT ns FROM "+table+"_clock)")
	compared := 0
	for i := range instants {
		if i%instantsPerRows == 0 {
			s.write()
		}
		compared += s.compare(s.instant())
	}
	t.Logf("%d instants, %d rows of the view", instants, compared)
	require.Greater(t, compared, instants, "a view without rows would pass")
}

// create creates the table and its views, and the table of a clock.
func create(t *testing.T, db *sql.DB, dialect sqlstore.Dialect, table, now string) *suite {
	file, diagnostics := spec.Parse("limits.yaml", []byte(Limits))
	require.Empty(t, diagnostics)
	const seed = 20261122
	s := &suite{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, db: db, dialect: dialect, table: table, clock: table + "_clock",
		plans: map[*runtime.Policy]string{}, resolution: 3 * time.Microsecond}
	if dialect.Name == sqlstore.SQLite.Name {
		s.resolution = 2 * time.Millisecond
	}
	for _, l := range file.Limits {
		s.limits = append(s.limits, &l.Policy)
		s.peek(l)
	}
	ddl, err := dialect.DDL(table)
	require.NoError(t, err)
	overrides, err := dialect.OverridesDDL(table)
	require.NoError(t, err)
	text, err := views.SQL(file, views.Options{Dialect: dialect, Table: table, Now: now})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, drop := range []string{"VIEW " + table + "_now", "VIEW " + table + "_windows", "TABLE " + table, "TABLE " + sqlstore.OverridesTable(table), "TABLE " + s.clock} {
			s.exec("DROP " + drop)
		}
	})
	s.exec(ddl)
	s.exec(overrides)
	s.exec("CREATE TABLE " + s.clock + " (ns BIGINT)")
	s.exec("INSERT INTO " + s.clock + " VALUES (0)")
	// Twice, because they replace the views.
	for _, statement := range append(Statements(text), Statements(text)...) {
		s.exec(statement)
	}
	text, err = dialect.Text("SELECT name, {key}, plan, tokens_left, capacity, full_at, in_debt, in_force FROM {table}", table+"_now")
	require.NoError(t, err)
	s.view, err = db.Prepare(text)
	require.NoError(t, err)
	t.Cleanup(func() { s.view.Close() })
	return s
}

// peek adds the policies of a limit. Those of plans know each other, so that an override can give a key another plan.
func (s *suite) peek(l *spec.Limit) {
	if len(l.Plans) == 0 {
		s.peeks = append(s.peeks, &l.Policy)
		return
	}
	policies := make(runtime.PlanPolicies, len(l.Plans)+1)
	names := runtime.PlanNames{""}
	for i, of := range l.Plans {
		policies[i+1], names = of.Policy, append(names, of.Plan)
	}
	linked := policies.Overridable(names)
	for i, of := range l.Plans {
		s.plans[&linked[i+1]] = of.Plan
		s.peeks = append(s.peeks, &linked[i+1])
	}
}

// Statements splits what views.SQL returns, because not every driver executes several statements at once.
func Statements(text string) (all []string) {
	for statement := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(statement) != "" {
			all = append(all, statement)
		}
	}
	return all
}

func (s *suite) exec(statement string) {
	s.t.Helper()
	_, err := s.db.ExecContext(context.Background(), statement)
	require.NoError(s.t, err, "%.300s", statement)
}

// instant returns a random instant near the end of the histories, by the period of some limit.
func (s *suite) instant() int64 {
	period := float64(s.limits[s.IntN(len(s.limits))].Period)
	return s.latest + int64(period*(6*math.Pow(s.Float64(), 3)-0.2))
}

// shown is a row of the view.
type shown struct {
	left, capacity sql.NullFloat64
	full           time.Time
	inDebt         bool
	inForce        string
}

// compare reads the view at an instant, and compares it with a Peek of every key.
func (s *suite) compare(now int64) int {
	s.exec(fmt.Sprintf("UPDATE %s SET ns = %d", s.clock, now))
	s.now = now
	found := s.read()
	for _, p := range s.peeks {
		for _, k := range s.keys {
			if k.name != p.Name || !s.visible(p, k) {
				continue
			}
			id := k.name + " " + s.plans[p] + " " + k.key
			row, ok := found[id]
			require.True(s.t, ok, "%s is missing at %d: %+v", id, now, k.states)
			delete(found, id)
			p := s.inForce(p, k.key, row)
			if p == nil {
				continue
			}
			_, d, err := Step(p, append([]runtime.State(nil), k.states...), now, runtime.Request{Policy: p, Key: k.key, Op: runtime.Peek}, 0)
			require.NoError(s.t, err)
			require.True(s.t, row.left.Valid, id)
			require.InDelta(s.t, d.Value, row.left.Float64, 1e-6, "tokens_left of %s at %d: %+v of %+v", id, now, k.states, p)
			require.Equal(s.t, float64(p.Capacity), row.capacity.Float64)
			require.Equal(s.t, d.Value < -1e-6, row.inDebt, id)
			s.compareFull(p, now, d.FullAfter, row.full, fmt.Sprintf("%s at %d: %+v of %+v", id, now, k.states, p))
		}
	}
	require.Empty(s.t, found, "rows of keys that have none")
	return len(s.keys)
}

// visible reports whether a key must be in the view.
func (s *suite) visible(p *runtime.Policy, k key) bool {
	if p.Mode == runtime.ModeOff || p.Mode == runtime.ModeUnlimited || p.Calendar.PerKey() {
		return false
	}
	for shard, state := range k.states {
		if state.Exists && shard < max(1, p.Shards) {
			return true
		}
	}
	return false
}

// lastWindow is an instant within the last windows of the view of the calendars.
var lastWindow = time.Date(2049, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()

func (s *suite) compareFull(p *runtime.Policy, now int64, after time.Duration, full time.Time, about string) {
	s.t.Helper()
	at := now + int64(after)
	switch {
	case at < now || after == math.MaxInt64:
		return // later than any instant of package runtime
	case p.Calendar.Unit != 0 && at > lastWindow:
		return
	}
	// A double has 0.2 µs at the seconds since 1970, and a bucket that fills slowly loses as many digits of its duration.
	tolerance := s.resolution + time.Duration(float64(after)*1e-9)
	require.WithinDuration(s.t, time.Unix(0, at), full, tolerance, "full_at of %s", about)
}

// read returns the rows of the view, by limit, plan and key.
func (s *suite) read() map[string]shown {
	rows, err := s.view.QueryContext(context.Background())
	require.NoError(s.t, err)
	defer rows.Close()
	found := map[string]shown{}
	for rows.Next() {
		var name, key string
		var plan, inForce sql.NullString
		var row shown
		var full any
		require.NoError(s.t, rows.Scan(&name, &key, &plan, &row.left, &row.capacity, &full, &row.inDebt, &inForce))
		row.inForce = inForce.String
		row.full = s.instantOf(full)
		id := name + " " + plan.String + " " + key
		require.NotContains(s.t, found, id, "two rows for one key")
		found[id] = row
	}
	require.NoError(s.t, rows.Err())
	return found
}

// instantOf returns a timestamp, which is a text on some databases, or the zero time for NULL.
func (s *suite) instantOf(value any) time.Time {
	switch v := value.(type) {
	case time.Time:
		return v
	case string:
		return s.instantOf([]byte(v))
	case []byte:
		t, err := time.Parse("2006-01-02 15:04:05.999999999", string(v))
		require.NoError(s.t, err)
		return t
	}
	return time.Time{}
}
