package conformance

import (
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// The queries of CAPACITY.md list a transaction that keeps old versions of rows, while it is open.
func TestQueriesOfCapacityListOldTransactions(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		table := live.NewTable()
		store := s.StoreIn(t, db, table, nil)
		p := live.Granting(8)[0]
		live.Must(limiter.New(store).Limit(p, runtime.KeyOf(runtime.String("k"))).Allow(t.Context()))(t)

		tx := live.Must(db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))(t)
		var id, rows int64
		number := "connection_id()"
		if s.Dialect.Name == "postgres" {
			number = "pg_backend_pid()"
		}
		require.NoError(t, tx.QueryRow("SELECT "+number+", count(*) FROM "+table).Scan(&id, &rows))
		// MySQL refreshes its list only if it was not read for a tenth of a second.
		const every = 200 * time.Millisecond
		listed := func(want bool) func() bool {
			return func() bool { return lists(t, db, capacityQuery(t, s), id) == want }
		}
		assert.Eventually(t, listed(true), 10*time.Second, every)
		require.NoError(t, tx.Rollback())
		assert.Eventually(t, listed(false), 10*time.Second, every)
	})
}

// capacityQuery returns the query of CAPACITY.md for a server.
func capacityQuery(t *testing.T, s live.Server) string {
	t.Helper()
	page := live.Must(os.ReadFile("../CAPACITY.md"))(t)
	word := "innodb_trx"
	if s.Dialect.Name == "postgres" {
		word = "pg_stat_activity"
	}
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], word) {
			return block[1]
		}
	}
	require.Fail(t, "CAPACITY.md has no query about "+word)
	return ""
}

// lists reports whether a query selects a row about a session.
func lists(t *testing.T, db *sql.DB, query string, session int64) bool {
	t.Helper()
	rows := live.Must(db.Query(query))(t)
	defer rows.Close()
	found := false
	for rows.Next() {
		var holder sql.NullString // NULL for sessions of other users, without the privilege to see them
		var second, third any
		require.NoError(t, rows.Scan(&holder, &second, &third))
		found = found || holder.String == fmt.Sprint(session) || strings.HasPrefix(holder.String, fmt.Sprintf("session %d,", session))
	}
	require.NoError(t, rows.Err())
	return found
}
