// Package agree compares a store with the pure step: asked the same of the same rows, they must answer the
// same, and leave the same bits in the table. It is for the statements that decide in SQL.
package agree

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// Subject is a store, and the table in which it keeps its rows.
type Subject struct {
	Store   runtime.Store
	DB      *sql.DB
	Dialect sqlstore.Dialect
	Table   string
	Clock   *storetest.Clock
}

// Test asks batches of random calls of random rows.
func Test(t *testing.T, s Subject, batches int) {
	for seed := range uint64(batches) {
		d, policies, rows := s.roll(seed, 3)
		s.ask(t, rows, d.calls(policies), fmt.Sprintf("seed %d", seed))
	}
}

// Singly asks random calls of random rows, each by itself and some time after the one before.
func Singly(t *testing.T, s Subject, batches int) {
	for seed := range uint64(batches) {
		d, policies, rows := s.roll(seed, 1)
		s.put(t, rows)
		for i, call := range d.calls(policies) {
			s.compare(t, rows, []runtime.Call{call}, fmt.Sprintf("seed %d, call %d", seed, i))
			s.Clock.Add(time.Duration(d.Int64N(int64(policies[0].Period))))
		}
	}
}

// roll sets the clock, and returns so many limits and rows of them, at random.
func (s Subject) roll(seed uint64, limits int) (dice, []*runtime.Policy, map[runtime.Row]runtime.State) {
	d := dice{rand.New(rand.NewPCG(seed, 6+uint64(limits)))}
	s.Clock.Set(time.Unix(0, storetest.NewClock().Now().UnixNano()+d.Int64N(1e15)))
	policies := d.policies(limits)
	return d, policies, d.rows(policies, s.Clock.Now().UnixNano())
}

// One asks one question of one row, which is not there if its state was never seen.
func (s Subject) One(t testing.TB, p *runtime.Policy, before runtime.State, q runtime.Request) {
	row := runtime.Row{Name: p.Name}
	q.Policy = p
	call := runtime.Call{Requests: []runtime.Request{q}}
	s.ask(t, map[runtime.Row]runtime.State{row: before}, []runtime.Call{call}, fmt.Sprintf("%+v of %+v in %+v", q, *p, before))
}

// ask has the store and the step answer calls of the same rows.
func (s Subject) ask(t testing.TB, rows map[runtime.Row]runtime.State, calls []runtime.Call, what string) {
	t.Helper()
	s.put(t, rows)
	s.compare(t, rows, calls, what)
}

// compare is ask for a table that holds the rows.
func (s Subject) compare(t testing.TB, rows map[runtime.Row]runtime.State, calls []runtime.Call, what string) {
	t.Helper()
	want := runtime.NewBatch(calls)
	states := make([]runtime.State, len(want.Rows()))
	for i, row := range want.Rows() {
		states[i] = rows[row]
	}
	require.True(t, want.Run(s.Clock.Now().UnixNano(), states))
	for _, c := range want.Changes() {
		rows[c.Row] = c.State
	}

	answers, err := s.Store.Do(context.Background(), calls)
	require.NoError(t, err, what)
	for i, a := range want.Answers() {
		require.Equal(t, fmt.Sprint(a.Err), fmt.Sprint(answers[i].Err), what)
		require.Equal(t, a.Decisions, answers[i].Decisions, "call %d of %s", i, what)
	}
	for row, state := range rows {
		require.Equal(t, state, s.get(t, row), "stored by %s", what)
	}
}

// put makes the table hold these rows and no others.
func (s Subject) put(t testing.TB, rows map[runtime.Row]runtime.State) {
	_, err := s.DB.Exec("DELETE FROM " + s.Table)
	require.NoError(t, err)
	tx, err := s.DB.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	insert := s.sql("INSERT INTO " + s.Table + " (name, {key}, shard, value, ts, prev) VALUES (?, ?, ?, ?, ?, ?)")
	for r, state := range rows {
		if state.Exists {
			_, err := tx.Exec(insert, r.Name, r.Key, r.Shard, state.Value, state.TS, state.Prev)
			require.NoError(t, err)
		}
	}
	require.NoError(t, tx.Commit())
}

func (s Subject) get(t testing.TB, r runtime.Row) runtime.State {
	state := runtime.State{Exists: true}
	query := s.sql("SELECT value, ts, prev FROM " + s.Table + " WHERE name = ? AND {key} = ? AND shard = ?")
	err := s.DB.QueryRow(query, r.Name, r.Key, r.Shard).Scan(&state.Value, &state.TS, &state.Prev)
	if err == sql.ErrNoRows {
		return runtime.State{}
	}
	require.NoError(t, err)
	return state
}

// sql writes a statement as the dialect wants it.
func (s Subject) sql(text string) string {
	text = strings.ReplaceAll(text, "{key}", s.Dialect.Quote+"key"+s.Dialect.Quote)
	for i := 1; s.Dialect.Numbered && strings.Contains(text, "?"); i++ {
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", i), 1)
	}
	return text
}
