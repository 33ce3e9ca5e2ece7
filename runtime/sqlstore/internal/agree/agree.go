// Package agree compares a store with the Go step, for stores that decide in SQL: the same requests on the same rows must
// give the same answers, and leave the same bits in the table.
package agree

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/receipt"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// Subject is a store under test, and the table of its rows.
type Subject struct {
	Store   runtime.Store
	DB      *sql.DB
	Dialect dialect.Dialect
	Table   string
	Clock   *storetest.Clock
}

// Test makes batches of random calls on random rows, three on the same rows: before the last one, others change some of
// them.
func Test(t *testing.T, s Subject, batches int) {
	for seed := range uint64(batches) {
		d, policies, rows := s.generate(seed, 3)
		s.put(t, rows)
		for batch := range 3 {
			s.compare(t, rows, d.calls(policies), fmt.Sprintf("seed %d, batch %d", seed, batch))
			s.Clock.Add(time.Duration(d.Int64N(int64(policies[0].Period))))
			if batch == 1 {
				for row, state := range d.rows(policies, s.Clock.Now().UnixNano()) {
					if row.Key > key(keys/2) {
						rows[row] = state
					}
				}
				s.put(t, rows)
			}
		}
	}
}

// Singly makes random calls on random rows, each by itself and some time after the one before.
func Singly(t *testing.T, s Subject, batches int) {
	for seed := range uint64(batches) {
		d, policies, rows := s.generate(seed, 1+int(seed%3))
		s.put(t, rows)
		for i, call := range d.calls(policies) {
			s.compare(t, rows, []runtime.Call{call}, fmt.Sprintf("seed %d, call %d", seed, i))
			s.Clock.Add(time.Duration(d.Int64N(int64(policies[0].Period))))
		}
	}
}

// generate sets the clock, and returns random policies and rows. The same seed returns the same.
func (s Subject) generate(seed uint64, limits int) (generator, []*runtime.Policy, map[runtime.Row]runtime.State) {
	d := generator{rand.New(rand.NewPCG(seed, 6+uint64(limits))), map[string][]*runtime.Policy{}}
	s.Clock.Set(time.Unix(0, storetest.NewClock().Now().UnixNano()+d.Int64N(1e15)))
	policies := d.policies(limits)
	return d, policies, d.rows(policies, s.Clock.Now().UnixNano())
}

// One makes one request on one row. If before does not exist, neither does the row.
func (s Subject) One(t testing.TB, p *runtime.Policy, before runtime.State, q runtime.Request) {
	row := runtime.Row{Name: p.Name}
	q.Policy = p
	call := runtime.Call{Requests: []runtime.Request{q}}
	rows := map[runtime.Row]runtime.State{row: before}
	s.put(t, rows)
	s.compare(t, rows, []runtime.Call{call}, fmt.Sprintf("%+v of %+v in %+v", q, *p, before))
}

// compare requires that the store and the Go step agree on calls. The table holds the rows, which are updated.
func (s Subject) compare(t testing.TB, rows map[runtime.Row]runtime.State, calls []runtime.Call, what string) {
	t.Helper()
	want := batch.New(calls)
	states := make([]runtime.State, len(want.Rows()))
	for i, row := range want.Rows() {
		states[i] = rows[row]
	}
	require.True(t, want.Run(s.Clock.Now().UnixNano(), states))
	// rows has the states after the calls, for the comparison below and as the start of the next calls.
	for _, c := range want.Changes() {
		rows[c.Row] = c.State
	}

	answers, err := s.Store.Do(context.Background(), calls)
	require.NoError(t, err, what)
	for i, a := range want.Answers() {
		// Texts, because errors with values of their own are not equal.
		require.Equal(t, fmt.Sprint(a.Err), fmt.Sprint(answers[i].Err), what)
		require.Len(t, answers[i].Decisions, len(a.Decisions), what)
		for j, d := range a.Decisions {
			got := answers[i].Decisions[j]
			require.Equal(t, withoutReceipt(d), withoutReceipt(got), "call %d of %s", i, what)
			if total := got.RefundRequest(1).Total; total != 0 || s.Dialect.TakeInsertID == "" {
				require.Equal(t, d.RefundRequest(1).Total, total, "call %d of %s", i, what)
			}
		}
	}
	// All rows, because a statement must not write to rows of calls that it denied.
	for row, state := range rows {
		require.Equal(t, state, s.get(t, row), "stored by %s", what)
	}
}

