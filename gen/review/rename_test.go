package review

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// The statement for a renamed limit keeps its rows. Where windows begin at a time derived from the name, the review says
// what a key can have after it.
func TestRenamedLimitKeepsItsCounts(t *testing.T) {
	for _, test := range []struct {
		rule string
		most int64
	}{
		{"kind: token bucket, rate: 100, period: 1h", 0},
		{"kind: fixed window, rate: 100, period: 1h, start: 0s", 0},
		{"kind: sliding window, rate: 100, period: 1h, start: 0s", 0},
		{"kind: fixed window, rate: 100, period: 1h", 100},
		{"kind: sliding window, rate: 100, period: 1h", 100},
	} {
		t.Run(test.rule, func(t *testing.T) {
			file := func(name string) string {
				return "version: 1\nlimits:\n  " + name + ": {doc: bounds sending., key: userID, " + test.rule + "}\n"
			}
			old, new := parse(t, "old", file("send")), parse(t, "new", file("post"))
			r := Of(old, new)
			require.Len(t, r.Subjects, 1)
			require.Len(t, r.Subjects[0].SQL, 1)
			said := saidAfterStatement(t, &r.Subjects[0])
			assert.Equal(t, test.most, said)

			before, after := left50(t, &old.Limits[0].Policy, &new.Limits[0].Policy, r.Subjects[0].SQL[0].Text)
			for i := range after {
				assert.Zero(t, before[i])
				assert.LessOrEqual(t, after[i], said)
			}
			if said > 0 {
				assert.NotEqual(t, before, after, "if no key has more, there is nothing to say")
			}
		})
	}
}

// saidAfterStatement returns what a key has up to after the statement, as the notes say.
func saidAfterStatement(t *testing.T, s *Subject) (most int64) {
	t.Helper()
	found := regexp.MustCompile(`After it, a key with less than one token left and nothing reserved has up to ([0-9,]+)\.`)
	for _, n := range s.Notes {
		if number := found.FindStringSubmatch(n.Text); number != nil {
			var err error
			most, err = strconv.ParseInt(number[1], 10, 64)
			require.NoError(t, err)
		}
	}
	return most
}

// left50 empties 50 keys of one policy, runs a statement, and returns what they have before and after, under the other
// policy.
func left50(t *testing.T, old, new *runtime.Policy, statement string) (before, after []int64) {
	t.Helper()
	path, now := filepath.Join(t.TempDir(), "limits.db"), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	store, err := sqlite.OpenWith(path, sqlstore.Options{Clock: func() time.Time { return now }})
	require.NoError(t, err)
	defer store.Close()
	ask := func(p *runtime.Policy, key int, q runtime.Request) runtime.Decision {
		q.Policy, q.Key = p, fmt.Sprint("user", key)
		answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
		require.NoError(t, err)
		require.NoError(t, answers[0].Err)
		return answers[0].Decisions[0]
	}
	for key := range 50 {
		require.True(t, ask(old, key, runtime.Request{Count: old.Capacity}).Allowed)
		before = append(before, ask(old, key, runtime.Request{Op: runtime.Peek}).Remaining)
	}
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), statement)
	require.NoError(t, err)
	for key := range 50 {
		after = append(after, ask(new, key, runtime.Request{Op: runtime.Peek}).Remaining)
	}
	return before, after
}