// withoutReceipt returns a decision without what only refunds need.
func withoutReceipt(d runtime.Decision) runtime.Decision {
	d.Receipt = receipt.Receipt{}
	return d
}

// put replaces the rows of the table.
func (s Subject) put(t testing.TB, rows map[runtime.Row]runtime.State) {
	_, err := s.DB.Exec("DELETE FROM " + s.Table)
	require.NoError(t, err)
	// Rows above 0 are refused in a table without registrations.
	first := runtime.Policy{Name: "registered", Kind: runtime.TokenBucket, Rate: 1, Capacity: 1, Period: time.Hour}
	_, err = s.Store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Op: runtime.Peek, Policy: &first}}}})
	require.NoError(t, err)
	tx, err := s.DB.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	insert := s.sql(t, "INSERT INTO {table} (name, {key}, shard, value, at_ns, prev, log) VALUES (?, ?, ?, ?, ?, ?, ?)")
	for r, state := range rows {
		if state.Exists {
			var log []byte
			if state.Log != "" {
				log = []byte(state.Log)
			}
			_, err := tx.Exec(insert, r.Name, r.Key, r.Shard, state.Value, state.TS, state.Prev, log)
			require.NoError(t, err)
		}
	}
	require.NoError(t, tx.Commit())
}

// get returns the stored state of a row.
func (s Subject) get(t testing.TB, r runtime.Row) runtime.State {
	state := runtime.State{Exists: true}
	var log []byte
	query := s.sql(t, "SELECT value, at_ns, prev, log FROM {table} WHERE name = ? AND {key} = ? AND shard = ?")
	err := s.DB.QueryRow(query, r.Name, r.Key, r.Shard).Scan(&state.Value, &state.TS, &state.Prev, &log)
	if err == sql.ErrNoRows {
		return runtime.State{}
	}
	require.NoError(t, err)
	state.Log = string(log)
	return state
}

// sql fills in a statement for the table.
func (s Subject) sql(t testing.TB, text string) string {
	text, err := s.Dialect.Text(text, s.Table)
	require.NoError(t, err)
	return s.Dialect.WithNumbers(text)
}

// Guilty is the key that the table of [Innocents] refuses, by a constraint or a trigger.
const Guilty = "guilty"

// Innocents makes 300 calls at once, some of them for the key that the table refuses, and requires that all others take.
func Innocents(t *testing.T, store runtime.Store) {
	t.Helper()
	const calls = 300
	for _, kind := range runtime.Kinds() {
		for _, guilty := range [][]int{{0}, {137}, {5, 6, 299}} {
			p := &runtime.Policy{
				Name: fmt.Sprint("limit", kind, guilty), Kind: kind, Rate: 2, Capacity: 2, Period: runtime.MaxPeriod,
			}
			if kind == runtime.InFlight {
				p = &runtime.Policy{Name: p.Name, Kind: kind, Slots: 2, Hold: runtime.MaxPeriod}
			}
			all := make([]runtime.Call, calls)
			for i := range all {
				all[i].Requests = []runtime.Request{{Policy: p, Key: fmt.Sprint(i), Count: 1}}
			}
			for _, i := range guilty {
				all[i].Requests[0].Key = Guilty
			}
			answers, err := store.Do(context.Background(), all)
			require.Error(t, err)
			require.Len(t, answers, calls)
			passed := 0
			for i, a := range answers {
				if a.Allowed() {
					passed++
				}
				assert.Equal(t, all[i].Requests[0].Key != Guilty, a.Answered(), "call %d", i)
			}
			assert.Equal(t, calls-len(guilty), passed)
		}
	}
}
